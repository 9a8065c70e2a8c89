"""Whatever stands in the file of a recorded call: it is refused, or it can be played to its end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings, strategies as st

from cortex_replay.engine.mcp.link import Outgoing
from cortex_replay.engine.mcp.playback import Playback
from cortex_replay.mcp.messages import LISTEN, messages_in
from cortex_replay.mcp.questions import question_of
from cortex_replay.mcp.summaries import end_of_script
from cortex_replay.mcp.texts import change_texts, texts_in
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture_json import FixtureError

NAMES = st.sampled_from(
    [
        *("method", "params", "to", "result", "error", "reason", "id", "jsonrpc", "at_ms", "_meta"),
        *(
            "progressToken",
            "requestId",
            "io.modelcontextprotocol/subscriptionId",
            "uri",
            "blob",
            "type",
            "name",
        ),
    ]
)
TEXTS = st.sampled_from(
    ["", "x", "notifications/progress", "notifications/cancelled", "roots/list", "⟦cwd⟧", "image"]
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 4) | st.just(2**70) | TEXTS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
KINDS = st.sampled_from(["notification", "request", "answer", "result", "error", "cancelled", "messages"])
SAID = st.fixed_dictionaries({"method": TEXTS}, optional={"params": ANYTHING, "to": st.integers(0, 3)})
ANSWERS = st.fixed_dictionaries({"to": st.integers(0, 3), "result": ANYTHING})
ENTRIES = st.one_of(
    st.builds(lambda said: {"at_ms": 0, "notification": said}, SAID),
    st.builds(lambda method: {"at_ms": 0, "request": {"method": method}}, TEXTS),
    st.builds(lambda answer: {"at_ms": 1, "answer": answer}, ANSWERS),
    st.builds(lambda kind, value: {"at_ms": 2, kind: value}, KINDS, ANYTHING),
    ANYTHING,
)
GOOD_SAID = st.fixed_dictionaries({"method": TEXTS}, optional={"params": ANYTHING})
GOOD_ENTRIES = st.one_of(
    st.builds(lambda said: {"at_ms": 0, "notification": said}, GOOD_SAID),
    st.builds(lambda said: {"at_ms": 0, "request": said}, GOOD_SAID),
)
PAIR = st.just([{"at_ms": 0, "request": {"method": "x"}}, {"at_ms": 1, "answer": {"to": 1, "result": 1}}])
GOOD = st.builds(lambda pair, rest: pair + rest, PAIR | st.just([]), st.lists(GOOD_ENTRIES, max_size=5))
SCRIPTS = GOOD | GOOD | st.lists(ENTRIES, max_size=4) | ANYTHING
METHODS = st.sampled_from(["tools/call", LISTEN, "notifications/initialized", ""])


async def play(wire: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """What a client gets that answers all it is asked, and gives up a call that does not end."""
    got: list[dict[str, Any]] = []

    async def take(out: Outgoing) -> None:
        [message] = messages_in(out.frame)
        got.append(message)

    is_notification = method.startswith("notifications/")
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method} | ({} if is_notification else {"id": 7})
    playback = Playback(wire, message, take, "p", lambda value: value, lambda number: number)
    await playback.play()
    answered = 0
    while not playback.is_over:
        asked = [one["id"] for one in got if "method" in one and "id" in one]
        if answered < len(asked):
            playback.take_answer({"jsonrpc": "2.0", "id": asked[answered], "result": {}})
            answered += 1
            await playback.play()
        else:
            assert not playback.has_ended, "it waits for nothing"
            await playback.cancel()
    return got


@settings(max_examples=150, deadline=None)
@given(messages=SCRIPTS, method=METHODS, is_odd=st.sampled_from([False, False, False, True]))
def test_a_file_is_refused_or_played(messages: Any, method: str, is_odd: bool) -> None:
    wants_end = method != LISTEN and not method.startswith("notifications/")
    if wants_end != is_odd and isinstance(messages, list):
        messages = [*messages, {"at_ms": 3, "result": {}}]
    question = question_of("tools", method, {"name": "x"})
    document = {"request": question, "wire": {"messages": messages}}
    try:
        exchange = parse_exchange(json.dumps(document).encode())
    except FixtureError:
        return

    got = asyncio.run(play(exchange.wire, method))

    ends = [one for one in got if "method" not in one]
    is_given_up = any("cancelled" in entry for entry in messages)
    is_closed = wants_end and not is_given_up
    assert len(ends) <= 1
    assert (len(ends) == 1) >= is_closed
    assert all(one["id"] == 7 for one in ends)
    assert change_texts(messages, lambda text: text) == messages
    assert texts_in(change_texts(messages, lambda text: f"{text}!")) == [
        f"{text}!" for text in texts_in(messages)
    ]
    assert isinstance(end_of_script(exchange.wire), str)
    assert json.dumps(exchange.wire)
