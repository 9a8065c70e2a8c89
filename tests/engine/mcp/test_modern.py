"""The era in which each request stands alone: 2026-07-28."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Act, Client, FakeServer, log, play, record, replay, result, text_of

Message = dict[str, Any]
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def meta(subscription: Any) -> Message:
    return {"_meta": {SUBSCRIPTION: subscription}}


def notifier() -> Any:
    """A server that tells of each change whoever listens."""
    listeners: list[Any] = []

    def reply(message: Message) -> list[Message]:
        if message["method"] == "subscriptions/listen":
            listeners.append(message["id"])
            return [{"method": "notifications/subscriptions/acknowledged", "params": meta(message["id"])}]
        if message["method"] == "notifications/cancelled":
            listeners.remove(message["params"]["requestId"])
            return []
        changed = [
            {
                "method": "notifications/resources/updated",
                "params": {"uri": "a", **meta(about)},
                "about": about,
            }
            for about in listeners
        ]
        return [*changed, result(message)]

    return reply


def listener(*ids: int) -> Act:
    async def act(client: Client) -> None:
        for number, id in enumerate(ids, start=1):  # noqa: A001
            await client.say("subscriptions/listen", {"notifications": {"n": number}}, id)
            await client.message("notifications/subscriptions/acknowledged", number)
        await client.call("change", 50)
        await client.cancel(ids[0])
        await client.call("change", 51)

    return act


def kinds(client: Client) -> list[tuple[Any, Any]]:
    return [
        (
            message.get("method", message.get("id")),
            message.get("params", {}).get("_meta", {}).get(SUBSCRIPTION),
        )
        for message in client.got
    ]


def test_a_subscription_is_told_of_a_change_when_it_happens(tmp_path: Path) -> None:
    recorded = record(tmp_path, listener(1, 2), notifier())
    replayed = replay(tmp_path, listener(7, 8))

    names = {1: 7, 2: 8, None: None}
    assert kinds(replayed) == [(kind, names[about]) for kind, about in kinds(recorded)]
    assert kinds(recorded)[2:] == [
        ("notifications/resources/updated", 1),
        ("notifications/resources/updated", 2),
        (50, None),
        ("notifications/resources/updated", 2),
        (51, None),
    ]
    assert [out.about for out in replayed.frames] == [7, 8, 7, 8, 50, 8, 51]


def test_a_subscription_that_was_open_at_the_end_stays_open(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.say("subscriptions/listen", {"notifications": {}}, 1)
        await client.message("notifications/subscriptions/acknowledged")

    recorded, replayed = record(tmp_path, act, notifier()), replay(tmp_path, act)

    assert replayed.got == recorded.got
    assert len(replayed.got) == 1


def test_what_is_no_news_of_a_subscription_belongs_where_it_came(tmp_path: Path) -> None:
    reply = notifier()

    async def act(client: Client) -> None:
        await client.say("subscriptions/listen", {"notifications": {}}, 1)
        await client.message("notifications/subscriptions/acknowledged")
        await client.call("change", 2)
        await client.message("notifications/message")

    recorded = record(tmp_path, act, lambda m: [*reply(m), *([log("behind")] if m["id"] == 2 else [])])
    replayed = replay(tmp_path, act)

    assert [m.get("method") for m in replayed.got] == [m.get("method") for m in recorded.got]
    assert replayed.got[-1]["params"]["data"] == "behind"


def test_a_late_server_serves_the_subscription_from_then_on(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.say("subscriptions/listen", {"notifications": {}}, 1)
        await client.message("notifications/subscriptions/acknowledged")
        if client.run.mode is Mode.ONCE:
            await client.call("change", 2)

    play(tmp_path, Mode.RECORD, act, lambda: FakeServer(notifier()))
    client = play(tmp_path, Mode.ONCE, act, lambda: FakeServer(notifier()))

    assert kinds(client)[-2:] == [("notifications/resources/updated", 1), (2, None)]


def test_a_result_that_wants_input_and_the_retry_are_two_calls(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        params = message["params"]
        if "requestState" not in params:
            wanted = {"resultType": "input_required", "inputRequests": {"q": {}}, "requestState": "s1"}
            return [{"id": message["id"], "result": wanted}]
        return [result(message, params["inputResponses"]["q"])]

    def act_with(answer: str) -> Act:
        async def act(client: Client) -> None:
            params = {"name": "t", "arguments": {}, "_meta": {"io.modelcontextprotocol/protocolVersion": "x"}}
            first = await client.ask("tools/call", params, id=1)
            retry = {"requestState": first["result"]["requestState"], "inputResponses": {"q": answer}}
            await client.ask("tools/call", params | retry, id=2)

        return act

    record(tmp_path, act_with("tea"), reply)

    assert text_of(replay(tmp_path, act_with("tea")).got[-1]) == "tea"
    other = replay(tmp_path, act_with("coffee")).got[-1]["error"]["message"]
    assert "'tea' → 'coffee'" in other


def test_pages_are_calls_of_their_own(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        cursor = message.get("params", {}).get("cursor", "0")
        following = {"nextCursor": str(int(cursor) + 1)} if cursor != "2" else {}
        return [{"id": message["id"], "result": {"tools": [{"name": f"t{cursor}"}], **following}}]

    async def act(client: Client) -> None:
        answer = await client.ask("tools/list", id=1)
        while (cursor := answer["result"].get("nextCursor")) is not None:
            answer = await client.ask("tools/list", {"cursor": cursor}, id=int(cursor) + 1)

    recorded, replayed = record(tmp_path, act, reply), replay(tmp_path, act)

    assert len(recorded.got) == 3
    assert replayed.got == recorded.got
