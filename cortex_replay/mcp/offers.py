"""What a server offers (tools, prompts, templates of resources), and how that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.mcp.messages import TOOLS_LIST
from cortex_replay.mcp.schemas import compare_schemas
from cortex_replay.mcp.wording import describe_rewording, quote_short

__all__ = ["LISTS", "Change", "Definition", "Kind", "ListOf", "Offer", "compare_offers"]

Kind = Literal["tool", "prompt", "resource template"]
Definition = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list that a server gives."""

    kind: Kind
    field: str
    """Where the entries stand in the answer."""
    name: str
    """What tells an entry from the others."""
    capability: str
    """What a server says in its handshake that it has, if it has such a list."""


LISTS: Final[Mapping[str, ListOf]] = {
    TOOLS_LIST: ListOf("tool", "tools", "name", "tools"),
    "prompts/list": ListOf("prompt", "prompts", "name", "prompts"),
    "resources/templates/list": ListOf("resource template", "resourceTemplates", "uriTemplate", "resources"),
}
"""By the method that asks for it."""

_ALIKE: Final = 0.6
_MOST_COMPARED: Final = 100
_LONGEST_COMPARED: Final = 500
_OF_MODELS: Final = frozenset(["description", "input"])
_TOLD: Final = frozenset(["name", "uriTemplate", "description", "inputSchema", "outputSchema", "arguments"])


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a server offers otherwise than it was recorded."""

    of: Kind
    name: str
    what: str
    """``added``, ``removed``, ``renamed``, ``description``, ``input``, ``output``, ``arguments``, or the name
    of another field."""
    text: str
    """What changed, in words. It quotes the server."""
    is_breaking: bool
    """Whether a call that was right before may be wrong now."""
    new_name: str | None = None
    """What it is probably called now, if it was renamed."""

    @property
    def is_seen_by_models(self) -> bool:
        """Whether a prompt that offers the tools of the server is another one now."""
        return self.of == "tool" and (self.what in ("added", "removed", "renamed") or self.what in _OF_MODELS)

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "of": self.of,
            "name": self.name,
            "what": self.what,
            "text": self.text,
            "is_breaking": self.is_breaking,
            **({"new_name": self.new_name} if self.new_name is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers: definitions by name, of each kind that was listed."""

    lists: Mapping[Kind, Mapping[str, Definition]] = field(default_factory=dict)

    @classmethod
    def of_pages(cls, pages: Iterable[tuple[str, JsonValue]]) -> Offer:
        """The offer that answers to lists make together, whatever page each is.

        Args:
            pages: The method and the result of each; of two entries of a name the later counts.
        """
        lists: dict[Kind, dict[str, Definition]] = {}
        for method, result in pages:
            if (about := LISTS.get(method)) is None or not isinstance(result, dict):
                continue
            entries = lists.setdefault(about.kind, {})
            given = result.get(about.field)
            for entry in given if isinstance(given, list) else ():
                if isinstance(entry, dict) and isinstance(name := entry.get(about.name), str):
                    entries[name] = entry
        return cls(lists)

    @property
    def tools(self) -> Mapping[str, Definition]:
        return self.lists.get("tool", {})


def compare_offers(before: Offer, after: Offer) -> list[Change]:
    """What changed, of the kinds of which both have a list."""
    return [
        change
        for kind, entries in before.lists.items()
        if kind in after.lists
        for change in _compare_lists(kind, entries, after.lists[kind])
    ]


def _compare_lists(
    kind: Kind, before: Mapping[str, Definition], after: Mapping[str, Definition]
) -> Iterator[Change]:
    gone = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    renamed = _renamed({name: before[name] for name in gone}, {name: after[name] for name in come})
    for name, entry in before.items():
        if name in after:
            yield from _compare_entries(kind, name, entry, after[name])
        elif name in renamed:
            new_name = renamed[name]
            text = f"is not there any more; {new_name} is like it"
            yield Change(kind, name, "renamed", text, is_breaking=True, new_name=new_name)
            yield from _compare_entries(kind, name, entry, after[new_name])
        else:
            yield Change(kind, name, "removed", "is not there any more", is_breaking=True)
    for name in come:
        if name not in renamed.values():
            yield Change(kind, name, "added", "is new", is_breaking=False)


