"""Adapters in another place, on another day, in another process: they answer with what holds there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from cortex_replay import (
    Fixture,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    NoFixture,
    RecordingAdapter,
    ReplayAdapter,
    Store,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
    Upstream,
)
from cortex_replay.bindings import Surroundings
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.sequences import SequenceStager
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer
from cortex_replay.testing import EchoAdapter
from tests.builder import ask

UUIDS = "3f2b8c1e-9a54-4d6f-8e21-5b7c0d9e4a11", "0b9d3f61-27c4-4e0a-9c3d-71f2a8b6e5d0"


class Echo(LlmAdapter):
    """Says what it was told, in pieces, and calls a tool where it stands."""

    adapter_id: ClassVar[str] = "echo-test"

    def __init__(self, *, fails: bool = False) -> None:
        self.calls = 0
        self._fails = fails

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.calls += 1
        text = request.messages[-1].content
        if self._fails:
            raise Upstream(400, f"cannot: {text}", "invalid_request_error")
        call = ToolCall(id="call_1", name="write", arguments={"path": text.split()[-1], "n": self.calls * 0})
        return LlmResponse(text, None, request.model, TokenUsage(1, 1), "", "tool_calls", (call,))

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        response = await self.complete(request)
        for start in range(0, len(response.text), 7):
            yield StreamChunk(response.text[start : start + 7])
        yield StreamChunk("", tool_calls=(ToolCallDelta.whole(0, response.tool_calls[0]),))
        yield StreamChunk("", "tool_calls", response=response)


def told(folder: Path | str, uuid: str = UUIDS[0]) -> LlmRequest:
    return ask(f"session {uuid} works in {folder} and writes {folder}/out.txt")


def folders(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "first" / "project", tmp_path / "second" / "a-longer-name" / "project"
    for folder in made:
        folder.mkdir(parents=True)
    return made


@pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "streamed"])
def test_a_recording_is_replayed_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream_it: bool
) -> None:
    """Its text, its tool call and the pieces of its stream name the folder in which it is replayed."""
    here, there = folders(tmp_path)

    async def answer(adapter: LlmAdapter, request: LlmRequest) -> LlmResponse:
        if not stream_it:
            return await adapter.complete(request)
        chunks = [chunk async for chunk in adapter.stream(request)]
        assert "".join(chunk.delta for chunk in chunks) == request.messages[-1].content
        assert chunks[-1].response is not None
        return chunks[-1].response

    async def record() -> None:
        async with RecordingAdapter(Echo(), tmp_path / "llm") as recorder:
            assert (await answer(recorder, told(here))).tool_calls[0].arguments == {
                "path": f"{here}/out.txt",
                "n": 0,
            }

    monkeypatch.chdir(here)
    asyncio.run(record())
    monkeypatch.chdir(there)
    replayed = asyncio.run(answer(ReplayAdapter(tmp_path / "llm"), told(there, UUIDS[1])))

    assert replayed.text == told(there, UUIDS[1]).messages[-1].content
    assert replayed.tool_calls[0].arguments == {"path": f"{there}/out.txt", "n": 0}
    stored = "".join(path.read_text() for path in (tmp_path / "llm").rglob("*") if path.is_file())
    assert "first" not in stored
    with pytest.raises(NoFixture) as missed:
        ReplayAdapter(tmp_path / "llm").sync.complete(told(here))  # no place of ours: a text like any other
    assert "⟦cwd⟧" in str(missed.value.explanation)


def test_a_recorded_failure_names_the_place_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = folders(tmp_path)

    async def record() -> None:
        async with RecordingAdapter(Echo(fails=True), tmp_path / "llm", record_failures=True) as recorder:
            with pytest.raises(Upstream):
                await recorder.complete(told(here))

    monkeypatch.chdir(here)
    asyncio.run(record())
    monkeypatch.chdir(there)
    with pytest.raises(Upstream, match=r"a-longer-name/project/out\.txt"):
        ReplayAdapter(tmp_path / "llm").sync.complete(told(there))
    stored = "".join(path.read_text() for path in (tmp_path / "llm").rglob("*") if path.is_file())
    assert "first" not in stored


def test_two_adapters_of_one_store_ask_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their questions differ in an id alone; each is answered with its own."""
    here, _ = folders(tmp_path)
    monkeypatch.chdir(here)

    async def main() -> tuple[list[str], int]:
        store, inner = Store.open_or_create(tmp_path / "llm"), Echo()
        one, other = (RecordingAdapter(inner, store, commit_on_close=False) for _ in range(2))
        said = await asyncio.gather(one.complete(told(here)), other.complete(told(here, UUIDS[1])))
        store.commit()
        return [response.text for response in said], inner.calls

    said, calls = asyncio.run(main())

    assert said == [told(here, uuid).messages[-1].content for uuid in UUIDS]
    assert calls == 1


