"""The normalisers that come with the program."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from cortex_replay.config import KeyRules, Normaliser, key_rules_for
from cortex_replay.config.built_in import BUILT_IN
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmRequest
from tests.config.conftest import Project
from tests.growth import grows_linearly

ALL = KeyRules().with_normalisers([f"builtin:{name}" for name in BUILT_IN])
ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"

MATCHED = {
    "iso-time": [
        *("2026-11-15T09:37:31Z", "2026-11-15 09:37", "2026-11-15T09:37:31.123456+02:00", "20261115T093731Z"),
        *("09:37:31", "2026-11-15 09:37:31,250", "23:59:60 +0000"),
    ],
    "date": [
        *("2026-11-15", "15 November 2026", "Nov 15, 2026", "Sunday, November 15, 2026", "Sun, 15 Nov 2026"),
        "May 5th, 2026",
    ],
    "uuid": [ID, ID.upper()],
    "temp-path": [
        *("/tmp/tmpab12cd", "/tmp/pytest-of-ada/pytest-12/test_one0", "/var/tmp/x.txt", "/private/tmp/a"),
        *("/var/folders/ab/c_d/T/tmpx1", r"C:\Users\ada\AppData\Local\Temp\tmp1"),
        *(r"C:\\Users\\ada\\AppData\\Local\\Temp\\tmp1", "/tmp/pytest-of-ada/pytest-3"),
    ],
    "hex-id": ["3f9ac41b", "0x7f3a5c00", "9b74c9897bac770ffc029102a200c5de", "DEADBEE0"],
    "duration": [
        *("1.23s", "350 ms", "2m 3s", "2m3.5s", "1 min 5 sec", "1h 5m", "10 minutes", "0:00:01.5", "3 µs"),
        *("1 hour, 2 minutes, 3 seconds", "1e-05s"),
    ],
}
LEFT = [
    *("9:37", "2026-13-45", "2026-11-15-03", "version 1.2.3", "12345678", "deadbeef", "facade", "DeadBee0"),
    *("foo/tmp/x", "./tmp/x", "/tmpfs/x", "5 m", "3 days", "5 senators", "v1.2s", "call_AbC123xyz", f"x{ID}"),
    *("16:9", "1:2", "Chapter 5", "2026", "$1,000,000", "0x1", "100%", "/usr/tmp", "May 2026"),
]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in MATCHED for text in MATCHED[name]])
def test_what_is_matched(name: str, text: str) -> None:
    """By the one that is for it, whole, wherever it stands in a sentence, and by no other."""
    for before, after in (("", ""), ("It was ", " then."), ("(", ")."), ('"', '",'), ("a\n", "\nb")):
        request, names = ALL.apply(LlmRequest("m", before + text + after))
        assert (request.system, names) == (f"{before}<{name}>{after}", [name])


@pytest.mark.parametrize("text", LEFT)
def test_what_is_left(text: str) -> None:
    """A number that means something must not become the same as every other."""
    assert ALL.apply(LlmRequest("m", f"See {text} for more.")) == (
        LlmRequest("m", f"See {text} for more."),
        [],
    )


def test_the_name_of_a_file_in_a_temporary_folder_stays() -> None:
    """Two files in it are two files."""
    asked = LlmRequest("m", "Read /tmp/pytest-of-ada/pytest-12/test_one0/in.txt, write /tmp/tmpab12/out.txt.")

    assert ALL.apply(asked)[0].system == "Read <temp-path>/in.txt, write <temp-path>/out.txt."


HOSTILE = [
    *("0", "a", "0a", "-", "0-", "00:00", "00:00:00", ":", "2026-11-15", "2026-11-15T", "2026-11-15 00:00:0"),
    *("/tmp/", "/tmp/.", "/tmp/a", "/tmp/pytest-of-", "/tmp/pytest-of-a/pytest-", "/var/folders/a/b/"),
    *("C:\\Users\\", "C:\\Users\\a\\AppData\\Local\\Temp\\", "a.", "....", "/", "\\"),
    *("3f2504e0-4f89-", f"{ID}-", "deadbeef", "aaaaaaa0", "0x", "0x0", "12345678"),
    *(
        "1h ",
        "1m ",
        "1 min ",
        "1h 1m ",
        "1.",
        "1e-",
        "1 hour, ",
        "Mon, ",
        "Monday, 15 ",
        "15 Nov ",
        "Sunday ",
    ),
]


@pytest.mark.parametrize("name", BUILT_IN)
def test_time_grows_with_the_text(name: str) -> None:
    """Twice the text takes about twice the time, however it was chosen."""
    pattern = re.compile(BUILT_IN[name])
    for unit in HOSTILE:
        small = unit * (20_000 // len(unit))
        once, twice = partial(pattern.sub, "", small), partial(pattern.sub, "", small + small)
        assert grows_linearly(once, twice), unit


@pytest.mark.parametrize("unit", HOSTILE)
def test_what_was_put_in_place_stays(unit: str) -> None:
    """Else a stored request would have another key the next time it is computed."""
    for text in (unit * 5, f"{unit} {unit}", unit + ID + unit, "/tmp/a/tmp/b" + unit):
        once, _ = ALL.apply(LlmRequest("m", text))
        assert ALL.apply(once) == (once, [])


def test_they_stand_in_a_configuration_in_place_of_a_pattern(project: Project) -> None:
    """By themselves or in a table, with the entry's name as the placeholder."""
    project.write(
        "[normalisers]\nat = 'builtin:iso-time'\nid = { pattern = 'builtin:uuid', placeholder = '#' }"
    )
    rules = key_rules_for(project.root)
    request, names = rules.apply(LlmRequest("m", f"09:37:31 {ID} 2026-11-15"))

    assert (request.system, names) == ("<at> # 2026-11-15", ["at", "id"])
    assert rules.normalisers["at"] == Normaliser("builtin:iso-time", "<at>")


def test_one_that_is_not_there(project: Project) -> None:
    project.write("[normalisers]\nat = 'builtin:uid'")
    with pytest.raises(InvalidRequest, match="names no built-in normaliser; did you mean uuid"):
        key_rules_for(project.root)
    with pytest.raises(InvalidRequest, match="there are iso-time, date"):
        Normaliser("builtin:", "x")


def test_further_ones_for_one_test() -> None:
    """Behind those that are there."""
    rules = KeyRules({"run": Normaliser("run [0-9]+", "<run>")})
    more = rules.with_normalisers({"n": "[0-9]+", "id": "builtin:uuid"})

    assert more.apply(LlmRequest("m", "run 1 of 2"))[0].system == "<run> of <n>"
    assert rules.apply(LlmRequest("m", "run 1 of 2"))[0].system == "<run> of 2"
    assert rules.with_normalisers("builtin:uuid") == rules.with_normalisers(["builtin:uuid"])
    assert more.with_normalisers({"id": "builtin:uuid"}) == more
    assert list(more.with_normalisers([]).normalisers) == ["run", "n", "id"]
    for further, reason in (
        (["[0-9]+"], "a pattern without a name"),
        ({"run": "x"}, "another normaliser has the same name"),
        ({"all": ".+"}, "would change <run>"),
        ({"x": "("}, "not a sound regular expression"),
        ({"a b": "x"}, "expected a name"),
    ):
        with pytest.raises(InvalidRequest, match=reason):
            rules.with_normalisers(further)


def test_every_one_is_documented() -> None:
    guide = (Path(__file__).parents[2] / "docs/configuration.md").read_text()

    assert [f"builtin:{name}" for name in BUILT_IN] == re.findall(
        r"^\| `(builtin:[a-z-]+)` \|", guide, re.MULTILINE
    )
