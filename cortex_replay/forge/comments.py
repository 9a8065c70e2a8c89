"""One comment on a pull or merge request, which is updated from then on.

A comment is ours if the owner of our token wrote it and it begins with our mark. Anybody may write the mark,
and could put other words into such a comment after us.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from urllib.parse import quote

from cortex_replay.errors import Upstream

__all__ = ["Comment", "Outcome", "Request", "fit", "mark", "post"]

Outcome = Literal["posted", "updated", "unchanged", "refused"]

_MARK: Final = re.compile(r"<!-- cortex-replay [^<>\n]{1,200} -->")
_LONGEST_NAME: Final = 200
_DEFAULT: Final = "comment"
_FENCE: Final = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
_DETAILS: Final = re.compile(r"<(/?)details\b", re.IGNORECASE)
_CUT: Final = "\n\n_The rest is too long for a comment. You find all of it in the page that the job keeps._\n"
_ROOM: Final = 2000
"""For what closes blocks that are open where a text is cut."""
_NOT_ALLOWED: Final = 403


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment by the owner of our token."""

    id: str
    body: str


class Request(Protocol):
    """A pull or merge request, on whichever forge."""

    longest: int
    """Of its comments, in characters."""

    def disarm(self, text: str) -> str:
        """The text without anything that the forge would carry out."""
        ...

    def own_comments(self) -> list[Comment]:
        """What the owner of our token wrote, oldest first."""
        ...

    def add(self, body: str) -> str:
        """Write a comment; gives its address."""
        ...

    def change(self, comment: Comment, body: str) -> str:
        """Write something else into a comment; gives its address."""
        ...


def mark(text: str, name: str | None) -> str:
    """The text, beginning with the mark by which it is found again.

    Args:
        text: What is to be posted. It may bring its own mark, as ``diff`` does.
        name: Tells this comment from others on the same request: those of other stores.

    Raises:
        ValueError: The name is empty, or too long.
    """
    if name is None:
        return text if _MARK.match(text) else f"<!-- cortex-replay {_DEFAULT} -->\n{text}"
    spelled = quote(name, safe="/ ").replace("--", "%2D%2D")  # so that it cannot end the mark
    if not 0 < len(spelled) <= _LONGEST_NAME:
        raise ValueError(f"a name has 1 to {_LONGEST_NAME} characters")
    return f"<!-- cortex-replay {spelled} -->\n{text}"


def post(request: Request, text: str) -> tuple[Outcome, str]:
    """Post a text that has a mark, or put it in the place of what was posted before.

    Returns:
        What was done, and the address of the comment; if it is ``refused``, the reason. A job of a fork has a
        token that may only read.

    Raises:
        LlmError: The forge could not be asked.
    """
    body = fit(request.disarm(text), request.longest)
    first = body.split("\n", 1)[0]
    try:
        found = [one for one in request.own_comments() if one.body.split("\n", 1)[0].rstrip("\r") == first]
        if not found:
            return "posted", request.add(body)
        if found[0].body.replace("\r\n", "\n").strip() == body.strip():
            return "unchanged", ""
        return "updated", request.change(found[0], body)
    except Upstream as error:
        if error.status != _NOT_ALLOWED:
            raise
        return "refused", error.message


def fit(text: str, longest: int) -> str:
    """The text, cut at the end of a line where it is too long; blocks that are open there are closed."""
    if len(text) <= longest:
        return text
    room = longest - _ROOM
    kept = text[:room].rpartition("\n")[0] or text[:room]
    fence, indent, depth = "", "", 0
    for line in kept.split("\n"):
        if found := _FENCE.match(line):
            before, run, rest = found.groups()
            if not fence:
                fence, indent = run, before
            elif run.startswith(fence) and not rest.strip():
                fence = ""
        elif not fence:
            depth += sum(-1 if one[1] else 1 for one in _DETAILS.finditer(line))
    # A fence in a list is closed in it: outside, the same line would begin another block.
    closing = (f"\n{indent}{fence}" if fence else "") + "\n</details>" * min(max(depth, 0), 50)
    return kept + closing + _CUT
