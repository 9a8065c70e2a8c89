"""A system prompt in parts, each of which says whether it may be cached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["BLANK_LINE", "PromptBlock", "block_values", "flatten_blocks", "with_markers"]

BLANK_LINE = "\n\n"


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """One part of a system prompt."""

    label: str
    """For people: logs, reports and failed tests name a block by it. Never sent."""
    text: str
    cache: CachePolicy = CachePolicy.NONE
    kind: str | None = field(default=None, kw_only=True)
    """What an IR calls this sort of block; kept, and never sent."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self, label: str, text: str, cache: CachePolicy | str = ..., *, kind: str | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "label", check.text(self.label, "label"))
        check.keep(self, "text", check.text(self.text, "text"))
        check.keep(self, "cache", check.member(CachePolicy, self.cache, "cache"))
        check.keep(self, "kind", check.optional_text(self.kind, "kind"))

    @classmethod
    def plain(cls, label: str, text: str) -> Self:
        """A block that changes from call to call, or is not worth caching."""
        return cls(label, text)

    @classmethod
    def cached_short(cls, label: str, text: str) -> Self:
        """A block to be cached for five minutes."""
        return cls(label, text, CachePolicy.EPHEMERAL_5M)

    @classmethod
    def cached_long(cls, label: str, text: str) -> Self:
        """A block to be cached for an hour."""
        return cls(label, text, CachePolicy.EPHEMERAL_1H)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A block from ``{label, text, cache}``, or from an IR's ``{id, kind, text}``.

        Raises:
            InvalidRequest: A field is unknown, missing or of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise InvalidRequest("block", f"expected an object, not {check.kind_of(data)}")
        fields = dict(data)
        if "id" in fields and "label" not in fields:
            fields["label"] = fields.pop("id")
        return check.from_mapping(cls, fields)

    def to_dict(self) -> dict[str, JsonValue]:
        """The block in the shape that it came in: one with a ``kind`` is an IR's."""
        if self.kind is None:
            return {"label": self.label, "text": self.text, "cache": self.cache.value}
        block: dict[str, JsonValue] = {"id": self.label, "kind": self.kind, "text": self.text}
        return block | {"cache": self.cache.value} if self.cache.is_cached else block


def flatten_blocks(blocks: Iterable[PromptBlock]) -> str:
    """The non-empty texts joined by a blank line; white space is text."""
    return BLANK_LINE.join(block.text for block in blocks if block.text)


def with_markers(
    blocks: Sequence[PromptBlock], behind_last: CachePolicy = CachePolicy.NONE
) -> list[tuple[PromptBlock, CachePolicy]]:
    """The blocks that are sent, each with the marker behind it: the last of each run of one policy.

    Empty blocks are not sent, so they neither end a run nor carry its marker.

    Args:
        blocks: A whole system prompt.
        behind_last: The marker for the last block if its own policy is none.
    """
    sent = [block for block in blocks if block.text]
    following = [block.cache for block in sent[1:]]
    marked = [
        (block, CachePolicy.NONE if block.cache is after else block.cache)
        for block, after in zip_longest(sent, following)
    ]
    if marked and not sent[-1].cache.is_cached:
        marked[-1] = (sent[-1], behind_last)
    return marked


def block_values(value: object, name: str) -> tuple[PromptBlock, ...]:
    """A list of blocks, each a :class:`PromptBlock` or its plain form.

    Raises:
        InvalidRequest: It is something else; the field says which block.
    """
    blocks: list[PromptBlock] = []
    for i, item in enumerate(check.items(value, name)):
        try:
            blocks.append(item if isinstance(item, PromptBlock) else PromptBlock.from_dict(item))  # type: ignore[arg-type]
        except InvalidRequest as error:
            where = f"{name}[{i}]" if error.field in ("", "block") else f"{name}[{i}].{error.field}"
            raise InvalidRequest(where, error.reason) from None
    return tuple(blocks)
