"""Prompts that Gemini keeps under a name (``cachedContents``), and calls that name one.

The model reads such a call as if the kept prompt stood before its own, so that is what the call is lifted as.
The name is another one each time that the prompt is kept, and says nothing.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.wire.body import Block
from cortex_replay.wire.gemini.spelling import unify_names

__all__ = ["KEPT_NAME", "is_keeping", "join_kept", "kept_name"]

KEPT_NAME: Final = re.compile(rb'"cached(?:_c|C)ontent"')
"""What every body holds that names a kept prompt."""
_COLLECTION: Final = re.compile(r"(?:/[^/]+)+/cachedContents/*")
_NAME: Final = "cachedContent"
_OF_KEPT_ONLY: Final = ("systemInstruction", "tools", "toolConfig")
"""What only one of the two may say: the API refuses a call that brings its own."""


def is_keeping(method: object, path: object) -> bool:
    """Whether a call makes Gemini keep a prompt."""
    return method == "POST" and isinstance(path, str) and _COLLECTION.fullmatch(path) is not None


def kept_name(body: Any) -> str | None:
    """The name of the kept prompt that a body goes on from."""
    if not isinstance(body, dict):
        return None
    name = body.get(_NAME, body.get("cached_content"))
    return name if isinstance(name, str) and name else None


def join_kept(kept: Block, body: Block) -> Block | None:
    """What the model reads: the kept prompt, then the body's own. ``None`` if the two cannot be joined.

    Args:
        kept: The body of the call that had the prompt kept.
        body: The body of a call that names it.
    """
    try:
        before, joined = unify_names(kept), unify_names(body)
    except InvalidRequest:
        return None
    contents = [before.get("contents", []), joined.get("contents", [])]
    if any(joined.get(name) for name in _OF_KEPT_ONLY) or not all(
        isinstance(part, list) for part in contents
    ):
        return None
    joined |= {name: before[name] for name in _OF_KEPT_ONLY if name in before}
    del joined[_NAME]
    return joined | {"contents": contents[0] + contents[1]}