def _renamed(gone: Mapping[str, Definition], come: Mapping[str, Definition]) -> dict[str, str]:
    """Which of those that are gone is probably one of those that came: its name is only spelled otherwise, or
    it takes the same and says nearly the same of itself."""
    renamed: dict[str, str] = {}
    for old, entry in list(gone.items())[:_MOST_COMPARED]:
        alike = [
            (1.0 if _plain(old) == _plain(new) else _likeness(entry, come[new]), new)
            for new in list(come)[:_MOST_COMPARED]
            if new not in renamed.values()
        ]
        likeness, new = max(alike, default=(0.0, ""))
        if likeness >= _ALIKE:
            renamed[old] = new
    return renamed


def _shape(entry: Definition) -> list[str]:
    """The names of what it takes."""
    schema = entry.get("inputSchema")
    if not isinstance(schema, dict):
        schema = _as_schema(entry.get("arguments"))
    properties = schema.get("properties")
    return sorted(properties) if isinstance(properties, dict) else []


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _likeness(one: Definition, other: Definition) -> float:
    if _shape(one) != _shape(other):
        return 0.0
    from difflib import SequenceMatcher  # noqa: PLC0415 - most servers stay as they are

    first, second = (
        str(entry.get("description") or "")[:_LONGEST_COMPARED].split() for entry in (one, other)
    )
    return SequenceMatcher(None, first, second, autojunk=False).ratio() if first and second else 0.0


def _compare_entries(kind: Kind, name: str, before: Definition, after: Definition) -> Iterator[Change]:
    if before.get("description") != after.get("description"):
        text = describe_rewording(before.get("description"), after.get("description"))
        yield Change(kind, name, "description", text, is_breaking=False)
    for field_name, what in (("inputSchema", "input"), ("outputSchema", "output")):
        old, new = before.get(field_name), after.get(field_name)
        if compact(old) == compact(new):
            continue
        if old is None or new is None:
            told = "has a schema now" if old is None else "has no schema any more"
            yield Change(kind, name, what, told, is_breaking=new is None and what == "output")
            continue
        for change in compare_schemas(old, new, is_output=what == "output"):
            yield Change(kind, name, what, change.text, change.is_breaking)
    yield from _compare_arguments(kind, name, before.get("arguments"), after.get("arguments"))
    for other in sorted({*before, *after} - _TOLD):
        if compact(before.get(other)) != compact(after.get(other)):
            yield Change(kind, name, other, _told(before.get(other), after.get(other)), is_breaking=False)


def _compare_arguments(kind: Kind, name: str, before: JsonValue, after: JsonValue) -> Iterator[Change]:
    """Those of a prompt, which have no schema."""
    old, new = _as_schema(before), _as_schema(after)
    if compact(old) != compact(new):
        for change in compare_schemas(old, new):
            yield Change(kind, name, "arguments", change.text, change.is_breaking)


def _as_schema(arguments: JsonValue) -> Definition:
    given = [one for one in arguments if isinstance(one, dict)] if isinstance(arguments, list) else []
    properties: Definition = {
        str(one.get("name")): {key: one[key] for key in ("title", "description") if key in one}
        for one in given
    }
    return {"properties": properties, "required": [one.get("name") for one in given if one.get("required")]}


def _told(before: JsonValue, after: JsonValue) -> str:
    """What became of a field whose meaning we do not judge; of an object, what became of its parts."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [
            name for name in {**before, **after} if compact(before.get(name)) != compact(after.get(name))
        ]
        return "; ".join(f"{name} {_told(before.get(name), after.get(name))}" for name in names)
    if isinstance(before, str) or isinstance(after, str):
        return describe_rewording(before, after)
    return f"{quote_short(before)} became {quote_short(after)}"
