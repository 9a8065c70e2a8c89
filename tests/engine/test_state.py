"""What a run knows of itself: what is made when it is first needed, once, and shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import InvalidRequest, Store
from cortex_replay.engine import core
from cortex_replay.engine.core import RunCore
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor


def run_over(root: Path, **options: object) -> RunCore:
    return RunCore(lambda: Store.open_or_create(root), Mode.ONCE, Redactor, **options)  # type: ignore[arg-type]


def test_store_and_redactor_are_made_once(tmp_path: Path) -> None:
    run = run_over(tmp_path / "store")

    assert run.store is run.store
    assert run.redactor is run.redactor
    assert not run.is_fleet


def test_a_provider_with_a_limit_has_one_rate_and_others_have_none(tmp_path: Path) -> None:
    run = run_over(tmp_path / "store", rates={"openai": 60})

    assert run.rate_of("anthropic") is None
    assert run.rate_of("openai") is not None
    assert run.rate_of("openai") is run.rate_of("openai")


def test_a_run_that_goes_on_from_another_spends_its_budget(tmp_path: Path) -> None:
    first, second = (run_over(tmp_path / name, budget=(limit, None)) for name, limit in (("a", 3), ("b", 9)))

    second.share_budget(first)

    assert second.budget is first.budget


def test_a_run_in_a_folder_that_is_gone_can_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert run_over(tmp_path / "store").store.root == tmp_path / "store"


def test_scopes_that_nobody_counts_are_not_kept_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "_MOST_SCOPES_KEPT", 2)
    monkeypatch.setattr(core, "_MOST_TURNS", 2)
    run = RunCore(Store.create(tmp_path), Mode.REPLAY, Redactor)
    first, second, third = (run.scope(name) for name in "abc")

    assert (run.scope("a") is first, run.scope("b") is second, run.scope("c") is third) == (True, True, False)
    for _ in range(2):
        run._keep_scope(third)
    assert run.scope("c") is third, "once it counts, it is kept"
    with pytest.raises(InvalidRequest, match="more than 2 were counted"):
        run._keep_scope(third)
    run.close_scope(third)
    run.close_scope(third)
    assert run.scope("c") is not third
