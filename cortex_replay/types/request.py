"""One model call: everything that is asked, and the key it is found by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from blake3 import blake3

from cortex_replay import canonical, validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types.message import LlmMessage, LlmRole, canonical_message
from cortex_replay.types.parts import CallNumbers
from cortex_replay.types.prompt_hasher import PromptHasher

__all__ = ["CacheMark", "CacheTime", "LlmRequest", "PromptCachePlan"]


CacheTime = Literal["none", "5m", "1h"]


@dataclass(frozen=True, slots=True)
class CacheMark:
    """A marker on one block of a prompt, as a client sent it."""

    place: Literal["tool", "system", "message", "prompt"]
    """``prompt``: the provider is to find the place itself, at the end."""
    index: int = 0
    """Which tool, block of the system text or message, from 0."""
    ttl: Literal["5m", "30m", "1h"] = "5m"
    """Half an hour is what OpenAI's breakpoints have."""
    part: int | None = None
    """Which block of a message's content, from 0; the last one if it is not said."""

    def __post_init__(self) -> None:
        if self.place not in ("tool", "system", "message", "prompt"):
            raise InvalidRequest("place", f"expected a place, not {check.short_repr(self.place)}")
        if self.ttl not in ("5m", "30m", "1h"):
            raise InvalidRequest("ttl", f'expected "5m", "30m" or "1h", not {check.short_repr(self.ttl)}')
        check.whole_number(self.index, "index", check.MAX_U32)
        check.optional_whole_number(self.part, "part", check.MAX_U32)


@dataclass(frozen=True, slots=True)
class PromptCachePlan:
    """Where a provider's prompt cache should be told to stop. Never part of the key."""

    cache_tools: bool = False
    cache_system: bool = False
    breakpoint_message_ids: tuple[str, ...] = ()
    """Local names (:attr:`LlmMessage.id`) of the messages after which the cache may end."""
    ttl: Literal["5m", "1h"] | None = None
    """For every marker that no other field gives a time."""
    tail_ttl: Literal["5m", "1h"] | None = field(default=None, kw_only=True)
    """For markers in what still grows, where :attr:`ttl` is too long to pay for: the messages of a request, a
    context's turns behind the frozen ones, an IR's conversation and volatile tail."""
    system_cuts: tuple[tuple[int, CacheTime], ...] = field(default=(), kw_only=True)
    """Where each block of :attr:`LlmRequest.system` ends, and the marker behind it. Between two blocks
    there is a blank line, and the last one ends with the text."""
    marks: tuple[CacheMark, ...] = field(default=(), kw_only=True)
    """Markers wherever a client put them, each with its own time; beside those of the other fields."""
    labels: tuple[str, ...] = field(default=(), kw_only=True)
    """What people call the blocks of :attr:`system_cuts`, or an empty text for each without. Never sent."""
    key: str | None = field(default=None, kw_only=True)
    """OpenAI's ``prompt_cache_key``."""
    retention: str | None = field(default=None, kw_only=True)
    """OpenAI's ``prompt_cache_retention``."""
    mode: str | None = field(default=None, kw_only=True)
    """OpenAI's ``prompt_cache_options.mode``: whether it adds a breakpoint of its own."""
    kept_messages: int | None = field(default=None, kw_only=True)
    """How many messages at the start are those of a prompt that Gemini keeps (``cachedContent``), behind its
    tools and system text; ``None`` where it keeps none."""

    def __post_init__(self) -> None:
        check.flag(self.cache_tools, "cache_tools")
        check.flag(self.cache_system, "cache_system")
        ids = check.texts(self.breakpoint_message_ids, "breakpoint_message_ids")
        check.keep(self, "breakpoint_message_ids", ids)
        for name in ("ttl", "tail_ttl"):
            ttl: object = getattr(self, name)
            if ttl is not None and not (isinstance(ttl, str) and ttl in ("5m", "1h")):
                raise InvalidRequest(name, f'expected "5m", "1h" or None, not {check.short_repr(ttl)}')
        check.keep(self, "system_cuts", tuple(map(_cut, check.items(self.system_cuts, "system_cuts"))))
        check.keep(self, "marks", check.values(CacheMark, self.marks, "marks"))
        check.keep(self, "labels", check.texts(self.labels, "labels"))
        check.keep(self, "key", check.optional_text(self.key, "key"))
        check.keep(self, "retention", check.optional_text(self.retention, "retention"))
        check.keep(self, "mode", check.optional_text(self.mode, "mode"))
        check.optional_whole_number(self.kept_messages, "kept_messages", check.MAX_U32)


