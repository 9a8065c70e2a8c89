"""What a recording was asked, in one line."""

from __future__ import annotations

from collections.abc import Callable

from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["describe_question", "first_line", "question_text"]


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
    last = _last_spoken(request)
    line = first_line(redact(question_text(request)))
    if last is None:
        return line or None
    following = len(request.messages) - last - 1
    line = line or _kinds(request.messages[last])
    return f"{line} (+{following} message{'' if following == 1 else 's'})" if following else line or None


def question_text(request: LlmRequest) -> str:
    """The last thing that a user said; where no user said anything, the last message, or the system text."""
    last = _last_spoken(request)
    if last is not None:
        return request.messages[last].content
    return request.messages[-1].content if request.messages else request.system


def _last_spoken(request: LlmRequest) -> int | None:
    places = range(len(request.messages) - 1, -1, -1)
    return next((at for at in places if request.messages[at].role is LlmRole.USER), None)


def first_line(text: str) -> str:
    """The first line with something on it."""
    lines = (line.strip() for line in text.splitlines())
    return next(filter(None, lines), "")


def _kinds(message: LlmMessage) -> str:
    """What a turn without a text consists of: ``[image]``."""
    kinds = [str(part.get("type")) for part in message.parts if isinstance(part, dict)]
    return f"[{', '.join(dict.fromkeys(kinds))}]" if kinds else ""
