"""OpenAI's prompt cache.

Models before GPT-5.6 keep every prompt from 1,024 tokens on by themselves, and read it in steps of 128:
1,024, 1,152, 1,280 and so on. Writing costs nothing. From GPT-5.6 on a prompt is kept where a breakpoint
stands: at its end, and where the client set one; it is found again at exactly these places. Writing costs a
quarter more.

What the guide leaves open, and what is taken for true here: a call with another cache key is routed elsewhere
and finds nothing; whatever is read lives on from then; what is kept in memory for "5 to 10 minutes of
inactivity" is kept for ten. A provider that drops it earlier reads less than this says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome, Reason, Why
from cortex_replay.prompt.cache.facts import fact_of, value_of
from cortex_replay.prompt.cache.simulators.prompt_tree import PromptTree, TextOf, Trail, explain_rest
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["OpenAiCache"]

_KEEPS_A_DAY: Final = re.compile(r"(?:.*/)?gpt-(?:4\.1|5)(?!\d)")


class OpenAiCache:
    """The cache of one organisation."""

    def __init__(self, text_of: TextOf | None = None) -> None:
        self._tree = PromptTree(text_of)

    def ask(self, call: CacheCall) -> CacheOutcome:
        """What is read and written for the next call."""
        trail = self._tree.follow(call)
        step = int(value_of("openai", call.model, "step"))
        if step == 1:
            return _ask_at_breakpoints(call, trail)
        return self._tree.ask(
            call,
            trail,
            minimum=fact_of("openai", call.model, "minimum"),
            step=step,
            seconds=_retention(call),
            refresh=True,
        )


def _ask_at_breakpoints(call: CacheCall, trail: Trail) -> CacheOutcome:
    minimum = value_of("openai", call.model, "minimum")
    most_writes = int(value_of("openai", call.model, "markers"))
    most_reads = int(value_of("openai", call.model, "lookback"))
    ends = list(accumulate(block.tokens for block in call.blocks))
    last = len(ends) - 1
    marks = [i for i, block in enumerate(call.blocks) if block.marker is not CachePolicy.NONE]
    own = [last] if call.adds_breakpoint and last >= 0 else []
    written = [i for i in range(last, -1, -1) if trail.was_written(i)]
    # Told to add none of its own, it does not look at what it added for other calls either.
    usable = {*written, *marks, *own} if call.adds_breakpoint else {*marks}
    looked_at = sorted(usable, reverse=True)[:most_reads]
    found = next((i for i in looked_at if trail.is_alive(i, call.at)), -1)
    read = ends[found] if found >= 0 else 0
    kept = [i for i in (*[m for m in marks if m not in own][-(most_writes - len(own)) :], *own) if i > found]
    writes = [i for i in kept if ends[i] >= minimum]
    write = ends[writes[-1]] - read if writes else 0

    reasons = [*_unread(call, trail, ends, found, usable)]
    if not own and not marks:
        reasons.append(Reason("no marker", tokens=call.tokens))
    elif kept and not writes:
        reasons.append(Reason("too short", tokens=ends[kept[-1]]))
    within = [i for i in written if i <= found and trail.is_alive(i, call.at)]
    trail.write([*within, *writes], call, value_of("openai", call.model, "ttl"))
    return CacheOutcome(read=read, write_5m=write, fresh=call.tokens - read - write, reasons=tuple(reasons))


def _unread(call: CacheCall, trail: Trail, ends: list[int], found: int, usable: set[int]) -> Iterator[Reason]:
    """Why nothing is read behind what was found: what was written there is gone or too far back, or it is
    shared with an earlier prompt and has no breakpoint."""
    read = ends[found] if found >= 0 else 0
    behind = max((i for i in usable if i > found and trail.was_written(i)), default=None)
    if behind is not None:
        is_alive = trail.is_alive(behind, call.at)
        why: Why = "lookback" if is_alive else trail.gone(behind, call.at)
        yield Reason(why, call.blocks[behind].name, ends[behind] - read)
    elif (reason := explain_rest(call, trail, trail.known)) is not None:
        yield reason
        shared = trail.known - 1
        if shared > found and ends[shared] >= value_of("openai", call.model, "minimum"):
            yield Reason("no marker", call.blocks[shared].name, ends[shared] - read)


def _retention(call: CacheCall) -> float:
    """How long a model before GPT-5.6 keeps a prompt that is not read.

    Where the call does not say, it is a day for models that can: so it is for every organisation that has not
    agreed with OpenAI that nothing is kept.
    """
    asks_for_a_day = call.retention == "24h" if call.retention else _KEEPS_A_DAY.match(call.model)
    return value_of("openai", call.model, "ttl_24h" if asks_for_a_day else "ttl")
