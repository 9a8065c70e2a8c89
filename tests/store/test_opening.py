"""A store of which some files are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.history.calls import read_calls
from cortex_replay.store.opening import open_in_part
from tests.builder import StoreBuilder

QUESTIONS = ["one", "two", "three"]


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    built = StoreBuilder(tmp_path)
    for question in QUESTIONS:
        built.add(question, f"{question}!")
    built.write()
    return built


def shown(root: Path) -> tuple[list[str], list[str]]:
    """What can be looked at, and what is wrong."""
    store, findings = open_in_part(root)
    damaged: list[Finding] = list(findings)
    calls = read_calls(store, damaged=damaged).calls
    return sorted(call.request.messages[0].content for call in calls), [one.code for one in damaged]


def test_a_whole_store_has_no_findings(builder: StoreBuilder) -> None:
    assert shown(builder.root) == (sorted(QUESTIONS), [])


def test_a_missing_file_and_an_unlisted_one_leave_the_rest(builder: StoreBuilder) -> None:
    (builder.root / builder.fixtures[0].path).unlink()
    (builder.root / builder.fixtures[1].path).with_name("stray.json").write_text("{}")

    assert shown(builder.root) == (["three", "two"], ["missing", "unlisted"])


def test_a_file_with_other_bytes_is_never_shown(builder: StoreBuilder) -> None:
    path = builder.root / builder.fixtures[1].path
    path.write_bytes(path.read_bytes().replace(b"two", b"tow"))

    assert shown(builder.root) == (["one", "three"], ["mismatch"])


def test_a_row_that_leads_out_of_the_store_is_left_out(builder: StoreBuilder) -> None:
    row = builder.fixtures[0]
    builder.write_index(builder.index_text().replace(row.path, "fixtures/../../secret.json"))

    questions, codes = shown(builder.root)

    assert questions == ["three", "two"]
    assert "path-unsafe" in codes


def test_an_index_that_is_broken_is_no_store(builder: StoreBuilder) -> None:
    builder.write_index("format = 1\n[[fixture]]\npath = 3\n")

    with pytest.raises(FixtureIntegrityFailed):
        open_in_part(builder.root)


def test_without_a_place_for_findings_the_first_ends_the_reading(builder: StoreBuilder) -> None:
    (builder.root / builder.fixtures[1].path).write_bytes(b"{}")

    with pytest.raises(FixtureIntegrityFailed):
        read_calls(open_in_part(builder.root)[0])
