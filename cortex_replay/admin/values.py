"""What goes in and out of ``nexo/admin/llm/complete``.

The values read and write JSON as the daemon of nexo does (``nexo-tool-meta``): unknown fields are
ignored, ``null`` is absent where a field is optional, and errors have its words. Whether a provider
or a role is known is not asked here but by :mod:`cortex_replay.admin.service`. Three things are stricter than
there: an infinite temperature is refused, so is any key that stands twice, and a struct is an object, not a
list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import orjson

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue, f32_text
from cortex_replay.errors import InvalidRequest
from cortex_replay.redact.process import process_redactor
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "LLM_COMPLETE_METHOD",
    "METHOD",
    "LlmChatMessage",
    "LlmCompleteInput",
    "LlmCompleteMessage",
    "LlmCompleteOutput",
    "LlmCompleteResponse",
    "LlmCompleteUsage",
    "LlmUsage",
    "quote",
]

LLM_COMPLETE_METHOD: Final = "nexo/admin/llm/complete"
METHOD: Final = LLM_COMPLETE_METHOD
"""Our own name for it."""

_SHOWN: Final = 60
"""How much of a text is quoted to the one who sent it."""


class _Struct:
    """Reading and writing, the same for all four."""

    __slots__ = ()

    _place: ClassVar[str]
    """Where a whole value stands, for messages about it."""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The value that a JSON text says.

        Raises:
            InvalidRequest: The text is not JSON, or says something else; ``field`` says where.
        """
        try:
            value = loads(text.encode() if isinstance(text, str) else text)
        except JsonError as error:
            raise InvalidRequest(cls._place, str(error)) from None
        except UnicodeEncodeError:
            raise InvalidRequest(cls._place, "holds half of a surrogate pair") from None
        return cls.from_dict(value)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The value that a plain object says; what it says beyond the fields is ignored.

        Raises:
            InvalidRequest: A field is missing or of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise _wrong_type(data, f"struct {cls.__name__}", cls._place)
        given: dict[str, Any] = {}
        for one in fields(cls):  # type: ignore[arg-type]
            if one.name in data:
                given[one.name] = data[one.name]
            elif one.default is one.default_factory is MISSING:
                raise InvalidRequest(one.name, f"missing field `{one.name}`")
        return cls(**given)

    def to_dict(self) -> dict[str, JsonValue]:
        """The value as a plain object; what is absent is left out."""
        plain: dict[str, JsonValue] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, _Struct):
                plain[one.name] = value.to_dict()
            elif isinstance(value, tuple):
                plain[one.name] = [item.to_dict() for item in value]
            elif value is not None:
                plain[one.name] = value
        return plain

    def to_json(self) -> str:
        """The value as compact JSON, its fields in the order of the struct."""
        plain: dict[str, Any] = self.to_dict()
        if "temperature" in plain:
            plain["temperature"] = orjson.Fragment(f32_text(plain["temperature"]))
        return orjson.dumps(plain).decode()


@dataclass(frozen=True, slots=True)
class LlmChatMessage(_Struct):
    """One turn of a conversation. Any role can be read; which are known is asked later."""

    _place: ClassVar[str] = "message"

    role: str
    content: str

    def __post_init__(self) -> None:
        check.keep(self, "role", _text(self.role, "role"))
        check.keep(self, "content", _text(self.content, "content"))


@dataclass(frozen=True, slots=True)
class LlmCompleteInput(_Struct):
    """A call."""

    _place: ClassVar[str] = "params"

    provider: str
    model: str
    messages: tuple[LlmChatMessage, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    """Kept as the shortest decimal that names the same 32-bit float."""
    system_prompt: str | None = None

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            provider: str,
            model: str,
            messages: Sequence[LlmChatMessage | Mapping[str, Any]],
            max_tokens: int | None = None,
            temperature: float | None = None,
            system_prompt: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "provider", _text(self.provider, "provider"))
        check.keep(self, "model", _text(self.model, "model"))
        check.keep(self, "messages", _messages(self.messages))
        if self.max_tokens is not None:
            check.keep(self, "max_tokens", _whole_number(self.max_tokens, "u32", check.MAX_U32, "max_tokens"))
        if self.temperature is not None:
            check.keep(self, "temperature", _f32(self.temperature, "temperature"))
        if self.system_prompt is not None:
            check.keep(self, "system_prompt", _text(self.system_prompt, "system_prompt"))


@dataclass(frozen=True, slots=True)
class LlmUsage(_Struct):
    """What a call cost, zeros where nobody knows. The total is taken as it is given."""

    _place: ClassVar[str] = "usage"

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            check.keep(self, name, _whole_number(getattr(self, name), "u64", check.MAX_U64, name))


@dataclass(frozen=True, slots=True)
class LlmCompleteResponse(_Struct):
    """An answer."""

    _place: ClassVar[str] = "result"

    content: str
    model: str
    """The model that answered."""
    usage: LlmUsage = field(default_factory=LlmUsage)

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(self, content: str, model: str, usage: LlmUsage | Mapping[str, Any] = ...) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "content", _text(self.content, "content"))
        check.keep(self, "model", _text(self.model, "model"))
        usage: object = self.usage
        if not isinstance(usage, LlmUsage):
            check.keep(self, "usage", _inner(LlmUsage, usage, "usage"))


# What these were called here before they had the names of the reference.
LlmCompleteMessage = LlmChatMessage
LlmCompleteOutput = LlmCompleteResponse
LlmCompleteUsage = LlmUsage


def _messages(value: object) -> tuple[LlmChatMessage, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong_type(value, "a sequence", "messages")
    return tuple(
        item if isinstance(item, LlmChatMessage) else _inner(LlmChatMessage, item, f"messages[{i}]")
        for i, item in enumerate(value)
    )


def _inner(kind: type[Any], value: object, place: str) -> Any:
    """A value inside another; what is wrong with it has its place in front."""
    try:
        return kind.from_dict(value)
    except InvalidRequest as error:
        where = place if error.field == kind._place else f"{place}.{error.field}"  # noqa: SLF001 - our own
        raise InvalidRequest(where, error.reason) from None


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, "a string", name)
    return check.text(value, name)


def _whole_number(value: object, kind: str, most: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, kind, name)
    if not 0 <= value <= most:
        raise InvalidRequest(name, f"invalid value: {_describe(value)}, expected {kind}")
    return int(value)


def _f32(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(value, "f32", name)
    number = check.temperature(value, name)
    assert number is not None  # noqa: S101 - it was a number
    text = f32_text(number)
    shortest = float(text)
    # A few f32 have a shortest name that, read as f64 first, is their neighbour's.
    return shortest if f32_text(shortest) == text else number


def _wrong_type(value: object, expected: str, name: str) -> InvalidRequest:
    return InvalidRequest(name, f"invalid type: {_describe(value)}, expected {expected}")


def _describe(value: object) -> str:
    """A value as the reference's errors speak of it."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{check.short_repr(value)}`"
        case float():
            return f"floating point `{orjson.dumps(value).decode()}`"
        case str():
            return f"string {quote(value)}"
        case list() | tuple():
            return "sequence"
        case Mapping():
            return "map"
    return check.kind_of(value)


def quote(text: str, mark: str = '"') -> str:
    """A text of a caller's, for the one who sent it."""
    # Redacted before it is cut: half a secret is not found any more.
    clean = process_redactor().text(text)[0]
    quoted = json.dumps(clean[:_SHOWN], ensure_ascii=not clean.isprintable())[1:-1]
    return f"{mark}{quoted}{mark}{'...' if len(clean) > _SHOWN else ''}"
