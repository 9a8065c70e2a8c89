"""Tool calls, whole and in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from cortex_replay import canonical, validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.strict_json import JsonError, loads

__all__ = ["ToolCall", "ToolCallDelta", "arguments_value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's wish to have one tool called."""

    id: str | None = None
    """The provider's name for this call, opaque; ``None`` where a provider gives none."""
    name: str
    arguments: JsonValue = None
    """The parsed arguments, or the raw text where the model wrote something that is no JSON."""

    def __post_init__(self) -> None:
        check.keep(self, "id", check.optional_text(self.id, "id"))
        check.keep(self, "name", check.text(self.name, "name"))
        check.keep(self, "arguments", check.free(self.arguments, "arguments"))

    def to_dict(self) -> dict[str, JsonValue]:
        """The call as a fixture holds it."""
        head: dict[str, JsonValue] = {} if self.id is None else {"id": self.id}
        return head | {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call in a stream. Pieces with one ``index`` belong to one call."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    """The next piece of the arguments' JSON text."""

    def __post_init__(self) -> None:
        check.keep(self, "index", check.whole_number(self.index, "index", check.MAX_U32))
        check.keep(self, "id", check.optional_text(self.id, "id"))
        check.keep(self, "name", check.optional_text(self.name, "name"))
        check.keep(self, "arguments", check.text(self.arguments, "arguments"))

    def to_dict(self) -> dict[str, JsonValue]:
        """The piece as a fixture holds it, without what it does not say."""
        piece: dict[str, JsonValue] = {"index": self.index}
        if self.id is not None:
            piece["id"] = self.id
        if self.name is not None:
            piece["name"] = self.name
        if self.arguments:
            piece["arguments"] = self.arguments
        return piece

    @classmethod
    def whole(cls, index: int, call: ToolCall) -> Self:
        """A whole call as one piece."""
        text = call.arguments
        if not isinstance(text, str) or arguments_value(text) != text:
            text = canonical.compact(text)  # also a text that would be read as something else
        return cls(index, call.id, call.name, text)

    @staticmethod
    def join(pieces: Iterable[ToolCallDelta]) -> tuple[ToolCall, ...]:
        """The whole calls that ``pieces``, in stream order, add up to."""
        ids: dict[int, str | None] = {}
        names: dict[int, str] = {}
        texts: dict[int, list[str]] = {}
        for piece in pieces:
            texts.setdefault(piece.index, []).append(piece.arguments)
            if piece.id is not None:
                ids[piece.index] = piece.id
            if piece.name is not None:
                names[piece.index] = piece.name
        return tuple(
            ToolCall(id=ids.get(i), name=names.get(i, ""), arguments=arguments_value("".join(texts[i])))
            for i in sorted(texts)
        )


def arguments_value(text: str) -> JsonValue:
    """The value that the text of a call's arguments holds; a text that is no JSON stays what it is."""
    try:
        return loads(text.encode())
    except JsonError:
        return text
