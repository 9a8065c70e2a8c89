from __future__ import annotations

import pytest

from cortex_replay.store.paths import are_plain_paths, fold_path, is_fixture_name, path_problem

GOOD = [
    "a.json",
    "fixtures/m/a-b_c.json",
    "a..b.json",
    ".hidden/x.json",
    "z with space.json",
    "é/漢字.json",
    "...",
    "🫨.json",
    "a\u00a0b",
]
BAD = [
    "",
    "/",
    "/etc/passwd",
    "a//b",
    "a/",
    ".",
    "..",
    "./a",
    "a/./b",
    "../a",
    "a/../b",
    "a/..",
    "a\\b",
    "C:a",
    "x:stream",
    "a\x00b",
    "a\nb",
    "a\x7fb",
    "a\u2028b",
    "a\u202eb",
    "a\ufeffb",
    "\ud800",
    "a\x1b[31mb",
]


@pytest.mark.parametrize("path", GOOD)
def test_good(path: str) -> None:
    """Any printable relative path."""
    assert path_problem(path) is None


@pytest.mark.parametrize("path", BAD)
def test_bad(path: str) -> None:
    """Whatever leaves the root, or means another file on another system."""
    assert path_problem(path) is not None


@pytest.mark.parametrize("path", [*GOOD, *BAD])
def test_the_look_at_many_paths_never_passes_a_bad_one(path: str) -> None:
    """It may be stricter than the rule, never laxer; also next to others."""
    for paths in ([path], ["a.json", path], [path, "a.json"], ["a.json", path, "b.json"]):
        if are_plain_paths(paths):
            assert path_problem(path) is None
            assert len({fold_path(other) for other in paths}) == len(paths)


def test_the_look_at_many_paths_passes_ours() -> None:
    """Or it would be no use."""
    assert are_plain_paths([f"fixtures/m/{i:016x}-{i:08x}.json" for i in range(100)])
    assert not are_plain_paths(["a.json", "A.json"])


@pytest.mark.parametrize(
    ("one", "other"),
    [("A.json", "a.json"), ("é", "e\u0301"), ("É", "e\u0301"), ("straße", "STRASSE"), ("ſ", "s")],
)
def test_names_that_are_one_file_somewhere(one: str, other: str) -> None:
    """By letter case or by Unicode form."""
    assert fold_path(one) == fold_path(other)


@pytest.mark.parametrize(
    ("name", "must_be_listed"),
    [
        ("a.json", True),
        ("a.JSON", True),
        (".json", True),
        ("a.Json", True),
        ("a.json.tmp", False),
        ("json", False),
    ],
)
def test_what_must_be_listed(name: str, must_be_listed: bool) -> None:
    """Every ``*.json``, in any letter case."""
    assert must_be_listed == is_fixture_name(name)
