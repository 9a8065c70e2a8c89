"""What a recording was asked, in one line."""

from __future__ import annotations

from collections.abc import Callable

from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["describe_question", "first_line"]


def describe_question(request: LlmRequest | None, redact: Callable[[str], str]) -> str | None:
    """The first line of the last thing that a user said, and how much was said after it.

    A loop with tools asks the same question several times; only what follows it tells its calls apart.
    ``None`` where nothing was said at all, or the recording does not hold its request.

    Args:
        request: What was asked.
        redact: Cuts secrets out of the whole text, before one of them is cut in two.
    """
    if request is None:
        return None
    spoken = [at for at, message in enumerate(request.messages) if message.role is LlmRole.USER]
    if not spoken:
        said = request.messages[-1].content if request.messages else request.system
        return first_line(redact(said)) or None
    last = spoken[-1]
    following = len(request.messages) - last - 1
    line = first_line(redact(request.messages[last].content)) or _kinds(request.messages[last])
    return f"{line} (+{following} message{'' if following == 1 else 's'})" if following else line or None


def first_line(text: str) -> str:
    """The first line with something on it."""
    lines = (line.strip() for line in text.splitlines())
    return next(filter(None, lines), "")


def _kinds(message: LlmMessage) -> str:
    """What a turn without a text consists of: ``[image]``."""
    kinds = [str(part.get("type")) for part in message.parts if isinstance(part, dict)]
    return f"[{', '.join(dict.fromkeys(kinds))}]" if kinds else ""