def test_what_processes_of_a_run_leave_to_each_other_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They meet in files of the store; each fills in its own id."""
    here, _ = folders(tmp_path)
    monkeypatch.setenv("CORTEX_REPLAY_RUN", "a-run")
    monkeypatch.chdir(here)

    async def main() -> tuple[list[str], int]:
        inner = Echo()
        async with (
            RecordingAdapter(inner, tmp_path / "llm") as one,
            RecordingAdapter(inner, tmp_path / "llm") as other,
        ):
            said = [await one.complete(told(here)), await other.complete(told(here, UUIDS[1]))]
            (claim,) = [
                path for path in (tmp_path / "llm").rglob("runs/*/*") if b"session" in path.read_bytes()
            ]
            assert str(here) not in claim.read_text()
        return [response.text for response in said], inner.calls

    said, calls = asyncio.run(main())

    assert said == [told(here, uuid).messages[-1].content for uuid in UUIDS]
    assert calls == 1


def test_what_another_tool_recorded_is_bound_by_shape_alone(tmp_path: Path) -> None:
    """Calls that differ in an id are one question, and each answer names the id of its caller."""
    store = Store.create(tmp_path)
    requests = [told("/somewhere/else", uuid) for uuid in UUIDS]
    outcomes: list[tuple[Answer, dict[str, JsonValue]]] = [
        (Answer(f"{n}: {uuid}"), {}) for n, uuid in enumerate(UUIDS)
    ]
    stager = SequenceStager(store, Redactor(()))
    stager.stage("test", requests, outcomes)
    store.commit()
    run = RunCore(store, "replay", lambda: Redactor(()), surroundings=Surroundings.of({}, "/somewhere/else"))
    adapter = ScopeAdapter(run.open_scope("test"))

    assert stager.key(requests[0]) == stager.key(requests[1])
    assert [adapter.sync.complete(request).text for request in reversed(requests)] == [
        f"0: {UUIDS[1]}",
        f"1: {UUIDS[0]}",
    ]


TODAY = datetime(2027, 3, 4, 12, tzinfo=UTC)


def replay(store: Store, request: LlmRequest, now: datetime = TODAY) -> str:
    surroundings = Surroundings.of({"TZ": "UTC"}, "/builds/1", now=lambda: now)
    run = RunCore(store, "replay", lambda: Redactor(()), surroundings=surroundings)
    return ScopeAdapter(run.open_scope()).sync.complete(request).text


def recorded(tmp_path: Path, text: str, now: datetime) -> Store:
    """A store with the answer to one question, which says it again, recorded on a day."""
    surroundings = Surroundings.of({"TZ": "UTC"}, "/home/ann", now=lambda: now)
    store = Store.create(tmp_path / "today")
    run = RunCore(store, "once", lambda: Redactor(()), surroundings=surroundings)
    ScopeAdapter(run.open_scope(), Echo()).sync.complete(ask(text))
    run.commit()
    (item,) = store.list()
    fixture = store.get(item.model, item.prompt_hash)
    moved = Store.create(tmp_path / "on that day")
    moved.add(replace(fixture, meta={**(fixture.meta or {}), "recorded_at": now.isoformat()}))
    moved.commit()
    return moved


def test_a_program_may_live_on_another_day(tmp_path: Path) -> None:
    """The day that it calls today is its today, if all else is as recorded."""
    store = recorded(
        tmp_path, "Today is 2026-11-15, in short Nov 15, 2026.", datetime(2026, 11, 15, 9, tzinfo=UTC)
    )

    assert (
        replay(store, ask("Today is 2027-03-04, in short Mar 4, 2027."))
        == "Today is 2027-03-04, in short Mar 4, 2027."
    )
    assert (
        replay(store, ask("Today is 2019-01-02, in short Jan 2, 2019."))
        == "Today is 2019-01-02, in short Jan 2, 2019."
    )
    for text in (
        "Today is 2019-01-02, in short Jan 3, 2019.",
        "Today is 2027-03-04, in short Jan 3, 2019.",  # one of them is today
        "Today is 2019-01-02, in short Mar 4, 2027.",
        "Today is 2027-03-04, in short Nov 15, 2026!",
    ):
        with pytest.raises(NoFixture):
            replay(store, ask(text))


def test_a_time_of_today_that_is_not_near_the_clock_says_something(tmp_path: Path) -> None:
    """Also where the call names the day, which is ours."""
    store = recorded(
        tmp_path, "It is 2026-11-15 09:05, or 1794733500.", datetime(2026, 11, 15, 9, tzinfo=UTC)
    )

    assert replay(store, ask("It is 2027-03-04 12:01, or 1804161660.")).startswith("It is 2027-03-04 12:01,")
    for text in ("It is 2027-03-04 15:01, or 1804161660.", "It is 2027-03-04 12:01, or 1804172400."):
        with pytest.raises(NoFixture):
            replay(store, ask(text))


def test_another_day_is_another_question(tmp_path: Path) -> None:
    """A day that nobody calls today is text, but for the day of the recording."""
    store = recorded(tmp_path, "What happened on 2026-11-15?", datetime(2026, 11, 15, 9, tzinfo=UTC))

    assert replay(store, ask("What happened on 2026-11-15?")) == "What happened on 2026-11-15?"
    for day in ("2026-11-13", "2026-11-16", "2026-11-01", "2019-01-02"):
        with pytest.raises(NoFixture):
            replay(store, ask(f"What happened on {day}?"))


@pytest.mark.parametrize("month", ["November 2026", "Nov 2026", "2026-11"])
def test_the_month_of_a_recording_keeps_its_name(tmp_path: Path, month: str) -> None:
    """Another month is another question."""
    store = recorded(tmp_path, f"Today: 2026-11-15. Sum up {month}.", datetime(2026, 11, 15, 9, tzinfo=UTC))
    text = "Today: 2027-03-04. Sum up {}."

    assert replay(store, ask(text.format(month))).startswith("Today: 2027-03-04.")
    for other in (month.replace("Nov", "Dec").replace("11", "12"), month.replace("2026", "2025")):
        with pytest.raises(NoFixture):
            replay(store, ask(text.format(other)))


@pytest.mark.parametrize(
    "day",
    [
        *(
            "2026-11-15",
            "2026/11/15",
            "15.11.2026",
            "20261115",
            "11/15/2026",
            "15/11/2026",
            "11/15/26",
            "15/11/26",
        ),
        *("November 15, 2026", "15 Nov 2026", "Sun Nov 15 2026", "Sunday, 15 November 2026", "15th Nov 2026"),
        *("2026-11", "Nov 2026", "November, 2026"),
    ],
)
@pytest.mark.parametrize("before", ["on ", "\n"])
def test_the_day_of_a_recording_keeps_its_text(tmp_path: Path, day: str, before: str) -> None:
    """A sample with the date of the day on which a test was written is the same sample for ever."""
    text = f"What happened:{before}{day}?"
    store = recorded(tmp_path, text, datetime(2026, 11, 15, 9, tzinfo=UTC))

    assert replay(store, ask(text)) == text


def test_older_days_do_not_hide_the_day_of_a_recording(tmp_path: Path) -> None:
    """A log of a repository has many, and its last commit may be of the day of the recording."""
    log = "".join(f"2026-10-{day:02} a fix; " for day in range(1, 20))
    store = recorded(
        tmp_path, f"Log: {log}2026-11-15 more. Today is 2026-11-15.", datetime(2026, 11, 15, 9, tzinfo=UTC)
    )

    for day in ("2026-11-15", "2027-03-04"):
        assert f"Today is {day}." in replay(store, ask(f"Log: {log}2026-11-15 more. Today is {day}."))
    assert "2019-01-02 more" in replay(store, ask(f"Log: {log}2019-01-02 more. Today is 2019-01-02."))


def test_a_time_of_the_recording_keeps_its_text_on_that_day(tmp_path: Path) -> None:
    """What was near the clock in the morning is not in the afternoon."""
    morning = datetime(2026, 11, 15, 9, tzinfo=UTC)
    store = recorded(tmp_path, "The log says 2026-11-15 09:05.", morning)

    for hours in (5, 30):
        said = replay(store, ask("The log says 2026-11-15 09:05."), morning + timedelta(hours=hours))
        assert said == "The log says 2026-11-15 09:05."


def test_a_failure_is_found_on_another_day(tmp_path: Path) -> None:
    """It does not say when it was recorded."""
    text, morning = "What happened on 2026-11-15?", datetime(2026, 11, 15, 9, tzinfo=UTC)
    store = Store.create(tmp_path)
    surroundings = Surroundings.of({"TZ": "UTC"}, "/home/ann", now=morning)
    run = RunCore(store, "once", lambda: Redactor(()), record_failures=True, surroundings=surroundings)
    with pytest.raises(Upstream):
        ScopeAdapter(run.open_scope(), Echo(fails=True)).sync.complete(ask(text))
    run.commit()

    with pytest.raises(Upstream, match="cannot: What happened on 2026-11-15"):
        replay(store, ask(text))


def test_a_date_may_have_been_today_by_chance(tmp_path: Path) -> None:
    """A release that came out on the day of the recording keeps its date; no other date will do."""
    store = recorded(
        tmp_path, "Today: 2026-11-15. Release: 2026-11-15.", datetime(2026, 11, 15, 9, tzinfo=UTC)
    )

    assert replay(store, ask("Today: 2027-03-04. Release: 2026-11-15.")).startswith("Today: 2027-03-04.")
    for text in ("Today: 2027-03-04. Release: 2026-11-16.", "Today: 2027-03-04. Release: 2027-03-05."):
        with pytest.raises(NoFixture):
            replay(store, ask(text))


@pytest.mark.parametrize(
    ("asked", "later", "said"),
    [
        ("Which day follows 2026-11-14?", "Which day follows 2026-11-14?", "2026-11-15: "),
        ("It is 2026-11-15. Which day?", "It is 2027-03-04. Which day?", "2027-03-04: "),
        ("It is 2026-11-15 09:01. Which day?", "It is 2027-03-04 12:02. Which day?", "2027-03-04: "),
    ],
)
def test_a_model_knows_today_from_its_request_only(tmp_path: Path, asked: str, later: str, said: str) -> None:
    """Else a date in its answer was worked out, and is the same on every day."""
    surroundings = Surroundings.of({"TZ": "UTC"}, "/home/ann", now=datetime(2026, 11, 15, 9, tzinfo=UTC))
    store = Store.create(tmp_path)
    run = RunCore(store, "once", lambda: Redactor(()), surroundings=surroundings)
    ScopeAdapter(run.open_scope(), EchoAdapter("2026-11-15: ")).sync.complete(ask(asked))
    run.commit()

    assert replay(store, ask(later)).startswith(said)


def test_a_date_that_was_a_word_of_the_question_may_be_today(tmp_path: Path) -> None:
    """On the day that a question names, it is still the same question."""
    store = recorded(tmp_path, "What happened on 2027-03-04?", datetime(2026, 11, 15, 9, tzinfo=UTC))

    assert replay(store, ask("What happened on 2027-03-04?")) == "What happened on 2027-03-04?"
    with pytest.raises(NoFixture):
        replay(store, ask("What happened on 2027-03-05?"))


def test_text_as_it_is_stored_is_another_text(tmp_path: Path) -> None:
    """What is escaped in a recording is not what somebody asks who writes it so."""
    now = datetime(2026, 11, 15, 9, tzinfo=UTC)
    store = recorded(tmp_path, "What does ⟦cwd⟧ mean?", now)

    assert replay(store, ask("What does ⟦cwd⟧ mean?")) == "What does ⟦cwd⟧ mean?"
    with pytest.raises(NoFixture):
        replay(store, ask("What does ⟦=cwd⟧ mean?"))


def test_a_recording_without_bindings_goes_on_without(tmp_path: Path) -> None:
    """What follows in its sequence is stored as the first was, and found in the same way."""
    store = Store.create(tmp_path)
    request = told("/home/ann")
    store.add(Fixture.of(request, "one of ⟦cwd⟧", "two"))
    store.commit()
    run = RunCore(store, "once", lambda: Redactor(()), surroundings=Surroundings.of({}, "/home/ann"))
    adapter = ScopeAdapter(run.open_scope(), Echo())
    said = [adapter.sync.complete(request).text for _ in range(3)]
    run.commit()
    again = ReplayAdapter(Store.open(tmp_path))

    assert said == ["one of ⟦cwd⟧", "two", request.messages[-1].content]
    assert [again.sync.complete(request).text for _ in range(3)] == said