def _cut(value: object) -> tuple[int, CacheTime]:
    match value:
        case (int(end), ("none" | "5m" | "1h") as time) if end > 0 and not isinstance(end, bool):
            return end, time
    raise InvalidRequest("system_cuts", f"expected an offset and a time, not {check.short_repr(value)}")


_NOTHING: Final = ()
_NEAR: Final = 16
"""Among how many of the last messages one finds, nearly always, where the request before ended."""

REQUEST_FIELDS: Final = frozenset(
    [
        "system",
        "messages",
        "temperature",
        "max_tokens",
        "json_schema",
        "tools",
        "tool_choice",
        "stop",
        "top_p",
        "top_k",
        "seed",
        "extra",
    ]
)
"""What is hashed, and so what a stored request may hold."""


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """Everything about one model call. ``(model, prompt_hash())`` is its key.

    ``temperature`` and ``max_tokens`` may be ``None``: the provider's default. The fields after
    ``timeout_ms`` are keyword-only and take part in the key only when they are present; an empty
    list or object counts as absent.
    """

    model: str
    system: str = ""
    messages: tuple[LlmMessage, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    json_schema: JsonValue = None
    timeout_ms: int = 30_000
    tools: tuple[JsonValue, ...] = field(default=(), kw_only=True)
    tool_choice: JsonValue = field(default=None, kw_only=True)
    stop: tuple[str, ...] = field(default=(), kw_only=True)
    top_p: float | None = field(default=None, kw_only=True)
    top_k: int | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    extra: dict[str, JsonValue] = field(default_factory=dict, kw_only=True)
    """Parameters without a field of their own, by their name on the wire."""
    cache: PromptCachePlan | None = field(default=None, kw_only=True, compare=False)

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            model: str,
            system: str = "",
            messages: str | Sequence[LlmMessage | Mapping[str, Any]] = (),
            temperature: float | None = None,
            max_tokens: int | None = None,
            json_schema: object = None,
            timeout_ms: int = 30_000,
            *,
            tools: Sequence[object] = (),
            tool_choice: object = None,
            stop: str | Sequence[str] = (),
            top_p: float | None = None,
            top_k: int | None = None,
            seed: int | None = None,
            extra: Mapping[str, object] | None = None,
            cache: PromptCachePlan | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "model", check.text(self.model, "model"))
        check.keep(self, "system", check.text(self.system, "system"))
        check.keep(self, "messages", _messages(self.messages))
        check.keep(self, "temperature", check.temperature(self.temperature, "temperature"))
        check.optional_whole_number(self.max_tokens, "max_tokens", check.MAX_U64)
        check.whole_number(self.timeout_ms, "timeout_ms", check.MAX_U64)
        if self.json_schema is not None:
            check.keep(self, "json_schema", check.free(self.json_schema, "json_schema"))
        if not isinstance(self.cache, PromptCachePlan | None):
            raise InvalidRequest("cache", f"expected a PromptCachePlan, not {check.kind_of(self.cache)}")
        extra: object = self.extra
        # A new one even if it is empty: the caller's own may grow.
        check.keep(self, "extra", {} if extra is None else check.free_object(extra, "extra"))
        # By identity: a value of the caller's may have any notion of equality.
        is_bare = self.tools is _NOTHING and self.stop is _NOTHING and self.tool_choice is None
        if not is_bare or not (self.top_p is None and self.top_k is None and self.seed is None):
            self._check_additions()

    def _check_additions(self) -> None:
        check.keep(self, "tools", check.free_tuple(self.tools, "tools"))
        choice = check.free(self.tool_choice, "tool_choice")
        check.keep(self, "tool_choice", None if choice in ({}, []) else choice)
        stop: object = self.stop
        check.keep(self, "stop", check.texts((stop,) if isinstance(stop, str) else stop, "stop"))
        check.keep(self, "top_p", check.optional_number(self.top_p, "top_p"))
        check.optional_whole_number(self.top_k, "top_k", check.MAX_U64)
        check.optional_integer(self.seed, "seed")

    def canonical_bytes(self) -> bytes:
        """The exact bytes that :meth:`prompt_hash` hashes; ``docs/key.md`` describes them."""
        numbers = CallNumbers()
        return canonical.struct_bytes(
            self.system,
            [canonical_message(message, numbers) for message in self.messages],
            self.temperature,
            self.max_tokens,
            self._additional_fields(),
        )

    def prompt_hash(self) -> str:
        """BLAKE3 over everything the model sees, and nothing that it does not."""
        return blake3_hex(self.canonical_bytes())

    def hasher(self) -> PromptHasher:
        """What hashes requests that have everything of this one but its messages."""
        head, tail = canonical.struct_ends(
            self.system, self.temperature, self.max_tokens, self._additional_fields()
        )
        return PromptHasher(blake3(head), tail)

    def prefix_hashes(self) -> Iterator[tuple[int, str]]:
        """The prompt hash of each request that this one continues: the same with fewer messages.

        Gives how many messages it has, and the hash. The longest comes first. It is nearly always one of the
        last, so the state of the hash at those before is kept only for who asks on.
        """
        near = max(0, len(self.messages) - _NEAR)
        for first, end in ((near, len(self.messages)), (0, near)):
            hasher = self.hasher()
            for message in self.messages[:first]:
                hasher.add(message)
            prefixes: list[PromptHasher] = []
            for message in self.messages[first:end]:
                prefixes.append(hasher.copy())
                hasher.add(message)
            for count in range(end - 1, first - 1, -1):
                yield count, prefixes[count - first].prompt_hash()

    def continue_with(self, messages: tuple[LlmMessage, ...]) -> Self:
        """This request with further messages. Those that are there are not looked at again.

        Raises:
            InvalidRequest: A conversation would start with a system message.
        """
        request = copy(self)
        new = (*self.messages, *messages) if self.messages else _messages(messages)
        check.keep(request, "messages", new)
        return request

    def to_dict(self) -> dict[str, JsonValue]:
        """The request as a fixture's ``request`` holds it: what is hashed, in readable form."""
        request: dict[str, JsonValue] = {
            "system": self.system,
            "messages": [message.to_dict() for message in self.messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        request.update(self._additional_fields())
        return request

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A request from its plain form; the inverse of :meth:`to_dict` once ``model`` is added.

        Raises:
            InvalidRequest: A field is unknown, missing or of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise InvalidRequest("request", f"expected an object, not {check.kind_of(data)}")
        try:
            return check.from_mapping(cls, data)
        except InvalidRequest as error:
            raise InvalidRequest(error.field or "request", error.reason) from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """A request from JSON text, read as strictly as a fixture is.

        Raises:
            InvalidRequest: The text is not JSON, or not a request.
        """
        if not isinstance(text, str | bytes):
            raise InvalidRequest("request", f"expected JSON text, not {check.kind_of(text)}")
        try:
            data = loads(text.encode() if isinstance(text, str) else text)
        except JsonError as error:
            raise InvalidRequest("request", str(error)) from None
        except UnicodeEncodeError:
            raise InvalidRequest("request", "holds half of a surrogate pair") from None
        return cls.from_dict(data)  # type: ignore[arg-type]

    def _additional_fields(self) -> Iterator[tuple[str, JsonValue]]:
        """What stands after ``max_tokens`` in the canonical form, in order, when present."""
        if self.json_schema is not None:
            yield "json_schema", self.json_schema
        if self.tools:
            yield "tools", list(self.tools)
        if self.tool_choice is not None:
            yield "tool_choice", self.tool_choice
        if self.stop:
            yield "stop", list(self.stop)
        if self.top_p is not None:
            yield "top_p", self.top_p
        if self.top_k is not None:
            yield "top_k", self.top_k
        if self.seed is not None:
            yield "seed", self.seed
        if self.extra:
            yield "extra", self.extra


def _messages(value: object) -> tuple[LlmMessage, ...]:
    if isinstance(value, str):
        return (LlmMessage(LlmRole.USER, value),)
    if value is None:
        raise InvalidRequest("messages", "expected a list, not null")
    messages = check.values(LlmMessage, value, "messages")
    if messages and messages[0].role is LlmRole.SYSTEM:
        raise InvalidRequest(
            "messages[0].role",
            "a conversation does not start with a system message; put its text into `system`",
        )
    return messages
