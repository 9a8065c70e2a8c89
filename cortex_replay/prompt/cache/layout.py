"""A request as the blocks that a cache sees: tools, the blocks of the system text, the content of messages.

The calls of a run share most of what they say, so a :class:`Layouts` looks at each text once: it hashes it,
measures it and remembers it by what it is, and by the value it came in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex
from cortex_replay.prompt.breakpoints import MOST_BREAKPOINTS, Place
from cortex_replay.prompt.cache.calls import BlockKind, CacheBlock
from cortex_replay.prompt.markers import breakpoints_of, system_blocks, turn_name
from cortex_replay.prompt.parts import MEDIA_TOKENS, estimate_tokens
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import CacheMark, LlmMessage, LlmRequest, LlmRole, PromptCachePlan

__all__ = ["BlockRow", "Layout", "Layouts", "share"]

_LONGEST_NAME: Final = 80
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class BlockRow(NamedTuple):
    """A block before its size is known."""

    name: str
    place: Place
    digest: str
    estimate: int
    """Its size by its bytes."""
    kind: BlockKind = ""
    can_carry: bool = True
    """Whether a marker could stand on it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks of a request, and the markers on them by position."""

    rows: tuple[BlockRow, ...]
    markers: dict[int, CachePolicy]

    def blocks(self, sizes: Sequence[int]) -> tuple[CacheBlock, ...]:
        """The blocks with their sizes in tokens."""
        markers = self.markers
        return tuple(
            [
                CacheBlock(row.name, row.place, row.digest, size, markers.get(i, CachePolicy.NONE), row.kind)
                for i, (row, size) in enumerate(zip(self.rows, sizes, strict=True))
            ]
        )

    @property
    def estimates(self) -> list[int]:
        return [row.estimate for row in self.rows]


class Layouts:
    """Lays out the requests of a run.

    Messages and tools are remembered by identity, too, since a store is read with equal ones as one value.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._measured: dict[str, tuple[str, int]] = {}
        self._tools: dict[int, tuple[object, tuple[BlockRow, ...]]] = {}
        self._messages: dict[tuple[int, int], tuple[LlmMessage, tuple[BlockRow, ...]]] = {}
        self._system: dict[tuple[object, ...], tuple[BlockRow, ...]] = {}

    def lay_out(self, request: LlmRequest) -> Layout:
        """The blocks of one request, and its markers."""
        tools = self._tool_rows(request.tools)
        system = self._system_rows(request)
        rows = [*tools, *system]
        starts = []
        for i, message in enumerate(request.messages):
            starts.append(len(rows))
            known = self._messages.get((id(message), i))
            if known is None:
                known = self._messages[id(message), i] = message, tuple(self._message_rows(message, i))
            rows += known[1]
        starts.append(len(rows))
        plan = request.cache
        markers = {} if plan is None else _markers(request, plan, rows, len(tools), starts)
        return Layout(tuple(rows), markers)

    def text_of(self, digest: str) -> str:
        """What a block says that was laid out here, for people."""
        return self._texts.get(digest, "")

    def _tool_rows(self, tools: tuple[JsonValue, ...]) -> tuple[BlockRow, ...]:
        known = self._tools.get(id(tools))
        if known is None:
            rows = []
            for i, tool in enumerate(tools):
                name = tool.get("name") if isinstance(tool, dict) else None
                called = f"tool {_short(name)!r}" if isinstance(name, str) else f"tool {i + 1}"
                # In the order in which its fields are sent: another order is another prefix.
                rows.append(self._row(called, Place.TOOLS, "tool", _json(tool)))
            known = self._tools[id(tools)] = tools, tuple(rows)
        return known[1]

    def _system_rows(self, request: LlmRequest) -> tuple[BlockRow, ...]:
        plan = request.cache
        cuts = (plan.system_cuts, plan.labels) if plan is not None else ()
        key = (request.system, cuts)
        known = self._system.get(key)
        if known is None:
            texts = [text for text, _ in system_blocks(request)]
            labels = plan.labels if plan is not None and len(plan.labels) == len(texts) else [""] * len(texts)
            known = self._system[key] = tuple(
                self._row(_system_name(i, label, len(texts)), Place.SYSTEM, "system", text)
                for i, (text, label) in enumerate(zip(texts, labels, strict=True))
            )
        return known

    def _message_rows(self, message: LlmMessage, index: int) -> Iterator[BlockRow]:
        name = turn_name(index, message)
        for piece in _pieces(message):
            known = self._measure(piece.frame, piece.text, piece.size)
            yield BlockRow(name, Place.MESSAGES, *known, piece.kind, piece.can_carry)

    def _row(self, name: str, place: Place, frame: str, text: str) -> BlockRow:
        return BlockRow(name, place, *self._measure(frame, text))

    def _measure(self, frame: str, text: str, size: int | None = None) -> tuple[str, int]:
        """The digest of a block, and its size by its bytes."""
        key = f"{frame}\0{text}"
        known = self._measured.get(key)
        if known is None:
            digest = blake3_hex(key.encode())
            known = self._measured[key] = digest, estimate_tokens(text) if size is None else size
            self._texts[digest] = text
        return known


