"""Two requests whose system texts are cut in the same places, so that their parts can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cortex_replay.prompt.blocks import BLANK_LINE
from cortex_replay.prompt.markers import system_blocks
from cortex_replay.types import CacheMark, CacheTime, LlmRequest, PromptCachePlan

__all__ = ["align_cuts"]


def align_cuts(request: LlmRequest, other: LlmRequest) -> LlmRequest:
    """A request with its system text also cut where the other's is, so that their parts can be compared."""
    text = request.system
    own, others = ({cut[0]: cut[1:] for cut in _cuts(one)} for one in (request, other))
    for end, (_, label) in others.items():
        if end == len(text) or (end < len(text) and text.startswith(BLANK_LINE, end)):
            time, name = own.get(end, ("none", ""))
            own[end] = time, name or label
    if len(own) < 2:
        return request
    cuts = sorted(own.items())
    plan = replace(
        request.cache or PromptCachePlan(),
        system_cuts=tuple((end, time) for end, (time, _) in cuts),
        labels=tuple(label for _, (_, label) in cuts),
        marks=tuple(_marks(request, [end for end, _ in cuts])),
    )
    return replace(request, cache=plan)


def _cuts(request: LlmRequest) -> Iterator[tuple[int, CacheTime, str]]:
    """Where each block of the system text ends, the marker behind it, and its label."""
    blocks = system_blocks(request)
    labels = request.cache.labels if request.cache is not None else ()
    end = -len(BLANK_LINE)
    known = labels if len(labels) == len(blocks) else [""] * len(blocks)
    for (text, cache), label in zip(blocks, known, strict=True):
        end += len(BLANK_LINE) + len(text)
        yield end, cache.value, label


def _marks(request: LlmRequest, ends: Sequence[int]) -> Iterator[CacheMark]:
    """The marks of a request whose system text is cut into more blocks, each behind what it was behind."""
    own = [end for end, _, _ in _cuts(request)]
    for mark in request.cache.marks if request.cache is not None else ():
        is_there = mark.place == "system" and mark.index < len(own)
        yield replace(mark, index=ends.index(own[mark.index])) if is_there else mark
