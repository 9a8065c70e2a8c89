"""Prompts that Gemini keeps under a name (``cachedContents``), and calls that name one.

The model reads such a call as if the kept prompt stood before its own, so that is what the call is lifted as.
The name is another one each time that the prompt is kept, and says nothing.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from cortex_replay.errors import InvalidRequest
from cortex_replay.wire.body import Block
from cortex_replay.wire.gemini.messages import lift_contents
from cortex_replay.wire.gemini.spelling import unify_names

__all__ = ["KEPT_NAME", "JoinedPrompt", "join_kept", "keeps_prompt", "kept_name"]

KEPT_NAME: Final = re.compile(rb'"cached(?:_c|C)ontent"')
"""What every body holds that names a kept prompt."""
_COLLECTION: Final = re.compile(r"(?:/[^/]+)+/cachedContents/*")
_NAME: Final = "cachedContent"
_OF_KEPT_ONLY: Final = ("systemInstruction", "tools", "toolConfig")
"""What only one of the two may say: the API refuses a call that brings its own."""


def keeps_prompt(method: object, path: object) -> bool:
    """Whether a call makes Gemini keep a prompt."""
    return method == "POST" and isinstance(path, str) and _COLLECTION.fullmatch(path) is not None


def kept_name(body: Any) -> str | None:
    """The name of the kept prompt that a body goes on from."""
    if not isinstance(body, dict):
        return None
    name = body.get(_NAME, body.get("cached_content"))
    return name if isinstance(name, str) and name else None


class JoinedPrompt(NamedTuple):
    """What the model reads of a call that goes on from a kept prompt."""

    body: Block
    kept_messages: int
    """How many messages the kept prompt has."""


def join_kept(kept: Block, body: Block) -> JoinedPrompt | None:
    """What the model reads: the kept prompt, then the body's own. ``None`` if the two cannot be joined.

    Args:
        kept: The body of the call that had the prompt kept.
        body: The body of a call that names it.
    """
    try:
        before, joined = unify_names(kept), unify_names(body)
        first, then = before.get("contents", []), joined.get("contents", [])
        count = len(lift_contents(first))
    except InvalidRequest:
        return None
    if any(joined.get(name) for name in _OF_KEPT_ONLY) or not isinstance(then, list):
        return None
    joined |= {name: before[name] for name in _OF_KEPT_ONLY if name in before}
    del joined[_NAME]
    return JoinedPrompt(joined | {"contents": first + then}, count)
