"""What is bound is stored under a name, and comes back with the value of the place where it is replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Fixture, LlmRequest, Store
from cortex_replay.bindings import Surroundings
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.store.exchange import Exchange
from tests.adapters.fake_provider import Exchange as Turn, FakeProvider, Script, serving_in_thread
from tests.engine.http.harness import PATHS, PROTOCOLS, Got, ask, body_of, request_for, run_over
from tests.gateway.upstream import model_server

HERE = Surroundings(
    {"cwd": {"": "/home/ann/shop"}, "host": {"": "ann-laptop"}, "date": {"": "2026-11-15"}},
)
THERE = Surroundings(
    {"cwd": {"": "/builds/b-2/a-much-longer-name"}, "host": {"": "runner-9"}, "date": {"": "2027-01-02"}},
)
UUIDS = "3f2b8c1e-9a54-4d6f-8e21-5b7c0d9e4a11", "0b9d3f61-27c4-4e0a-9c3d-71f2a8b6e5d0"
MESSAGES, EMBEDDINGS = "/anthropic/v1/messages", "/openai/v1/embeddings"
wires = pytest.mark.parametrize("protocol", PROTOCOLS)
ways = pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "streamed"])
roads = pytest.mark.parametrize("is_quick", [False, True], ids=["turn", "short way"])


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A model server that speaks every wire, and says what it was told."""
    with model_server() as serving:
        yield serving


def says(where: Surroundings, uuid: str = UUIDS[0]) -> LlmRequest:
    """A question that holds what is known of a place."""
    known = {name: forms[""] for name, forms in where.values.items()}
    text = (
        f"In {known['cwd']}/src on {known['host']}, {known['date']}, session {uuid}: go on in {known['cwd']}."
    )
    return request_for(text)


def asked(where: Surroundings, uuid: str = UUIDS[0]) -> dict[str, Any]:
    return body_of("anthropic-messages", says(where, uuid))


def text_in(got: Got) -> str:
    assert got.status == 200, got.body
    return str(got.json["content"][0]["text"])


def stored_bytes(root: Path) -> str:
    """All that a store holds, of which nothing may tell where it was made."""
    return "".join(path.read_text() for path in root.rglob("*") if path.is_file())


def values_of(where: Surroundings) -> list[str]:
    return [text for forms in where.values.values() for text in forms.values()]


@wires
@ways
def test_what_is_recorded_in_one_place_is_replayed_in_another(
    provider: FakeProvider, tmp_path: Path, protocol: str, stream_it: bool
) -> None:
    """By the short way of replay, and by turns."""
    bodies = {
        place: body_of(protocol, says(where, uuid), stream=stream_it)
        for place, where, uuid in (("here", HERE, UUIDS[0]), ("there", THERE, UUIDS[1]))
    }
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        live = ask(run, "POST", PATHS[protocol], bodies["here"])
        assert run.ledger.recorded == 1
    with run_over(tmp_path, "live", provider.url) as run:
        expected = ask(run, "POST", PATHS[protocol], bodies["there"])
    with run_over(tmp_path, surroundings=HERE) as run:
        here = [ask(run, "POST", PATHS[protocol], bodies["here"], is_quick=way) for way in (True, False)]
    with run_over(tmp_path, surroundings=THERE) as run:
        there = [
            ask(run, "POST", PATHS[protocol], bodies["there"], is_quick=way) for way in (True, False, True)
        ]

    assert [got.body for got in here] == [live.body] * 2
    assert [got.body for got in there] == [expected.body] * 3
    assert not any(value in stored_bytes(tmp_path) for value in (*values_of(HERE), UUIDS[0]))


@roads
def test_ids_of_two_callers_are_not_mixed_up(provider: FakeProvider, tmp_path: Path, is_quick: bool) -> None:
    """What is kept of an answer for one caller is not what another gets."""
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        ask(run, "POST", MESSAGES, asked(HERE))
    with run_over(tmp_path, surroundings=HERE) as run:
        for uuid in (*UUIDS, *UUIDS):
            assert uuid in text_in(ask(run, "POST", MESSAGES, asked(HERE, uuid), is_quick=is_quick))


