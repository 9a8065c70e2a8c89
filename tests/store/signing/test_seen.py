"""What a user has seen of signed stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.errors import ConfigError
from cortex_replay.store.signing.chain import Entry
from cortex_replay.store.signing.seen import Memory

ID, OTHER = "a" * 32, "b" * 32
FIRST, SECOND = Entry(1, "1" * 64), Entry(2, "2" * 64)


@pytest.fixture(params=["file", "home"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Memory(tmp_path / "seen" if request.param == "file" else None)


def test_each_store_is_remembered_for_itself(memory: Memory) -> None:
    assert memory.recall(ID) is None
    memory.note(ID, FIRST)
    memory.note(OTHER, SECOND)
    memory.note(ID, SECOND)
    memory.note(OTHER, FIRST)  # whoever notes it has said so

    assert (memory.recall(ID), memory.recall(OTHER)) == (SECOND, FIRST)
    assert Path(memory.place).stat().st_mode & 0o777 == 0o600


def test_reading_makes_nothing(memory: Memory, tmp_path: Path) -> None:
    memory.recall(ID)

    assert list(tmp_path.iterdir()) == []


def test_another_file_is_not_taken_for_one_and_not_lost(tmp_path: Path) -> None:
    mine = tmp_path / "notes"
    mine.write_text("buy milk\n")

    with pytest.raises(ConfigError, match="is not a list of signed stores"):
        Memory(mine).recall(ID)
    with pytest.raises(ConfigError, match="is not a list of signed stores"):
        Memory(mine).note(ID, FIRST)
    assert mine.read_text() == "buy milk\n"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "seen").symlink_to("real")

    with pytest.raises(ConfigError, match="--seen"):
        Memory(tmp_path / "seen").recall(ID)


def test_without_a_home_there_is_nothing_to_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.store.signing.seen.state_home", lambda: None)

    assert Memory().recall(ID) is None
    with pytest.raises(ConfigError, match="no home folder"):
        Memory().note(ID, FIRST)
