"""Calls that send only what is new, because the provider has the rest: what it read all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Final

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.history.calls import HistoryCall
from cortex_replay.prompt.parts import goes_on
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["whole_requests"]

_ID: Final = re.compile(r'"id"\s*:\s*"([^"]{1,200})"')
_FIRST_EVENTS: Final = 3


def whole_requests(calls: Sequence[HistoryCall]) -> Iterator[LlmRequest | None]:
    """What the provider read for each call; ``None`` where it began with something that is not among them.

    A response does not hand on its instructions and tools, so they are those of the call itself. They come
    one by one: a thousand short calls that go on from each other are a million messages.

    Args:
        calls: In the order in which they were asked.
    """
    names = (call.request.extra.get("previous_response_id") for call in calls)
    wanted = {name for name in names if isinstance(name, str)}
    threads: dict[str, tuple[LlmMessage, ...]] = {}
    for call in calls:
        whole = _join(call.request, threads)
        yield whole
        if wanted and whole is not None and call.said is not None:
            answer = LlmMessage(LlmRole.ASSISTANT, call.said.text, tool_calls=call.said.tool_calls)
            for name in wanted.intersection(_ids_in(call.said.wire or {})):
                threads[name] = (*whole.messages, answer)


def _join(request: LlmRequest, threads: Mapping[str, tuple[LlmMessage, ...]]) -> LlmRequest | None:
    if not goes_on(request):
        return request
    name = request.extra.get("previous_response_id")
    before = threads.get(name) if isinstance(name, str) else None
    if before is None:
        return None
    joined = copy(request)
    check.keep(joined, "messages", (*before, *request.messages))  # a new request would check everything again
    return joined


def _ids_in(answer: Mapping[str, JsonValue]) -> list[str]:
    """The ids in an answer as it came: its own is among them."""
    body, events = answer.get("body"), answer.get("events")
    texts = [body] if isinstance(body, str) else []
    if isinstance(events, list):
        rows = [event.get("text") for event in events[:_FIRST_EVENTS] if isinstance(event, dict)]
        texts += [text for text in rows if isinstance(text, str)]
    return [found for text in texts for found in _ID.findall(text)]
