"""What a question says that it need not: a parameter with the value that it has anyway, or a tool's type.

Versions of one client differ in that, and a suite is run with a later version than it was recorded with. The
key keeps such questions apart; a model gets the same.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest
from cortex_replay.wire.body import lift_tool

__all__ = ["plainer_forms", "without_defaults"]

_DEFAULTS: Final[dict[str, JsonValue]] = {"n": 1, "logprobs": False, "logit_bias": {}}
"""Of OpenAI's API, and of all that are compatible with it."""


def plainer_forms(request: LlmRequest) -> list[LlmRequest]:
    """The same question without one or more of the defaults that it spells out, and with its tools' types."""
    said = [name for name, value in request.extra.items() if _is_default(name, value)]
    dropped = chain.from_iterable(combinations(said, count) for count in range(len(said) + 1))
    forms = [
        replace(request, extra={name: value for name, value in request.extra.items() if name not in names})
        for names in dropped
    ]
    tools = _with_types(request)
    return forms[1:] if tools == request.tools else forms[1:] + [replace(form, tools=tools) for form in forms]


def without_defaults(request: LlmRequest) -> LlmRequest | None:
    """The same question, without what it need not say; ``None`` if it says nothing of the kind."""
    forms = plainer_forms(request)
    return forms[-1] if forms else None


def _with_types(request: LlmRequest) -> tuple[JsonValue, ...]:
    """A request's tools; one that holds a function and says no type is a function, which is the only type."""
    return tuple(
        lift_tool({"type": "function", **tool})
        if isinstance(tool, dict) and set(tool) == {"function"} and isinstance(tool["function"], dict)
        else tool
        for tool in request.tools
    )


def _is_default(name: str, value: JsonValue) -> bool:
    default = _DEFAULTS.get(name)
    return default is not None and type(value) is type(default) and value == default
