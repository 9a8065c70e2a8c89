"""The secrets campaign: no planted secret reaches a disk or a terminal (see ``tests/security/campaign``).

In short here; CORTEX_REPLAY_TORTURE=1 takes it at full length. ``python -m tests.security.campaign`` prints
the table.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.redact.kinds import KINDS
from tests.sampling import IS_TORTURE, sample
from tests.security.campaign.clean_run import false_hits, recorded_false_hits
from tests.security.campaign.groups import CLEAN, GROUPS, judge_group
from tests.security.campaign.judge import Judge
from tests.security.campaign.plant import ENCODINGS, PATTERN_ENCODINGS, Planter
from tests.security.campaign.tally import complaints

_MOST_SHOWN = 40


def test_there_are_enough_kinds_and_encodings() -> None:
    assert len(KINDS) >= 25
    assert len(ENCODINGS) >= 7
    assert len(PATTERN_ENCODINGS) >= 7


@pytest.mark.parametrize("group", sample(GROUPS, 2))
def test_no_secret_is_written(group: str, tmp_path: Path) -> None:
    """Known values never, patterns at most once in two hundred."""
    outcome = judge_group(group, tmp_path)
    wrong = complaints([outcome])

    assert outcome.planted
    if wrong:
        shown = [f"{len(wrong)} leaks of {len(outcome.planted)} secrets", *wrong[:_MOST_SHOWN]]
        pytest.fail("\n".join(shown), pytrace=False)


def test_clean_texts_stay_as_they_are() -> None:
    """At most one in ten thousand is taken for more than it is."""
    found = false_hits(CLEAN)

    assert len(found) <= CLEAN // 10_000, found


def test_clean_calls_are_recorded_as_they_are(tmp_path: Path) -> None:
    """Also where variables that are named like secrets hold words."""
    count = 500 if IS_TORTURE else 28

    assert recorded_false_hits(tmp_path, count) == []


def test_the_judge_sees_every_encoding() -> None:
    """A secret of each kind in each encoding, before anything is cut out."""
    planter = Planter("judge", 2 * len(KINDS))
    planted = list(planter.plant("judge", kinds=list(KINDS)))
    judge = Judge(planted)
    missed = [
        str(one)
        for one in planted
        if one not in {leak.planted for leak in judge.leaks([("x", one.text.encode())])}
    ]

    assert missed == []


@pytest.mark.parametrize(
    "hide",
    [
        lambda value: json.dumps({"input": [value[i : i + 5] for i in range(0, 40, 5)]}),
        lambda value: "".join(f'data: {{"x": {{"delta": "{char}"}}}}\n\n' for char in value),
        lambda value: json.dumps({"events": [{"data": json.dumps({"d": char})} for char in value]}),
        lambda value: "".join(json.dumps({"response": char}) + "\n" for char in value),
        lambda value: json.dumps({"body_base64": base64.b64encode(f"ab{value}".encode()).decode()}),
        lambda value: quote(quote(f"/{value}/", safe=""), safe=""),
        lambda value: json.dumps(json.dumps({value: 1})),
        lambda value: "".join(f"&#{ord(char)};" for char in value),
        lambda value: "".join(f"\\\\u{ord(char):04x}" for char in value),
        lambda value: value.encode().hex(),
        lambda value: value[-15:],
    ],
    ids=["list", "SSE", "events", "NDJSON", "bytes", "quoted", "name", "HTML", "escapes", "hex", "the end"],
)
def test_the_judge_sees_what_is_hidden(hide: object) -> None:
    """Split, nested, encoded; and a part of it."""
    (one,) = Planter("hidden", 1).plant("hidden", kinds=["github"], classes=("known",))
    assert callable(hide)
    leaks = Judge([one]).leaks([("somewhere", hide(one.value).encode())])

    assert [leak.planted for leak in leaks] == [one]


def test_the_judge_blames_nobody_for_nothing() -> None:
    """Prefixes, placeholders and the secrets of others are no leaks."""
    planted = list(Planter("mine", 100).plant("mine"))
    others = [one.text for one in Planter("others", 100).plant("others")]
    texts = [*others, "[REDACTED:known-value]", "sk-" + "ant-api03-", *(one.tag for one in planted)]

    assert Judge(planted).leaks([("x", "\n".join(texts).encode())]) == []
