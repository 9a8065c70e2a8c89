"""What sorts of facts there are, and in which tier a change of each stands (ADR 20)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from cortex_replay.behaviour.differences import Tier

__all__ = ["BREACHES", "TIERS", "Kind"]


class Kind(StrEnum):
    """A sort of fact."""

    ERROR = "error"
    """The status of an error, where there is no answer."""
    REFUSAL = "refusal"
    SCHEMA = "schema"
    """What is wrong with a structured output."""
    UNKNOWN_TOOL = "unknown tool"
    """A tool is called that was not offered."""
    INVALID_ARGUMENT = "invalid argument"
    """What is wrong with an argument, by the schema of its tool."""
    TOOL = "tool"
    """Whether a tool is called at all."""
    FINISH_REASON = "finish reason"
    CALL = "call"
    """One call more or fewer of a tool, or of a model."""
    ARGUMENT = "argument"
    ORDER = "order"
    """Of the tool calls of an answer."""
    OUTPUT = "output"
    """A field of a structured output."""
    RESULT = "result"
    """What an MCP server, or a call that asks no model, gave back."""
    ROAD = "road"
    """The tools that a run or a test calls, turn after turn."""
    UNREADABLE = "unreadable"
    """A side cannot be trusted, so that nothing can be said."""
    TEXT = "text"
    REASONING = "reasoning"
    FORMAT = "format"
    """How JSON is written that says the same."""
    QUESTION = "question"
    """The program asks otherwise."""
    MORE = "more"
    """Further differences, which are not listed; of the highest of their tiers."""


TIERS: Final[Mapping[Kind, Tier]] = {
    Kind.ERROR: Tier.CONTRACT,
    Kind.REFUSAL: Tier.CONTRACT,
    Kind.SCHEMA: Tier.CONTRACT,
    Kind.UNKNOWN_TOOL: Tier.CONTRACT,
    Kind.INVALID_ARGUMENT: Tier.CONTRACT,
    Kind.TOOL: Tier.CONTRACT,
    Kind.FINISH_REASON: Tier.CONTRACT,
    Kind.UNREADABLE: Tier.CONTRACT,
    Kind.CALL: Tier.BEHAVIOUR,
    Kind.ARGUMENT: Tier.BEHAVIOUR,
    Kind.ORDER: Tier.BEHAVIOUR,
    Kind.OUTPUT: Tier.BEHAVIOUR,
    Kind.RESULT: Tier.BEHAVIOUR,
    Kind.ROAD: Tier.BEHAVIOUR,
    Kind.TEXT: Tier.WORDS,
    Kind.REASONING: Tier.WORDS,
    Kind.FORMAT: Tier.WORDS,
    Kind.QUESTION: Tier.WORDS,
}

BREACHES: Final = frozenset([Kind.SCHEMA, Kind.UNKNOWN_TOOL, Kind.INVALID_ARGUMENT])
"""What is wrong by itself, whatever was there before. That it is gone again breaks nothing."""