def share(estimates: Sequence[int], tokens: int) -> list[int]:
    """A count shared out in proportion, so that the shares add up to it.

    Where all estimates are zero, the last has it all; without any, there are no shares.
    """
    whole = sum(estimates)
    if not whole:
        return [0] * (len(estimates) - 1) + [tokens] * bool(estimates)
    shares, so_far, given = [], 0, 0
    for estimate in estimates:
        so_far += estimate
        end = (2 * tokens * so_far + whole) // (2 * whole)
        shares.append(end - given)
        given = end
    return shares


def _system_name(index: int, label: str, count: int) -> str:
    if label:
        return f"block {_short(label)!r}"
    return "system text" if count == 1 else f"system block {index + 1}"


def _short(name: str) -> str:
    """A name of the client's, as long as one that is read."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _markers(
    request: LlmRequest, plan: PromptCachePlan, rows: Sequence[BlockRow], tools: int, starts: Sequence[int]
) -> dict[int, CachePolicy]:
    """Where the markers of a plan stand, by position: at most as many as a request carries.

    ``starts`` says where each message begins, and where the last one ends.
    """
    found: dict[int, CachePolicy] = {}
    has_more = plan.cache_tools or plan.cache_system or bool(plan.breakpoint_message_ids)
    if not has_more:  # which is cheap to tell, and so for every recording
        has_more = any(time != "none" for _, time in plan.system_cuts)
    for kept in breakpoints_of(request).kept if has_more else ():
        if kept.place is Place.TOOLS:
            found[tools - 1] = kept.cache
        elif kept.place is Place.SYSTEM:
            found[tools + kept.index] = kept.cache
        elif starts[kept.index] < starts[kept.index + 1]:
            found[starts[kept.index + 1] - 1] = kept.cache
    for mark in plan.marks:
        position = _position_of(mark, rows, tools, starts)
        if position is not None:
            found[position] = CachePolicy.of_ttl(mark.ttl)
    # A client that sent more was refused; what a plan asks for beyond that is left out from the start.
    return dict(sorted(found.items())[-MOST_BREAKPOINTS:])


def _position_of(mark: CacheMark, rows: Sequence[BlockRow], tools: int, starts: Sequence[int]) -> int | None:
    """The block that a marker stands on; ``None`` if there is no such block."""
    if mark.place == "prompt":
        return next((i for i in range(len(rows) - 1, -1, -1) if rows[i].can_carry), None)
    if mark.place == "message":
        if mark.index >= len(starts) - 1:
            return None
        start, end = starts[mark.index], starts[mark.index + 1]
        if mark.part is not None:
            end = min(end, start + mark.part + 1)
        return end - 1 if start < end else None
    start, end = (0, tools) if mark.place == "tool" else (tools, starts[0])
    return start + mark.index if start + mark.index < end else None


class _Piece(NamedTuple):
    """A block of a message's content."""

    frame: str
    """Whose it is, which the provider sees beside the text."""
    text: str
    size: int | None = None
    """Where it is not that of the text."""
    kind: BlockKind = ""
    can_carry: bool = True


def _pieces(message: LlmMessage) -> Iterator[_Piece]:
    """What a message is made of on the wire. A tool's result is one block, whatever it holds."""
    role = message.role.value
    if message.role is LlmRole.TOOL:
        yield _tool_result(message)
        return
    plain: BlockKind = "user" if message.role is LlmRole.USER else ""
    has_text = False
    for part in message.parts:
        match part:
            case {"type": "fields"}:
                pass
            case {"type": "text", "text": str(text), **others}:
                has_text = True
                yield _Piece(role, _json(part) if others else text, kind=plain, can_carry=bool(text))
            case {"type": "thinking" | "redacted_thinking"}:
                yield _Piece(role, _json(part), kind="thinking", can_carry=False)
            case {"type": "tool_use" | "tool_result" as kind}:
                yield _Piece(role, _json(part), kind=kind)
            case _:
                yield _Piece(role, _json(part), _media_size(part), plain)
    if message.content and not has_text:
        yield _Piece(role, message.content, kind=plain)
    for call in message.tool_calls:
        yield _Piece(role, _json(call.to_dict()), kind="tool_use")


def _tool_result(message: LlmMessage) -> _Piece:
    frame = f"{message.role.value} {message.tool_call_id}"
    if not message.parts and not message.is_error:
        return _Piece(frame, message.content, kind="tool_result")
    written = _json(message.to_dict())
    sizes = [_media_size(part) for part in message.parts]
    if not any(sizes):
        return _Piece(frame, written, kind="tool_result")
    media = sum(size for size in sizes if size is not None)
    texts = [_json(part) for part, size in zip(message.parts, sizes, strict=True) if size is None]
    return _Piece(frame, written, media + sum(map(estimate_tokens, texts)), "tool_result")


def _media_size(part: Any) -> int | None:
    is_media = isinstance(part, dict) and ("data" in part or "blake3" in part)
    return MEDIA_TOKENS if is_media else None


def _json(value: Any) -> str:
    return _ENCODER.encode(value)
