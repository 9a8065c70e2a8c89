"""What a run is called in its recordings."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import RecordingAdapter, Store
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.run_names import RUN_VARIABLE, new_run_name
from cortex_replay.redact.redactor import Redactor
from cortex_replay.testing import EchoAdapter
from tests.builder import ask

NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}")


def core(root: Path, **options: Any) -> RunCore:
    return RunCore(Store.open_or_create(root), "once", Redactor, **options)


def test_a_run_has_one_name_and_another_run_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    one, other = core(tmp_path), core(tmp_path)

    assert NAME.fullmatch(one.name)
    assert one.name == one.name
    assert one.name != other.name
    assert core(tmp_path, name="mine").name == "mine"


def test_all_processes_of_a_run_have_the_name_that_the_first_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_VARIABLE, "20261116T063024Z-3f2a")

    assert {core(tmp_path).name, core(tmp_path).name} == {"20261116T063024Z-3f2a"}


def test_a_name_of_the_user_s_is_that_of_several_runs_and_each_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tonight's run may be called as yesterday's was. The processes of one agree where they meet."""
    monkeypatch.setenv(RUN_VARIABLE, "nightly")
    one, other = core(tmp_path), core(tmp_path)
    tonight = one.name

    assert NAME.fullmatch(tonight)
    assert other.name == tonight
    one.leave_run()
    other.leave_run()
    assert core(tmp_path).name != tonight


def test_names_of_runs_sort_by_their_start() -> None:
    before, name, after = (f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}", new_run_name(), datetime.now(UTC))

    assert before <= name[:16] <= f"{after:%Y%m%dT%H%M%SZ}"


def test_each_answer_says_when_it_was_asked(tmp_path: Path) -> None:
    class Numbers(EchoAdapter):
        async def complete(self, request: Any) -> Any:
            self.n = getattr(self, "n", 0) + 1
            return replace(await super().complete(request), text=f"{self.n}")

    async def record() -> None:
        async with RecordingAdapter(Numbers(), tmp_path, mode="record") as adapter:
            for _ in range(2):
                await adapter.complete(ask("q"))

    before = datetime.now().astimezone()
    asyncio.run(record())
    after = datetime.now().astimezone()

    fixture = Store.open(tmp_path).get(*Store.open(tmp_path).key(ask("q")))
    metas: list[Any] = [fixture.meta, fixture.answers[1].meta]
    times = [datetime.fromisoformat(meta["asked_at"]) for meta in metas]
    assert len(fixture.answers) == 2
    assert all(re.fullmatch(r".*\.[0-9]{3}Z", meta["asked_at"]) for meta in metas)
    assert before - timedelta(milliseconds=1) <= times[0] <= times[1] <= after
    assert metas[0]["run"] == metas[1]["run"]


def test_a_call_was_asked_when_it_was_passed_on_and_not_when_its_answer_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ["2026-11-16T06:30:24.001Z"]
    monkeypatch.setattr("cortex_replay.engine.turn.now_in_milliseconds", lambda: clock[-1])
    monkeypatch.setattr("cortex_replay.engine.turn.monotonic", lambda: 29.9 * len(clock))

    class Slow(EchoAdapter):
        async def complete(self, request: Any) -> Any:
            clock.append("2026-11-16T06:30:59.999Z")
            return await super().complete(request)

    async def record() -> None:
        async with RecordingAdapter(Slow(), tmp_path, mode="record") as adapter:
            await adapter.complete(ask("q"))

    asyncio.run(record())

    meta = Store.open(tmp_path).get(*Store.open(tmp_path).key(ask("q"))).meta or {}
    assert meta["asked_at"] == clock[0]
    assert meta["answered_ms"] == 29_900


def test_the_adapters_of_a_program_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)

    async def record() -> None:
        for question in ("one", "two"):
            async with RecordingAdapter(EchoAdapter(), tmp_path, mode="record") as adapter:
                await adapter.complete(ask(question))

    asyncio.run(record())

    store = Store.open(tmp_path)
    runs = [(store.get(*store.key(ask(question))).meta or {})["run"] for question in ("one", "two")]
    assert runs[0] == runs[1]