def test_what_breaks_the_structure_of_ids_is_missing(provider: FakeProvider, tmp_path: Path) -> None:
    """Two that were equal and now differ say something else; so does a path that is not bound."""

    def body(*uuids: str) -> dict[str, Any]:
        return body_of("anthropic-messages", request_for(" then ".join(uuids)))

    one, other = UUIDS
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        ask(run, "POST", MESSAGES, body(one, other, one))
    with run_over(tmp_path, surroundings=THERE) as run:
        assert ask(run, "POST", MESSAGES, body(other, one, other)).status == 200
        for changed in (body(one, other, other), body(one, one, one), body(one, other, one, one)):
            assert ask(run, "POST", MESSAGES, changed).status == 424


def test_a_run_that_goes_on_over_midnight_keeps_nothing_of_yesterday(
    provider: FakeProvider, tmp_path: Path
) -> None:
    """The date is asked for with each call; and a program may live on another day than we do."""
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        ask(run, "POST", MESSAGES, body_of("anthropic-messages", request_for("Today is 2026-11-15.")))
    clock = [datetime(2027, 1, 2, 23, 59, tzinfo=UTC)]
    where = Surroundings.of({"TZ": "UTC"}, "/builds/1", now=lambda: clock[0])
    days = ("2027-01-02", "2027-01-03", "2027-01-05")
    said = []
    with run_over(tmp_path, surroundings=where) as run:
        for day in days:
            body = body_of("anthropic-messages", request_for(f"Today is {day}."))
            said += [text_in(ask(run, "POST", MESSAGES, body)) for _ in range(2)]
            clock[0] += timedelta(days=1)

    assert said == [f"You said: Today is {day}." for day in days for _ in range(2)]


def test_what_is_kept_of_a_body_is_of_its_day(tmp_path: Path) -> None:
    """The very same bytes name another day, and then today."""
    clock = [datetime(2026, 11, 15, 12, tzinfo=UTC)]
    where = Surroundings.of({"TZ": "UTC"}, "/builds/1", now=lambda: clock[0])

    def about(day: str) -> dict[str, Any]:
        return body_of("anthropic-messages", request_for(f"What happens on {day}?"))

    with (
        serving_in_thread(*saying("Somebody's day.", "This is today.")) as server,
        run_over(tmp_path, "once", server.url, surroundings=where) as run,
    ):
        for day in ("2027-01-03", "2026-11-15"):
            ask(run, "POST", MESSAGES, about(day))
    said = []
    clock[0] = datetime(2027, 1, 2, 12, tzinfo=UTC)
    where = Surroundings.of({"TZ": "UTC"}, "/builds/1", now=lambda: clock[0])
    with run_over(tmp_path, surroundings=where) as run:
        for _ in range(2):
            said += [text_in(ask(run, "POST", MESSAGES, about("2027-01-03"))) for _ in range(2)]
            clock[0] += timedelta(days=1)

    assert said == ["Somebody's day."] * 2 + ["This is today."] * 2


@pytest.mark.parametrize("scopes", [("a", "b"), ("test\x1f1", "test\x1f2")], ids=["two owners", "one owner"])
def test_scopes_share_an_answer_and_each_has_it_with_its_own_values(
    provider: FakeProvider, tmp_path: Path, scopes: tuple[str, str]
) -> None:
    """One asks, the other waits: what it gets, and records, is bound to its own question."""
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        said = [
            text_in(ask(run, "POST", MESSAGES, asked(HERE, uuid), scope=scope))
            for scope, uuid in zip(scopes, UUIDS, strict=True)
        ]
        assert run.ledger.live == 1
    with run_over(tmp_path, surroundings=THERE) as run:
        again = [
            text_in(ask(run, "POST", MESSAGES, asked(THERE, uuid), scope=scope))
            for scope, uuid in zip(scopes, reversed(UUIDS), strict=True)
        ]

    assert [uuid in text for uuid, text in zip(UUIDS, said, strict=True)] == [True, True]
    assert [uuid in text for uuid, text in zip(reversed(UUIDS), again, strict=True)] == [True, True]
    assert not any(value in stored_bytes(tmp_path) for value in values_of(HERE))


