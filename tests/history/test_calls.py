"""The recorded calls of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.store import Answer, Fixture, Store, TimedChunk
from cortex_replay.types import LlmRequest, StreamChunk, TokenUsage

MODEL = "claude-haiku-5-5"
RUN = "20261116T063024Z-3f2a"


def moment(seconds: float) -> str:
    return f"2026-11-16T06:30:{seconds:06.3f}Z"


def record(root: Path, *fixtures: Fixture, scope: str = "") -> Store:
    store = Store.open(root) if (root / "INDEX.toml").exists() else Store.create(root)
    for fixture in fixtures:
        store.add(fixture, scope=scope) if scope else store.add(fixture)
    store.commit()
    return Store.open(root, verify="on-read")


def fixture_of(text: str, /, *answers: Answer, **meta: Any) -> Fixture:
    request = LlmRequest(MODEL, "Be kind.", [{"role": "user", "content": text}])
    return Fixture.of(request, *(answers or [Answer("Yes.", usage=TokenUsage(10, 2))]), meta=meta or None)


def questions(calls: tuple[HistoryCall, ...]) -> list[str]:
    return [call.request.messages[0].content for call in calls]


def test_calls_come_in_the_order_in_which_they_were_asked(tmp_path: Path) -> None:
    store = record(
        tmp_path,
        fixture_of("third", asked_at=moment(9), run=RUN, call=1),
        fixture_of("first", asked_at=moment(1.5), run=RUN, call=3),
        fixture_of("of one moment", asked_at=moment(2), run=RUN, call=5),
        fixture_of("second", asked_at=moment(2), run=RUN, call=4),
        fixture_of("old", recorded_at="2026-11-16T06:30:01Z"),
        fixture_of("nobody knows when"),
    )

    calls = read_calls(store).calls
    assert questions(calls) == ["old", "first", "second", "of one moment", "third", "nobody knows when"]
    assert [call.run for call in calls] == ["before", RUN, RUN, RUN, RUN, "before"]
    assert calls[1].at is not None
    assert calls[4].at is not None
    assert calls[4].at - calls[1].at == pytest.approx(7.5)
    assert calls[5].at is None


def test_what_was_imported_comes_as_its_cassettes_have_it(tmp_path: Path) -> None:
    """They have the moment of the import; by the names of their files their order would be any."""
    rows = [(tape, number) for tape in ("a.yaml", "b.yaml") for number in (1, 2, 3, 10)]
    imported = {"adapter": "import", "recorded_at": moment(0)}
    store = record(
        tmp_path,
        *(fixture_of(f"{tape} {n}", **imported, cassette=tape, interaction=n) for tape, n in reversed(rows)),
    )

    calls = read_calls(store).calls

    assert questions(calls) == [f"{tape} {number}" for tape, number in rows]
    assert all(call.is_imported for call in calls)


def test_every_answer_of_a_sequence_is_a_call(tmp_path: Path) -> None:
    first = Answer("One.", usage=TokenUsage(10, 1))
    second = Answer("Two.", usage=TokenUsage(11, 1), meta={"asked_at": moment(20), "run": "later"})
    store = record(
        tmp_path, fixture_of("x", first, second, asked_at=moment(5), run=RUN, scope="tests/t.py::a")
    )

    calls = read_calls(store).calls
    assert [(call.answer, call.run, call.usage and call.usage.prompt_tokens) for call in calls] == [
        (1, RUN, 10),
        (2, "later", 11),
    ]
    assert [call.scopes for call in calls] == [("tests/t.py::a",), ("tests/t.py::a",)]


def test_an_answer_is_ready_when_it_began(tmp_path: Path) -> None:
    stream = (TimedChunk(400, StreamChunk("Y")), TimedChunk(900, StreamChunk("es.", "stop")))
    streamed = Answer("Yes.", finish_reason="stop", stream=stream)
    store = record(
        tmp_path,
        fixture_of("streamed", streamed, asked_at=moment(1), recorded_at=moment(9)),
        fixture_of("whole", asked_at=moment(2), recorded_at=moment(9)),
        fixture_of("quick", asked_at=moment(3.5), recorded_at=moment(3)),
        fixture_of("old", recorded_at=moment(4)),
        fixture_of("noted", asked_at=moment(5), answered_ms=250, recorded_at=moment(9)),
        fixture_of("nonsense", asked_at=moment(6), answered_ms=-1, recorded_at=moment(9)),
    )

    waits = [
        None if call.ready is None or call.at is None else round(call.ready - call.at, 3)
        for call in read_calls(store).calls
    ]
    assert waits == [0.4, 7, None, None, 0.25, 3]


def test_what_requests_share_is_one_value(tmp_path: Path) -> None:
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    turns = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    store = record(
        tmp_path,
        *(
            Fixture.of(LlmRequest(MODEL, "s", turns[:end], tools=tools), "Yes.", meta={"call": end})
            for end in (1, 2)
        ),
    )

    one, two = (call.request for call in read_calls(store).calls)
    assert one.tools is two.tools
    assert one.messages[0] is two.messages[0]
    for request in (one, two):
        assert store.get(MODEL, request.prompt_hash()).request == request


def test_scopes_are_those_that_have_it(tmp_path: Path) -> None:
    record(tmp_path, fixture_of("x", scope="tests/t.py::a"), scope="tests/t.py::a")
    store = record(tmp_path, fixture_of("x", Answer("No."), scope="tests/t.py::b"), scope="tests/t.py::b")

    calls = read_calls(store).calls
    assert sorted(call.scopes for call in calls) == [("tests/t.py::a",), ("tests/t.py::b",)]


def test_the_index_says_whose_answers_they_are(tmp_path: Path) -> None:
    record(tmp_path, fixture_of("x"))
    store = record(tmp_path, fixture_of("x", Answer("No.")), scope="tests/t.py::b")

    assert sorted(call.scopes for call in read_calls(store).calls) == [(), ("tests/t.py::b",)]


def test_what_meta_says_may_be_nonsense(tmp_path: Path) -> None:
    store = record(
        tmp_path,
        fixture_of("a", asked_at="yesterday", recorded_at=7, run="\x1b[31m", call="x", cache="none"),
        fixture_of("b", run="r" * 65, cache={"reason": 1, "markers": "x"}, usage={"prompt_tokens": "x"}),
        fixture_of("c", cache={"reason": "y" * 9000}, asked_at="0001-01-01T00:00:00+23:59"),
    )

    calls = read_calls(store).calls
    assert {call.run for call in calls} == {"before"}
    assert {len(call.cache_reason) for call in calls} == {0, 500}


def test_a_count_of_an_equal_call_counts(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    store = record(tmp_path, fixture_of("a", Answer("Yes."), usage=usage), fixture_of("b", Answer("Yes.")))

    found = {call.request.messages[0].content: call.usage for call in read_calls(store).calls}
    assert found == {"a": TokenUsage(10, 2), "b": None}


def test_recordings_without_a_request_are_counted_and_left_out(tmp_path: Path) -> None:
    fixture = fixture_of("x")
    store = record(tmp_path, Fixture(fixture.key, fixture.answers))

    found = read_calls(store)
    assert (found.calls, found.without_request) == ((), 1)


def test_bytes_that_the_index_does_not_vouch_for_are_not_read(tmp_path: Path) -> None:
    store = record(tmp_path, fixture_of("x"))
    path = tmp_path / store.list()[0].path
    path.write_bytes(path.read_bytes().replace(b"Yes.", b"No!!"))

    with pytest.raises(FixtureIntegrityFailed):
        read_calls(store)


def test_a_file_that_is_vouched_for_must_still_be_a_fixture(tmp_path: Path) -> None:
    """Whoever can write the index can write hashes."""
    from cortex_replay import blake3_hex  # noqa: PLC0415

    store = record(tmp_path, fixture_of("x"))
    (stored,) = store.list()
    for old, new in [
        (b'"role": "user"', b'"role": "boss"'),
        (b'"messages": [', b'"tools": [1e999], "messages": ['),
    ]:
        data = (tmp_path / stored.path).read_bytes()
        broken = data.replace(old, new)
        (tmp_path / stored.path).write_bytes(broken)
        index = (tmp_path / "INDEX.toml").read_text()
        (tmp_path / "INDEX.toml").write_text(index.replace(blake3_hex(data), blake3_hex(broken)))
        with pytest.raises(FixtureIntegrityFailed):
            read_calls(Store.open(tmp_path, verify="on-read"))


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.history.calls._PROGRESS_STEP", 2)
    store = record(tmp_path, *(fixture_of(str(i)) for i in range(3)))
    told: list[tuple[int, int]] = []
    read_calls(store, lambda done, total: told.append((done, total)))

    assert told == [(2, 3)]


def test_a_light_reading_keeps_the_ends_of_streams(tmp_path: Path) -> None:
    """What came first, and when it ended, are enough for a list."""
    chunks = tuple(TimedChunk(10 * n, StreamChunk(f"{n} ", "stop" if n == 9 else None)) for n in range(10))
    text = "".join(timed.chunk.delta for timed in chunks)
    streamed = Answer(text, finish_reason="stop", stream=chunks)
    store = record(tmp_path, fixture_of("count", streamed, asked_at=moment(1)))
    [whole], [light] = read_calls(store).calls, read_calls(store, is_light=True).calls

    assert whole.said is not None
    assert light.said is not None
    assert len(whole.said.stream) == 10
    assert light.said.stream == (chunks[0], chunks[-1])
    assert light.said.text == text
    assert light.ready == whole.ready
