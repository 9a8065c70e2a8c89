"""Merging and comparing indexes, and what conflict markers stand for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, ScopedRow
from cortex_replay.store.merge.merge import (
    compare_indexes,
    likely_originals,
    merge_indexes,
    read_sides,
    sides_of_conflict,
)


def row(name: str, answer: str = "a") -> FixtureRow:
    """The row of an answer to a question; both are a hex digit."""
    return FixtureRow(f"fixtures/m/{name * 16}-{answer * 8}.json", answer * 64, "m", name * 64)


def index(*rows: FixtureRow | ScopedRow) -> Index:
    return Index.of(rows, {"format": 1, "key": 1})


def paths(merged: Index) -> list[str]:
    return sorted(f"{one.prompt_hash[:1]}{one.blake3[:1]}" for one in merged.fixtures if one.prompt_hash)


SIDES = {
    "ours": ["one", "ours", "three"],
    "base": ["one", "base", "three"],
    "theirs": ["one", "theirs", "three"],
}


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_each_side_of_a_conflict_that_git_wrote_is_what_it_was(tmp_path: Path, style: str) -> None:
    """In every style: what the ancestor said belongs to neither side."""
    for name, lines in SIDES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    option = [] if style == "merge" else [f"--{style}"]
    done = subprocess.run(
        ["git", "merge-file", "-p", *option, "ours", "base", "theirs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    sides = sides_of_conflict(done.stdout)

    assert sides is not None
    assert sides.ours.split() == SIDES["ours"]
    assert sides.theirs.split() == SIDES["theirs"]
    assert (sides.base.split() if sides.base is not None else None) == (
        None if style == "merge" else SIDES["base"]
    )


def test_a_conflict_with_its_ancestor_is_merged_by_it() -> None:
    """What one side removed stays away, where the ancestor tells that it was there."""
    base, ours, theirs = index(row("1"), row("2")), index(row("1")), index(row("1"), row("2"), row("3"))
    texts = [render_index(one) for one in (ours, base, theirs)]
    text = f"<<<<<<< ours\n{texts[0]}||||||| base\n{texts[1]}=======\n{texts[2]}>>>>>>> theirs\n"

    sides = read_sides(text)

    assert sides is not None
    assert [paths(side) for side in sides] == [["1a", "2a"], ["1a"], ["1a", "2a", "3a"]]
    merged, conflicts = merge_indexes(*sides)
    assert (paths(merged), conflicts) == (["1a", "3a"], [])


def test_markers_without_an_ancestor_lose_nothing() -> None:
    texts = [render_index(index(row("1"))), render_index(index(row("1"), row("2")))]

    sides = read_sides(f"<<<<<<< ours\n{texts[0]}=======\n{texts[1]}>>>>>>> theirs\n")

    assert sides is not None
    assert paths(merge_indexes(*sides)[0]) == ["1a", "2a"]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged", "conflicts"),
    [
        ("a", "a", "b", ["b"], 0),
        ("a", "b", "a", ["b"], 0),
        ("a", "b", "b", ["b"], 0),
        ("a", "b", "c", [], 1),
        ("a", "", "a", [], 0),
        ("a", "a", "", [], 0),
        ("a", "", "", [], 0),
        ("a", "", "b", [], 1),
        ("a", "b", "", [], 1),
        ("", "a", "", ["a"], 0),
        ("", "", "a", ["a"], 0),
        ("", "a", "a", ["a"], 0),
        ("", "a", "b", [], 1),
    ],
)
def test_a_key_has_what_the_side_says_that_changed_it(
    base: str, ours: str, theirs: str, merged: list[str], conflicts: int
) -> None:
    old, here, there = (index(*([row("1", answer)] if answer else [])) for answer in (base, ours, theirs))

    found, contested = merge_indexes(old, here, there)

    assert [one.blake3[0] for one in found.fixtures] == merged
    assert len(contested) == conflicts
    if contested:
        assert [one.blake3[0] if one else "" for one in (contested[0].ours, contested[0].theirs)] == [
            ours,
            theirs,
        ]


def test_a_comparison_goes_by_key_and_by_hash() -> None:
    """A file that only got another name has not changed; one of the same name with other bytes has."""
    moved = row("1")._replace(path="fixtures/elsewhere.json")
    edited = row("2")._replace(blake3="e" * 64)

    found = compare_indexes(index(row("1"), row("2"), row("3")), index(moved, edited, row("4")))

    assert found.added == [row("4")]
    assert found.removed == [row("3")]
    assert found.changed == [(row("2"), edited)]


def test_line_ends_are_tried_both_ways() -> None:
    assert b"a\nb\n" in list(likely_originals(b"a\r\nb\r\n"))
    assert b"a\r\nb\r\n" in list(likely_originals(b"a\nb\n"))
    both = b"x\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n"
    assert {b"x\na\n", b"x\nb\n"} <= set(likely_originals(both))
