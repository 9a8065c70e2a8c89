"""The documents of a page by their names, of the store as it is now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.history.story import tell_story
from cortex_replay.mcp.tool_names import arguments_text
from cortex_replay.progress import Progress
from cortex_replay.redact.names import without_secrets
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.view.documents.calls import call_document
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.documents.raw import raw_document
from cortex_replay.view.documents.search import Haystack
from cortex_replay.view.documents.store import store_document
from cortex_replay.view.documents.stories import StoryTeller
from cortex_replay.view.ids import call_id, story_id
from cortex_replay.view.page import page_document
from cortex_replay.view.recordings import LookedAt, Recordings, Surroundings, read_recordings
from cortex_replay.view.shapes import PageDocument, Screen, StoryDocument

__all__ = ["Library", "Shelf"]

_MOST_FIELDS: Final = 10


@dataclass(frozen=True, slots=True)
class Shelf:
    """What there is besides the store: documents that are made when they are looked at."""

    title: str = "cortex-replay"
    version: str = ""
    further: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """By name: ``change`` and ``report``."""
    has_store: bool = True


_SCREEN_OF: dict[str, Screen] = {"change": "change", "report": "run"}


class Library:
    """Makes documents. It follows the store: a document is of the index as it stands then.

    Args:
        root: Where ``INDEX.toml`` stands.
        surroundings: What the user's settings say of recordings.
        looked_at: What of the store is wanted; everything without it.
        shelf: What there is besides.
    """

    def __init__(
        self,
        root: Path,
        surroundings: Surroundings,
        looked_at: LookedAt | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self._root = root
        self._surroundings = surroundings
        self._looked_at = looked_at or LookedAt()
        self._shelf = shelf or Shelf()
        self._state: tuple[object, _Reading] | None = None
        self._made: dict[str, tuple[object, object | None]] = {}

    @property
    def title(self) -> str:
        """Of the page."""
        return self._shelf.title

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return self._surroundings.redactor.text(text)[0]

    def read(self, progress: Progress | None = None) -> Recordings:
        """The recordings as they are now; read again if the index has changed.

        Raises:
            FixtureIntegrityFailed: The index cannot be trusted.
            UnknownRun: No run and no test has a wanted name.
            StoreIo: There is no store.
        """
        return self._read(progress).recordings

    def document(self, name: str, query: str = "") -> object | None:
        """The document with a name; ``None`` if there is none.

        Args:
            name: As :mod:`.shapes` has them.
            query: What stands behind the question mark of an address.

        Raises:
            FixtureIntegrityFailed: What it would show is not what the index says.
        """
        if name == "page":
            return self.page(is_file=False)
        if name in self._shelf.further:
            return self._further(name)
        if not self._shelf.has_store:
            return None
        reading = self._read(None)
        if name == "search":
            return reading.haystack.find(_words_in(query))
        return reading.document(name)

    def prepare_search(self) -> None:
        """Make what a search needs now, so that the first one does not wait for it."""
        if self._shelf.has_store:
            _ = self._read(None).haystack

    def page(self, *, is_file: bool) -> PageDocument:
        """What there is to look at: what was asked for comes before the store."""
        screens: list[Screen] = [_SCREEN_OF[name] for name in self._shelf.further]
        if self._shelf.has_store:
            screens += ["store", "conversation"]
        return page_document(self._shelf.title, self._shelf.version, screens, is_file=is_file)

    def all(self) -> Iterator[tuple[str, object]]:
        """Every document, for a page that stands alone."""
        yield "page", self.page(is_file=True)
        for name in self._shelf.further:
            yield name, self.document(name)
        if self._shelf.has_store:
            reading = self._read(None)
            for name in reading.names():
                yield name, reading.document(name)

    def count(self) -> int:
        """How many documents there are."""
        of_store = len(list(self._read(None).names())) if self._shelf.has_store else 0
        return 1 + len(self._shelf.further) + of_store

    def _further(self, name: str) -> object | None:
        """What is made once for each state of the store."""
        stamp = self._stamp()
        if name not in self._made or self._made[name][0] != stamp:
            self._made[name] = stamp, self._clean(self._shelf.further[name]())
        return self._made[name][1]

    def _read(self, progress: Progress | None) -> _Reading:
        stamp = self._stamp()
        if self._state is None or self._state[0] != stamp:
            self._state = None
            made = read_recordings(self._root, self._surroundings, self._looked_at, progress)
            self._state = stamp, _Reading(made, self._clean)
        return self._state[1]

    def _stamp(self) -> object:
        """What changes with the index: every commit puts another file in its place."""
        with suppress(OSError):
            status = (self._root / INDEX_NAME).stat()
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None

    def _clean(self, document: Any) -> object | None:
        """A document without secrets, whatever made it."""
        return None if document is None else without_secrets(document, self._surroundings.redactor)


class _Reading:
    """One state of a store, and what was made of it."""

    def __init__(self, recordings: Recordings, clean: Callable[[Any], object | None]) -> None:
        self.recordings = recordings
        self._clean = clean

    @cached_property
    def haystack(self) -> Haystack:
        """What is searched; made for the first search."""
        return Haystack(self.recordings)

    @cached_property
    def _store(self) -> object | None:
        return self._clean(store_document(self.recordings))

    def names(self) -> Iterator[str]:
        """Every document that a file has of the store."""
        yield from ("store", "texts")
        yield from (f"stories/{name}" for name in self._stories)
        for file_id in self.recordings.files:
            yield f"calls/{file_id}"
            yield f"raw/{file_id}"

    def document(self, name: str) -> object | None:
        """The document with a name, without secrets."""
        if name == "store":
            return self._store
        if name == "texts":
            return self.haystack.document()
        return self._clean(self._make(name))

    def _make(self, name: str) -> object | None:
        sort, _, rest = name.partition("/")
        match sort, rest:
            case "stories", _:
                return self._story(rest)
            case "calls", _:
                return call_document(self.recordings, rest)
            case "raw", _:
                return raw_document(self.recordings, rest)
            case _:
                return None

    @cached_property
    def _stories(self) -> dict[str, tuple[str, list[HistoryCall], list[McpCall]]]:
        """By id: the name of a run or a test, its calls to models, and those to servers."""
        found: dict[str, tuple[str, list[HistoryCall], list[McpCall]]] = {}
        for call in self.recordings.calls:
            for story, name in _stories_of(call):
                found.setdefault(story, (name, [], []))[1].append(call)
        for asked in self.recordings.mcp_calls:
            for story, name in _stories_of(asked):
                found.setdefault(story, (name, [], []))[2].append(asked)
        return found

    @cached_property
    def _by_arguments(self) -> dict[str, list[int]]:
        """Where calls to servers stand, by what they are called with."""
        found: dict[str, list[int]] = {}
        for place, made in enumerate(self.recordings.mcp_calls):
            found.setdefault(arguments_text(made.arguments), []).append(place)
        return found

    def _story(self, wanted: str) -> StoryDocument | None:
        if (found := self._stories.get(wanted)) is None:
            return None
        recordings = self.recordings
        name, calls, asked = found
        teller = StoryTeller(
            Cutter(recordings.surroundings.redactor),
            call_id,
            recordings.spent,
            recordings.threads,
            self._failures_of,
        )
        return teller.tell(wanted, name, tell_story(calls, asked, self._may_be_made_by(calls)))

    def _may_be_made_by(self, calls: Sequence[HistoryCall]) -> list[McpCall]:
        """The calls to servers with arguments that these answers want something called with: a story looks
        through all it is given, and there may be thousands of both."""
        every = self.recordings.mcp_calls
        tools = (tool for call in calls if call.said is not None for tool in call.said.tool_calls)
        texts = {arguments_text(tool.arguments) for tool in tools}
        places = chain.from_iterable(self._by_arguments.get(text, ()) for text in texts)
        return [every[place] for place in sorted(places)]

    def _failures_of(self, call: HistoryCall) -> Mapping[int, Exchange]:
        store = self.recordings.store
        scope = next((one for one in call.scopes if store.has_own(call.model, call.prompt_hash, one)), "")
        return store.failures(call.model, call.prompt_hash, scope)


def _stories_of(call: HistoryCall | McpCall) -> Iterator[tuple[str, str]]:
    yield story_id("run", call.run), call.run
    for scope in call.scopes:
        yield story_id("test", scope), scope


def _words_in(query: str) -> str:
    """What is searched for; nothing where an address says more than the page ever asks."""
    with suppress(ValueError):
        return parse_qs(query, max_num_fields=_MOST_FIELDS).get("q", [""])[0]
    return ""
