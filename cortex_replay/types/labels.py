"""What people call the blocks of a system prompt, in a header: nothing else of a body would carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote

from cortex_replay.types.request import LlmRequest, PromptCachePlan

__all__ = ["LABELS_HEADER", "label_request", "read_labels", "write_labels"]

LABELS_HEADER: Final = "x-cortex-replay-labels"
"""One label for each block of the system prompt, percent-encoded, with commas between them."""
_MOST: Final = 1024


def write_labels(labels: Sequence[str]) -> str:
    """The value of the header."""
    return ",".join(quote(label, safe="", errors="replace") for label in labels)


def read_labels(value: str) -> tuple[str, ...]:
    """The labels in a header; none if there are too many to be meant."""
    if not value or value.count(",") >= _MOST:
        return ()
    return tuple(unquote(label.strip(), errors="replace") for label in value.split(","))


def label_request(request: LlmRequest, labels: tuple[str, ...]) -> LlmRequest:
    """A request whose plan has labels for its system text, unless it has its own."""
    plan = request.cache or PromptCachePlan()
    return request if plan.labels or not any(labels) else replace(request, cache=replace(plan, labels=labels))
