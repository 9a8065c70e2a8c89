"""``cortex-replay merge-driver``; as git calls it, it is tested in tests/store and tests/security."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay.store.trust import trust_index
from tests.builder import StoreBuilder
from tests.cli.commands import run


def index_of(folder: Path, answers: dict[str, str]) -> Path:
    """The index of a store with these answers."""
    builder = StoreBuilder(folder)
    for question, text in answers.items():
        builder.add(question, text)
    builder.write()
    return folder / "INDEX.toml"


def merge(tmp_path: Path, *sides: dict[str, str]) -> tuple[Result, Path]:
    files = [
        index_of(tmp_path / name, side) for name, side in zip(("base", "ours", "theirs"), sides, strict=True)
    ]
    return run("merge-driver", *files, "llm/INDEX.toml"), files[1]


def test_rows_of_both_sides_take_the_place_of_ours(tmp_path: Path) -> None:
    result, merged = merge(tmp_path, {"a": "1"}, {"a": "1", "b": "2"}, {"c": "3"})

    assert (result.exit_code, result.output) == (0, "")
    assert len(trust_index(merged.read_bytes()).fixtures) == 2


def test_two_answers_to_one_question_are_a_conflict(tmp_path: Path) -> None:
    """Both are shown, by the name that git gives; the result is no index until somebody decides."""
    result, merged = merge(tmp_path, {}, {"a": "1"}, {"a": "2"})

    assert result.exit_code == 1
    assert "conflict in llm/INDEX.toml: test-model" in result.stderr
    assert "ours: fixtures/" in result.stderr
    assert "theirs: fixtures/" in result.stderr
    assert "<<<<<<<" in merged.read_text()


@pytest.mark.parametrize(("text", "status"), [("", 0), ("nonsense\n", 5)])
def test_a_side_without_an_index(tmp_path: Path, text: str, status: int) -> None:
    """None at all is an empty one; something else is refused, and ours stays."""
    files = [index_of(tmp_path / name, {"a": "1"}) for name in ("ours", "theirs")]
    before = files[0].read_bytes()
    base = tmp_path / "base"
    base.write_text(text)

    assert run("merge-driver", base, *files).exit_code == status
    assert files[0].read_bytes() == before


def test_wrong_usage(tmp_path: Path) -> None:
    assert run("merge-driver").exit_code == 2
    assert run("merge-driver", tmp_path / "one", tmp_path / "two").exit_code == 2
