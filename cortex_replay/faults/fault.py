"""One fault: what goes wrong, and when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Final, Self

from cortex_replay.errors import InvalidRequest

__all__ = ["CHUNKINGS", "KINDS", "TOOL_KINDS", "Fault", "answers_alone", "error_type"]

TOOL_KINDS: Final = {
    "tool-error": "a tool that answers with isError; of one tool: tool-error:files/read_file",
    "tool-fail": "a call of a tool that ends with an error of the protocol",
    "tool-hang": "a tool that never answers",
    "tool-not-json": "a server whose answer is not JSON",
    "tool-shape": "an answer that is JSON, but not of the shape of an answer of a tool",
    "tool-death": "a server that dies in the middle of its answer",
}
"""Of calls of tools over MCP, which are counted by themselves."""
KINDS: Final = {
    "429": "too many requests, with retry-after (429:2.5 asks for two and a half seconds)",
    "500": "an internal error; any status from 400 to 599 works",
    "529": "overloaded",
    "timeout": "no answer at all, until the client gives up",
    "reset": "the connection is reset before an answer",
    "cut": "the answer is cut off: a stream behind event N (cut:N), a whole answer in its middle",
    "stall": "a stream that stops behind event N (stall:N) and stays open",
    "malformed-json": "an answer, or an event of a stream, that is not JSON",
    "malformed-tool": "a tool call whose arguments are not JSON",
    "error-event": "an error in mid-stream, behind event N (error-event:N)",
    "chunks": "the same bytes in other pieces: chunks:event, chunks:byte or chunks:whole",
    **TOOL_KINDS,
}
CHUNKINGS: Final = ("event", "byte", "whole")
_ERROR_TYPES: Final = {503: "overloaded_error", 504: "timeout_error"}
"""What the table of the wire does not name."""
_SPELLED: Final = re.compile(
    r"([a-z0-9-]{1,20})(?::([a-z0-9.]{1,9}))?(?:@([a-z0-9.]{1,12})(?:/(\d{1,18}))?)?"
)
_SPELLED_OF_TOOL: Final = re.compile(
    r"(tool-[a-z-]{1,20})(?::([\w.*?\[\]/-]{1,200}))?(?:@([a-z0-9.]{1,12})(?:/(\d{1,18}))?)?", re.ASCII
)
_MOST_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with a call, and with which calls.

    Spelled ``KIND[:DETAIL][@WHEN]``: ``429@2`` fails the second call once, ``cut:3@always`` every call, and
    ``500@0.2/7`` one call in five, drawn with the seed 7. Without a time it is the first call. Of calls of
    tools, the detail says which: ``tool-hang:read_*@2`` is the second call of a tool whose name begins so.
    """

    kind: str
    detail: str = ""
    turn: int | None = 1
    """Which call, counted from 1; ``None`` where ``rate`` decides."""
    rate: float = 0.0
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """A fault from its spelling.

        Raises:
            InvalidRequest: There is no such fault, or no such time.
        """
        text = text.strip()
        match = _SPELLED_OF_TOOL.fullmatch(text) or _SPELLED.fullmatch(text.lower())
        if match is None:
            raise InvalidRequest("fault", f"expected KIND[:DETAIL][@WHEN], such as 429@2, not {text[:40]!r}")
        kind, detail, when, seed = match.groups()
        turn, rate = _when(when or "1")
        fault = cls(kind, detail or "", turn, rate, int(seed or 0))
        fault._check()
        return fault

    def _check(self) -> None:
        if self.status is not None:
            if self.detail:
                _number(self.detail, _MOST_SECONDS, "a number of seconds")
        elif self.kind not in KINDS:
            known = ", ".join(KINDS)
            raise InvalidRequest("fault", f"there is no {self.kind!r}; there are {known}")
        elif self.kind == "chunks":
            if self.detail not in CHUNKINGS:
                raise InvalidRequest("fault", f"expected chunks:{' or chunks:'.join(CHUNKINGS)}")
        elif self.is_of_tools:
            return
        elif self.detail and self.kind not in ("cut", "stall", "error-event"):
            raise InvalidRequest("fault", f"{self.kind} takes no detail")
        elif self.detail and not self.detail.isdigit():
            raise InvalidRequest("fault", f"expected {self.kind}:N, with the number of an event")

    @property
    def status(self) -> int | None:
        """The status that an answer has, where the fault is one."""
        is_status = len(self.kind) == 3 and self.kind.isdigit() and 400 <= int(self.kind) < 600
        return int(self.kind) if is_status else None

    @property
    def retry_after_s(self) -> float | None:
        """When to come back; providers say so with 429, and may with others."""
        if self.detail:
            return float(self.detail)
        return 1.0 if self.status == 429 else None

    @property
    def events(self) -> int:
        """Behind how many events of a stream it strikes."""
        return int(self.detail) if self.detail.isdigit() else 1

    @property
    def is_chunking(self) -> bool:
        """Whether nothing is wrong but the size of the pieces."""
        return self.kind == "chunks"

    @property
    def is_of_tools(self) -> bool:
        """Whether it hits calls of tools, and not of models."""
        return self.kind in TOOL_KINDS

    def fits(self, server: str, tool: str) -> bool:
        """Whether it is one for a tool of an MCP server."""
        pattern = self.detail or "*"
        return fnmatchcase(tool, pattern) or fnmatchcase(f"{server}/{tool}", pattern)

    def strikes(self, call: int) -> bool:
        """Whether it hits the n-th call, counted from 1. The same calls every time: nothing is random."""
        if self.turn is not None:
            return call == self.turn
        return self.rate >= 1 or Random(f"{self.seed}/{self.kind}:{self.detail}/{call}").random() < self.rate  # noqa: S311 - no secret

    def __str__(self) -> str:
        detail = f":{self.detail}" if self.detail else ""
        when = str(self.turn) if self.turn is not None else "always" if self.rate >= 1 else f"{self.rate:g}"
        seed = f"/{self.seed}" if self.seed else ""
        return f"{self.kind}{detail}@{when}{seed}"


def error_type(status: int) -> str:
    """What an error of a status is called."""
    from cortex_replay.wire.anthropic.answer import ERROR_TYPES  # noqa: PLC0415 - for errors alone

    return _ERROR_TYPES.get(status) or ERROR_TYPES.get(status, "api_error")


def answers_alone(fault: Fault) -> bool:
    """Whether a fault needs no recording to go wrong with."""
    return fault.status is not None or fault.kind in ("timeout", "reset")


def _when(text: str) -> tuple[int | None, float]:
    if text == "always":
        return None, 1.0
    if text.isdigit():
        if int(text) == 0:
            raise InvalidRequest("fault", "calls are counted from 1")
        return int(text), 0.0
    return None, _number(text, 1.0, "the number of a call, always, or a rate from 0 to 1")


def _number(text: str, most: float, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise InvalidRequest("fault", f"expected {expected}, not {text!r}")
    return value
