"""Requests that go the other way: sampling, roots, elicitation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay.modes import Mode
from tests.engine.mcp.harness import (
    Act,
    Client,
    FakeServer,
    log,
    play,
    record,
    replay,
    result,
    text_of,
    without_ids,
)

Message = dict[str, Any]
SECRET = "sk-ant-api03-" + "aB3dE5fG7h" * 9


def sampler() -> Any:
    """A server whose tool asks the client before it answers."""
    asked: list[Message] = []

    def reply(message: Message) -> list[Message]:
        if message.get("method") == "tools/call":
            asked.append(message)
            return [{"id": 1, "method": "sampling/createMessage", "params": {"maxTokens": 5}}]
        if "method" in message:
            return []
        return [log("thanks"), result(asked.pop(0), str(message["result"].get("text", "nothing")))]

    return reply


def answering(result_given: Any) -> Act:
    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "sample", "arguments": {}}, id=1)
        await client.reply(await client.message("sampling/createMessage"), result_given)
        await client.answer_to(1)

    return act


def test_a_request_of_the_server_is_asked_again(tmp_path: Path) -> None:
    recorded = record(tmp_path, answering({"text": "tea"}), sampler())
    replayed = replay(tmp_path, answering({"text": "tea"}))

    assert without_ids(replayed.got) == without_ids(recorded.got)
    assert text_of(replayed.got[-1]) == "tea"
    assert isinstance(replayed.got[0]["id"], str)  # no server of ours counts so


def test_the_answer_waits_for_the_client(tmp_path: Path) -> None:
    record(tmp_path, answering({"text": "tea"}), sampler())

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "sample", "arguments": {}}, id=1)
        assert [message["method"] for message in client.got] == ["sampling/createMessage"]
        await client.reply(client.got[0], {"text": "tea"})
        assert len(client.got) == 3

    replay(tmp_path, act)


def test_another_answer_of_the_client_is_a_miss_that_says_what_differs(tmp_path: Path) -> None:
    record(tmp_path, answering({"text": "tea", "model": "m"}), sampler())
    replayed = replay(tmp_path, answering({"text": "coffee", "model": "m"}))

    error = replayed.got[-1]["error"]
    assert error["data"] == {"type": "no_fixture"}
    assert "sampling/createMessage" in error["message"]
    assert "result.text: 'tea' → 'coffee'" in error["message"]
    assert len(replayed.run.ledger.misses) == 1
    assert "model" not in error["message"]


@pytest.mark.parametrize("given", [{"text": "tea", "_meta": {"at": 2}}, {"_meta": {}, "text": "tea"}])
def test_what_an_answer_carries_beside_what_it_says_is_not_compared(tmp_path: Path, given: Message) -> None:
    record(tmp_path, answering({"text": "tea", "_meta": {"at": 1}}), sampler())

    assert text_of(replay(tmp_path, answering(given)).got[-1]) == "tea"


def test_a_secret_in_an_answer_is_not_stored_and_compared_without_it(tmp_path: Path) -> None:
    record(tmp_path, answering({"text": f"key {SECRET}"}), sampler())
    replayed = replay(tmp_path, answering({"text": f"key {SECRET}"}))

    assert "result" in replayed.got[-1]
    stored = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET not in stored


def test_answers_may_come_in_another_order(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") == "tools/call":
            calls.append(message)
            return [{"id": n, "method": "elicitation/create", "params": {"n": n}} for n in (1, 2)]
        answers.append(message)
        return [log(f"got {message['id']}")] + ([result(calls[0])] if len(answers) == 2 else [])

    def act_in(order: tuple[int, int]) -> Act:
        async def act(client: Client) -> None:
            await client.say("tools/call", {"name": "two", "arguments": {}}, id=9)
            await client.message("elicitation/create", 2)
            asked = list(client.got)
            for number in order:
                await client.reply(asked[number], {"n": number})
            await client.answer_to(9)

        return act

    calls: list[Message] = []
    answers: list[Message] = []
    recorded = record(tmp_path, act_in((1, 0)), reply)

    for order in ((0, 1), (1, 0)):
        replayed = replay(tmp_path, act_in(order))
        assert without_ids(replayed.got) == without_ids(recorded.got)


def test_another_answer_behind_the_end_is_only_noted(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") == "tools/call":
            return [result(message), {"id": 1, "method": "roots/list"}]
        return [log("late")]

    def act_with(roots: list[str]) -> Act:
        async def act(client: Client) -> None:
            await client.call("t", 1)
            await client.reply(await client.message("roots/list"), {"roots": roots})
            await client.message("notifications/message")

        return act

    record(tmp_path, act_with(["a"]), reply)
    replayed = replay(tmp_path, act_with(["b"]))

    assert not replayed.run.ledger.misses
    [note] = replayed.run.ledger.remarks
    assert "roots/list" in note


def test_an_answer_may_come_behind_the_next_call(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") != "tools/call":
            return [log("late")]
        is_first = message["params"]["name"] == "t"
        return [result(message), *([{"id": 1, "method": "roots/list"}] if is_first else [])]

    async def act(client: Client) -> None:
        await client.call("t", 1)
        request = await client.message("roots/list")
        await client.call("u", 2)
        await client.reply(request, {"roots": []})
        await client.message("notifications/message")

    recorded = record(tmp_path, act, reply)
    replayed = replay(tmp_path, act)

    assert without_ids(replayed.got) == without_ids(recorded.got)
    assert not replayed.run.ledger.remarks


def test_a_request_that_the_server_takes_back_is_taken_back_again(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") != "tools/call":
            return []
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 33, "reason": "late"}}
        return [{"id": 33, "method": "elicitation/create", "params": {}}, cancelled, result(message)]

    async def act(client: Client) -> None:
        await client.call("t", 1)
        await client.reply(client.got[0], {"too": "late"})

    record(tmp_path, act, reply)
    replayed = replay(tmp_path, act)

    asked, cancelled, _ = replayed.got
    assert cancelled["params"] == {"requestId": asked["id"], "reason": "late"}


def test_ids_of_replay_are_never_used_twice(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        for number in range(1, 4):
            await client.say("tools/call", {"name": "sample", "arguments": {}}, id=number)
            request = await client.message("sampling/createMessage", number)
            await client.reply(request, {"text": "tea"})
            await client.answer_to(number)

    record(tmp_path, act, sampler())
    replayed = replay(tmp_path, act)

    ids = [message["id"] for message in replayed.got if "method" in message and "id" in message]
    assert len(set(ids)) == 3


def test_ids_of_replay_do_not_depend_on_other_calls(tmp_path: Path) -> None:
    """Which of two calls at once comes first is chance where each has a connection of its own."""

    def calling(*names: str) -> Act:
        async def act(client: Client) -> None:
            for number, name in enumerate(names, start=1):
                await client.say("tools/call", {"name": name, "arguments": {}}, id=number)
                await client.reply(await client.message("sampling/createMessage", number), {"text": "tea"})
                await client.answer_to(number)

        return act

    def ids(*names: str) -> list[Any]:
        got = replay(tmp_path, calling(*names)).got
        return [message["id"] for message in got if "method" in message and "id" in message]

    record(tmp_path, calling("one", "other"), sampler())

    assert ids("one", "other") == ids("other", "one")[::-1]
    assert len({*ids("one", "one"), *ids("one", "other")}) == 3


def test_an_answer_to_nothing_is_dropped_in_replay_and_passed_on_in_record(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.call("t", 1)
        await client.reply({"id": 77}, {})
        await client.reply({"id": "cortex-replay-9-9"}, {})
        await client.call("u", 2)

    client = play(
        tmp_path, Mode.RECORD, act, lambda: FakeServer(lambda m: [result(m)] if "method" in m else [])
    )
    replayed = replay(tmp_path, act)

    assert [message.get("id") for message in client.servers[0].heard] == [1, 77, 2]
    assert replayed.got == client.got


@pytest.mark.parametrize("number", ["1" * 5000, "²", "٣", "0", "-1", ""])
def test_an_answer_to_what_nobody_asked_is_nothing(tmp_path: Path, number: str) -> None:
    record(tmp_path, answering({"text": "tea"}), sampler())

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "sample", "arguments": {}}, id=1)
        asked = await client.message("sampling/createMessage")
        await client.answer(f"{asked['id'].rpartition('-')[0]}-{number}", {"text": "coffee"})
        await client.reply(asked, {"text": "tea"})
        assert text_of(await client.answer_to(1)) == "tea"

    replay(tmp_path, act)
