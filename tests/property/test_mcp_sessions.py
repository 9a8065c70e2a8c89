"""Laws of MCP sessions: whatever a client and a server say, replay says it again, call by call."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from hypothesis import given, strategies as st

from tests.engine.mcp.harness import Client, record, replay
from tests.property.strategies import effort

Message = dict[str, Any]
Step = Literal["log", "progress", "ask"]
ASK = "elicitation/create"
LOG = "notifications/message"
PROGRESS = "notifications/progress"


@dataclass(frozen=True)
class Plan:
    """What comes of one call."""

    tool: int
    """Equal ones are the same call."""
    steps: tuple[Step, ...]
    end: Literal["result", "error", "cancel"]
    behind: int
    """How many messages follow the end; only of calls that are alone."""


steps = st.lists(st.sampled_from(["log", "progress", "ask"]), max_size=4).map(tuple)
plans = st.builds(
    Plan,
    st.integers(0, 1),
    steps,
    st.sampled_from(["result", "result", "error", "cancel"]),
    st.integers(0, 2),
)
groups = st.lists(st.lists(plans, min_size=1, max_size=3), min_size=1, max_size=4)


class Server:
    """Keeps to the plans. Calls of a group are answered once all are there, with their messages mixed."""

    def __init__(self, groups: list[list[Plan]], picks: list[int]) -> None:
        self._groups = deque(groups)
        self._picks = cycle(picks)
        self._open: list[tuple[Message, Iterator[Message]]] = []
        self._arrived: list[Message] = []
        self._asked: dict[int, tuple[Message, Iterator[Message]]] = {}
        self._count = 0

    def reply(self, message: Message) -> list[Message]:
        if message.get("method") == "tools/call":
            self._arrived.append(message)
            if len(self._arrived) == len(self._groups[0]):
                plans = self._groups.popleft()
                is_alone = len(plans) == 1
                self._open = [
                    (call, self._messages(plan, call, is_alone=is_alone))
                    for plan, call in zip(plans, self._arrived, strict=True)
                ]
                self._arrived = []
        elif "method" not in message:
            self._open.append(self._asked.pop(message["id"]))
        return list(self._talk())

    def _talk(self) -> Iterator[Message]:
        while self._open:
            number = next(self._picks) % len(self._open)
            said = next(self._open[number][1], None)
            if said is None:
                self._open.pop(number)
            else:
                yield said
                if said.get("method") == ASK:
                    self._asked[said["id"]] = self._open.pop(number)

    def _messages(self, plan: Plan, call: Message, *, is_alone: bool) -> Iterator[Message]:
        about = {} if is_alone else {"about": call["id"]}
        token = call["params"]["_meta"]["progressToken"]
        for step in plan.steps:
            self._count += 1
            params = {"n": self._count, "call": call["id"]}
            if step == "log":
                yield {"method": LOG, "params": params, **about}
            elif step == "progress":
                yield {"method": PROGRESS, "params": {**params, "progressToken": token}}
            else:
                yield {"id": self._count, "method": ASK, "params": params, **about}
        if plan.end == "cancel":
            return
        self._count += 1
        end = {"code": self._count, "message": "no"} if plan.end == "error" else {"n": self._count}
        yield {"id": call["id"], plan.end: end}
        for _ in range(plan.behind if is_alone else 0):
            self._count += 1
            yield {"method": LOG, "params": {"n": self._count, "call": call["id"]}}


def expected(group: list[Plan]) -> int:
    """How many messages come of a group."""
    behind = group[0].behind if len(group) == 1 and group[0].end != "cancel" else 0
    return behind + sum(len(plan.steps) + (plan.end != "cancel") for plan in group)


async def talk(client: Client, groups: list[list[Plan]]) -> None:
    """A client that answers what it is asked, and cancels what is not answered."""
    id = 0  # noqa: A001
    for group in groups:
        seen, ids = len(client.got), []
        for plan in group:
            id += 1  # noqa: A001
            ids.append(id)
            params = {"name": f"t{plan.tool}", "arguments": {}, "_meta": {"progressToken": f"p{id}"}}
            await client.say("tools/call", params, id)
        for at in range(seen, seen + expected(group)):
            await client._find(lambda _: True, at + 1)
            message = client.got[at]
            if message.get("method") == ASK:
                await client.reply(message, {"to": message["params"]})
        for plan, about in zip(group, ids, strict=True):
            if plan.end == "cancel":
                await client.cancel(about)


def by_call(messages: list[Message]) -> dict[int, list[Message]]:
    """What was said to each call, without the ids of the server."""
    said: dict[int, list[Message]] = {}
    for message in messages:
        about = message["params"]["call"] if "method" in message else message["id"]
        said.setdefault(about, []).append(
            {name: value for name, value in message.items() if name != "id" or "method" not in message}
        )
    return said


@given(groups=groups, picks=st.lists(st.integers(0, 5), min_size=1, max_size=8))
@effort(12)
def test_replay_says_to_each_call_what_was_said_to_it(groups: list[list[Plan]], picks: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorded = record(Path(folder), lambda client: talk(client, groups), Server(groups, picks).reply)
        replays = [replay(Path(folder), lambda client: talk(client, groups)) for _ in range(3)]

    assert by_call(replays[0].got) == by_call(recorded.got)
    frames = [[out.frame for out in client.frames] for client in replays]
    assert frames[1:] == frames[:1] * 2
    assert not replays[0].run.ledger.misses