def saying(*texts: str) -> list[Script]:
    """A server that says one thing after the other, with what it was asked in the middle."""

    def script(text: str) -> Script:
        async def say(turn: Turn) -> None:
            said = turn.received.json["messages"][-1]["content"]
            said = said if isinstance(said, str) else said[0]["text"]
            content = [{"type": "text", "text": text.format(said)}]
            body = {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "test-model",
                "content": content,
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            await turn.whole(json.dumps(body).encode())

        return say

    return [script(text) for text in texts]


def test_several_answers_are_filled_each(tmp_path: Path) -> None:
    with (
        serving_in_thread(*saying("one: {}", "two: {}", "three")) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        for _ in range(3):
            ask(run, "POST", MESSAGES, asked(HERE), scope="a")
    with run_over(tmp_path, surroundings=THERE) as run:
        said = [text_in(ask(run, "POST", MESSAGES, asked(THERE), scope="a")) for _ in range(3)]
        assert ask(run, "POST", MESSAGES, asked(THERE), scope="a").status == 424

    question = says(THERE).messages[-1].content
    assert said == [f"one: {question}", f"two: {question}", "three"]


def test_an_answer_that_differs_in_bound_values_alone_is_the_same_answer(tmp_path: Path) -> None:
    """It is stored once, and answers every call."""
    with (
        serving_in_thread(*saying("You said: {}")) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        for uuid in UUIDS:
            ask(run, "POST", MESSAGES, asked(HERE, uuid), scope="a")
        assert run.ledger.live == 2
    (stored,) = Store.open(tmp_path).list()
    fixture = Store.open(tmp_path).get(stored.model, stored.prompt_hash)

    assert len(fixture.answers) == 1
    assert fixture.meta is not None
    assert fixture.meta["bindings"] == ["cwd", "date", "host", "uuid"]


@roads
def test_failures_are_bound_too(tmp_path: Path, is_quick: bool) -> None:
    async def fail(turn: Turn) -> None:
        said = turn.received.json["messages"][-1]["content"]
        said = said if isinstance(said, str) else said[0]["text"]
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": f"Not: {said}"}}
        await turn.whole(json.dumps(error).encode(), 400)

    with (
        serving_in_thread(fail) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE, record_failures=True) as run,
    ):
        live = ask(run, "POST", MESSAGES, asked(HERE))
        assert run.ledger.recorded == 1
    with run_over(tmp_path, surroundings=HERE) as run:
        assert ask(run, "POST", MESSAGES, asked(HERE), is_quick=is_quick).body == live.body
    with run_over(tmp_path, surroundings=THERE) as run:
        there = ask(run, "POST", MESSAGES, asked(THERE, UUIDS[1]), is_quick=is_quick)

    assert (there.status, there.json["error"]["message"]) == (
        400,
        f"Not: {says(THERE, UUIDS[1]).messages[-1].content}",
    )
    assert not any(value in stored_bytes(tmp_path) for value in values_of(HERE))


def test_once_asks_nothing_that_was_recorded_elsewhere(provider: FakeProvider, tmp_path: Path) -> None:
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        ask(run, "POST", MESSAGES, asked(HERE))
    before = stored_bytes(tmp_path)
    with run_over(tmp_path, "once", provider.url, surroundings=THERE) as run:
        assert "/builds/b-2" in text_in(ask(run, "POST", MESSAGES, asked(THERE)))
        assert (run.ledger.live, run.ledger.hits) == (0, 1)
    assert stored_bytes(tmp_path) == before
    with run_over(tmp_path, "record", provider.url, surroundings=THERE) as run:
        ask(run, "POST", MESSAGES, asked(THERE))
        assert run.ledger.live == 1
    assert stored_bytes(tmp_path) == before  # the same answer is no change


def test_a_recording_without_bindings_is_found_as_it_is(provider: FakeProvider, tmp_path: Path) -> None:
    """In the place that it names, and with text of its own that looks like a placeholder."""
    store = Store.create(tmp_path)
    store.add(Fixture.of(says(HERE), "Old, of ⟦cwd⟧."))
    store.commit()
    before = stored_bytes(tmp_path)

    for mode in ("replay", "once"):
        with run_over(tmp_path, mode, provider.url, surroundings=HERE) as run:
            assert text_in(ask(run, "POST", MESSAGES, asked(HERE))) == "Old, of ⟦cwd⟧."
            assert (run.ledger.hits, run.ledger.live) == (1, 0)
    with run_over(tmp_path, surroundings=THERE) as run:
        assert ask(run, "POST", MESSAGES, asked(THERE)).status == 424
        assert text_in(ask(run, "POST", MESSAGES, asked(HERE))) == "Old, of ⟦cwd⟧."
    assert stored_bytes(tmp_path) == before


def test_text_that_looks_like_a_placeholder_is_not_taken_for_one(
    provider: FakeProvider, tmp_path: Path
) -> None:
    """Neither in what is asked nor in what is found."""
    literal = body_of("anthropic-messages", request_for("Write ⟦cwd⟧ and ⟦=cwd⟧ as they are."))
    bound = body_of("anthropic-messages", request_for(f"Write {HERE.values['cwd']['']}."))
    looks_bound = body_of("anthropic-messages", request_for("Write ⟦cwd⟧."))
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        live = ask(run, "POST", MESSAGES, literal)
        ask(run, "POST", MESSAGES, bound)
    with run_over(tmp_path, surroundings=THERE) as run:
        assert ask(run, "POST", MESSAGES, literal).body == live.body
        assert ask(run, "POST", MESSAGES, looks_bound).status == 424


def test_a_secret_beside_a_bound_value_is_cut_out(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Zq8vN2rT6wXy4KbM" * 4
    with (
        serving_in_thread(*saying(f"In {{}} lies {key}.")) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        body = body_of("anthropic-messages", request_for(f"{HERE.values['cwd']['']}/.env holds {key}"))
        ask(run, "POST", MESSAGES, body)
        assert (run.ledger.recorded, run.ledger.refused) == (1, [])
    whole = stored_bytes(tmp_path)

    assert key not in whole
    assert not any(value in whole for value in values_of(HERE))
    assert "⟦cwd⟧/.env holds" in whole


def test_normalisers_and_bindings_work_together(provider: FakeProvider, tmp_path: Path) -> None:
    (tmp_path / "cortex-replay.toml").write_text(
        '[normalisers]\nticket = { pattern = "T-[0-9]+", placeholder = "<ticket>" }\n'
    )
    root = tmp_path / "llm"

    def body(where: Surroundings, ticket: str) -> dict[str, Any]:
        return body_of("anthropic-messages", request_for(f"{ticket} in {where.values['cwd']['']}"))

    with run_over(root, "once", provider.url, surroundings=HERE) as run:
        ask(run, "POST", MESSAGES, body(HERE, "T-1"))
    with run_over(root, surroundings=THERE) as run:
        assert (
            text_in(ask(run, "POST", MESSAGES, body(THERE, "T-22")))
            == f"You said: T-1 in {THERE.values['cwd']['']}"
        )


def echo() -> Script:
    async def say(turn: Turn) -> None:
        await turn.whole(
            json.dumps({"echo": turn.received.body.decode(), "path": turn.received.path}).encode()
        )

    return say


@roads
def test_a_call_that_is_recorded_as_it_is_is_bound(tmp_path: Path, is_quick: bool) -> None:
    def call(where: Surroundings, uuid: str) -> tuple[str, str, dict[str, str]]:
        return (
            "POST",
            f"/openai/v1/things?at={where.values['host']['']}",
            {"input": says(where, uuid).messages[-1].content},
        )

    with (
        serving_in_thread(echo()) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        live = ask(run, *call(HERE, UUIDS[0]))
        assert run.ledger.recorded == 1
    with run_over(tmp_path, surroundings=HERE) as run:
        assert ask(run, *call(HERE, UUIDS[0]), is_quick=is_quick).body == live.body
    with run_over(tmp_path, surroundings=THERE) as run:
        there = ask(run, *call(THERE, UUIDS[1]), is_quick=is_quick)

    assert json.loads(there.json["echo"]) == call(THERE, UUIDS[1])[2]
    assert there.json["path"] == "/v1/things?at=runner-9"
    assert not any(value in stored_bytes(tmp_path) for value in values_of(HERE))


def test_an_id_in_a_path_names_a_thing(tmp_path: Path) -> None:
    """Two of them are two calls, whoever asks first."""
    with (
        serving_in_thread(echo()) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        for uuid in UUIDS:
            ask(run, "GET", f"/openai/v1/things/{uuid}")
    with run_over(tmp_path, surroundings=THERE) as run:
        for uuid in reversed(UUIDS):
            assert ask(run, "GET", f"/openai/v1/things/{uuid}").json["path"] == f"/v1/things/{uuid}"


def test_a_call_that_was_recorded_without_bindings_is_found(tmp_path: Path) -> None:
    request: dict[str, Any] = {
        "upstream": "openai",
        "method": "POST",
        "path": "/v1/things",
        "query": [],
        "body": {"at": "/home/ann/shop"},
    }
    store = Store.create(tmp_path)
    store.add_exchange(
        Exchange(
            {"status": 200, "headers": {}, "body": '"of ⟦cwd⟧"'}, key=opaque_key(request), request=request
        )
    )
    store.commit()
    with run_over(tmp_path, surroundings=HERE) as run:
        assert ask(run, "POST", "/openai/v1/things", request["body"]).json == "of ⟦cwd⟧"


def test_a_call_that_looks_like_one_with_bound_values_is_another(tmp_path: Path) -> None:
    def call(where: str) -> tuple[str, str, dict[str, str]]:
        return "POST", "/openai/v1/things", {"in": where}

    with (
        serving_in_thread(echo()) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        ask(run, *call(HERE.values["cwd"][""]))
    with run_over(tmp_path, surroundings=THERE) as run:
        assert ask(run, *call("⟦cwd⟧")).status == 424
        assert ask(run, *call(THERE.values["cwd"][""])).status == 200


def test_a_program_that_counts_tokens_may_live_on_another_day(tmp_path: Path) -> None:
    def where(day: datetime) -> Surroundings:
        return Surroundings.of({"TZ": "UTC"}, "/builds/1", now=lambda: day)

    def count(day: str) -> tuple[str, str, dict[str, Any]]:
        return "POST", f"{MESSAGES}/count_tokens", {"messages": [f"Today is {day}."]}

    recorded = where(datetime(2026, 11, 15, 12, tzinfo=UTC))
    with (
        serving_in_thread(echo()) as server,
        run_over(tmp_path, "once", server.url, surroundings=recorded) as run,
    ):
        ask(run, *count("2026-11-15"))
    with run_over(tmp_path, surroundings=where(datetime(2027, 1, 2, 12, tzinfo=UTC))) as run:
        for day in ("2027-01-02", "2019-05-06"):
            assert day in ask(run, *count(day)).json["echo"]
        assert ask(run, *count("2019-05-06 and 2019-05-06")).status == 424


def test_several_answers_to_a_call_that_is_recorded_as_it_is(tmp_path: Path) -> None:
    """Polls, in two scopes of one run: one asks, and both have them."""

    def status(text: str) -> Script:
        async def say(turn: Turn) -> None:
            await turn.whole(json.dumps({"status": text, "in": turn.received.json["in"]}).encode())

        return say

    def poll(where: Surroundings) -> tuple[str, str, dict[str, str]]:
        return "POST", "/openai/v1/poll", {"in": where.values["cwd"][""]}

    with (
        serving_in_thread(status("queued"), status("done")) as server,
        run_over(tmp_path, "once", server.url, surroundings=HERE) as run,
    ):
        live = [ask(run, *poll(HERE), scope=scope).json for scope in "aabb"]
        assert run.ledger.live == 2
    with run_over(tmp_path, surroundings=THERE) as run:
        again = [ask(run, *poll(THERE), scope=scope).json for scope in "aabb"]

    assert [one["status"] for one in live] == [one["status"] for one in again] == ["queued", "done"] * 2
    assert {one["in"] for one in again} == {THERE.values["cwd"][""]}
    assert not any(value in stored_bytes(tmp_path) for value in values_of(HERE))
