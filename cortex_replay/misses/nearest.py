"""Which recording comes nearest to a request that has none, found fast among thousands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import LlmError
from cortex_replay.gc_pause import pause_gc
from cortex_replay.mcp.questions import server_in, subject_of
from cortex_replay.misses.likeness import Ends, Lines, overlap, words_in
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.store.fixture import Fixture, bindings_in
from cortex_replay.store.requests.request_bytes import REQUEST_START, render_request, request_bytes
from cortex_replay.store.store import Store
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["Nearest", "NearestExchange", "nearest_exchange", "nearest_fixture", "recorded_requests"]

# Chosen: every file is read, but neither parsed nor checked, and what an edit leaves alone, the start and the
# end of the request's bytes, is compared in C. To check all takes 5x as long, and a cache on disk goes stale.

_BODY: Final = b'\n    "body":'
_SAME_MODEL: Final = 0.15
"""What the model is worth, where 1 is a request that is the same to the byte."""
_MOST_WEIGHED: Final = 500_000
"""Bytes of the recordings whose words are looked at: a text may have been edited in several places."""
_MOST_HELD: Final = 64_000_000
"""Bytes of requests that are kept while files are read; and then, of the best."""
_CLEAR: Final = 0.6
"""How like a request must be for an edit in one place to be the likely reason; else lines are compared."""
_MOST_CHECKED: Final = 6
"""Recordings that are read again, checked, and compared exactly."""
_MOST_READ: Final = 100_000
"""Files that are looked through; those of the same model come first."""
_MOST_BYTES: Final = 500_000_000
"""Bytes of requests that are looked through. Both count work and not time: beside a load, or on another
machine, a miss names the same recording."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """A recording, and what was asked for it."""

    path: str
    request: LlmRequest
    """With the cache plan that its recording notes."""
    bindings: tuple[str, ...] = ()
    """Those that were applied to it."""
    usage: TokenUsage | None = None
    """What the provider counted for its first answer."""
    meta: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NearestExchange:
    """A recorded call, and what was asked there."""

    path: str
    request: dict[str, JsonValue]


_Key = tuple[str, str]
"""A model and a hash, of a fixture; a place and a hash, of an exchange."""


class _Candidate(NamedTuple):
    """Candidates are sorted by what they are worth; no two have one key."""

    likeness: float
    key: _Key
    written: bytes


_Region = tuple[float, _Key, bytes]
"""A candidate before it is weighed. There are thousands, and a tuple is made in a tenth of the time."""


@pause_gc()
def nearest_fixture(
    store: Store, asked: LlmRequest, *, plain: JsonValue = None, most: int = _MOST_READ
) -> Nearest | None:
    """The recording that is most like a request.

    Args:
        store: Where to look.
        asked: The request, as it would be stored.
        plain: Its plain form, where that is to be another one: without its secrets.
        most: How many files may be looked through; those of the same model come first.
    """
    written = render_request(asked.to_dict() if plain is None else plain)
    regions = _regions(store.scan_requests(first=asked.model), most)
    weighed = [
        one._replace(likeness=one.likeness + _SAME_MODEL * (one.key[0] == asked.model))
        for one in _compare(written, regions)
    ]
    words = Counter(written.split())
    best: tuple[float, float, Nearest] | None = None
    for one, fixture, request in _check(store, nlargest(_MOST_CHECKED, weighed)):
        exact = overlap(words, one.written) + _SAME_MODEL * (one.key[0] == asked.model)
        if best is None or (exact, one.likeness) > best[:2]:
            best = exact, one.likeness, _nearest(store.path(*one.key), fixture, request)
    return None if best is None else best[2]


def _nearest(path: str, fixture: Fixture, request: LlmRequest) -> Nearest:
    meta = fixture.meta or {}
    usage = fixture.answers[0].usage if fixture.answers else None
    return Nearest(path, restore_breakpoints(request, meta), bindings_in(meta), usage, meta)


@pause_gc()
def nearest_exchange(
    store: Store, asked: dict[str, JsonValue], *, scope: str = "", most: int = _MOST_READ
) -> NearestExchange | None:
    """The opaque exchange that is most like a call: of those with its method and path, if there are any; of
    those of its server and its tool, if it calls one.

    Args:
        store: Where to look.
        asked: The call, as it would be stored; without its secrets.
        scope: Whose own exchanges count beside the shared ones.
        most: How many files may be looked through.
    """
    written = render_request(asked)
    head = _Head(asked) if server_in(asked) is None else _ToolHead(asked)
    nearness = 0
    regions: list[tuple[_Key, bytes]] = []
    for key, region in _regions(_asked_in(store, scope), most):
        near = head.nearness(region)
        if near > nearness:
            nearness, regions = near, []
        if near == nearness:
            regions.append((key, region))
    for one in nlargest(_MOST_CHECKED, _compare(written, regions)):
        try:
            found = store.exchange(one.key[1], scope)
        except LlmError:  # what is wrong with it is not the matter here
            continue
        if found is not None and found.request is not None:
            return NearestExchange(one.key[0], found.request)
    return None


def recorded_requests(
    store: Store, scope: str = "", *, most: int = _MOST_READ
) -> Iterator[dict[str, JsonValue]]:
    """What was asked for each opaque exchange, **unchecked**: to see what there is.

    Args:
        store: Where to look.
        scope: Whose own exchanges count beside the shared ones.
        most: How many files may be looked through.
    """
    for _, region in _regions(_asked_in(store, scope), most):
        try:
            request = orjson.loads(b"{%b\n}}" % region)["request"]
        except orjson.JSONDecodeError:
            continue
        if isinstance(request, dict):
            yield request


class _Head:
    """Where a call goes, as it stands in a file; a class to have it written once for all files."""

    def __init__(self, asked: dict[str, JsonValue]) -> None:
        self._upstream, self._method, self._path = (
            render_request({name: asked[name]}).removeprefix(REQUEST_START)
            for name in ("upstream", "method", "path")
        )

    def nearness(self, region: bytes) -> int:
        """A path and a method say more than a host does: the same server may have moved."""
        end = region.find(_BODY)
        head = region if end < 0 else region[:end]
        is_there = self._path + b"," in head, self._method + b"," in head, self._upstream + b"," in head
        return sum(weight for weight, there in zip((4, 2, 1), is_there, strict=True) if there)


class _ToolHead(_Head):
    """As :class:`_Head`, of an MCP call: a server is known by its name, and so is a tool."""

    def __init__(self, asked: dict[str, JsonValue]) -> None:
        super().__init__(asked)
        body, subject = asked["body"], subject_of(asked)
        held = body if isinstance(body, dict) else {}
        named = [(name, value) for name, value in held.items() if value == subject and subject is not None]
        self._subject = b"".join(
            render_request({"body": {name: value}}).rpartition(_BODY + b" {")[2].rstrip(b"\n }")
            for name, value in named[:1]
        )

    def nearness(self, region: bytes) -> int:
        start = region.find(_BODY)
        head, body = (region, b"") if start < 0 else (region[:start], region[start:])
        is_there = (
            self._method + b"," in head,
            self._upstream + b"," in head,
            self._path + b"," in head,
            bool(self._subject) and self._subject in body,
        )
        return sum(weight for weight, there in zip((8, 4, 2, 1), is_there, strict=True) if there)


def _compare(written: bytes, regions: Iterable[tuple[_Key, bytes]]) -> Iterator[_Candidate]:
    """The requests that are most like one, with how like they are."""
    found = _candidates(Ends(written), regions)
    if found and max(found)[0] < _CLEAR:
        likeness = Lines(written).likeness
        found = [(likeness(region), key, region) for _, key, region in found]
    return _weigh(written, found)


def _candidates(ends: Ends, regions: Iterable[tuple[_Key, bytes]]) -> list[_Region]:
    """How like all requests are; where one is clearly like it, only of those that may still be weighed."""
    found: list[_Region] = []
    held = 0
    highest, least = _CLEAR, -inf
    for key, region in regions:
        likeness = ends.likeness(region)
        if likeness < least:
            continue
        found.append((likeness, key, region))
        held += len(region)
        if likeness > highest:
            # What is less like it by so much is weighed only if it is among the first few.
            highest = likeness
            few = nlargest(_MOST_CHECKED, (one[0] for one in found))
            least = min(highest - _CLEAR, few[-1]) if len(few) == _MOST_CHECKED else -inf
            found = [one for one in found if one[0] >= least]
            held = sum(len(one[2]) for one in found)
        if held > _MOST_HELD:
            found = _rank(found)[: len(found) // 4]
            held = sum(len(one[2]) for one in found)
    return found


def _rank(found: Iterable[_Region]) -> list[_Region]:
    return sorted(found, key=itemgetter(0), reverse=True)


def _weigh(written: bytes, found: Iterable[_Region]) -> Iterator[_Candidate]:
    """The best, with a likeness that also counts the words in common."""
    words = words_in(written)
    room = _MOST_WEIGHED
    highest = 0.0
    for i, (likeness, key, region) in enumerate(_rank(found)):
        if i >= _MOST_CHECKED and (room < 0 or likeness < highest - _CLEAR):
            return
        others = words_in(region)
        low, high = sorted((likeness, 2 * len(words & others) / (len(words) + len(others) or 1)))
        room -= len(region)
        highest = max(highest, likeness)
        yield _Candidate(high + 0.01 * low, key, region)


def _asked_in(store: Store, scope: str) -> Iterator[tuple[_Key, bytes | None]]:
    """The bytes of what every opaque exchange asked."""
    for key, data in store.scan_exchanges(scope):
        yield key, request_bytes(data)


def _regions(requests: Iterable[tuple[_Key, bytes | None]], most: int) -> Iterator[tuple[_Key, bytes]]:
    """The bytes of stored requests, as many as are looked through."""
    room = _MOST_BYTES
    for key, region in islice(requests, most):
        if region is not None:
            yield key, region
            room -= len(region)
            if room < 0:
                return


def _check(
    store: Store, candidates: Iterable[_Candidate]
) -> Iterator[tuple[_Candidate, Fixture, LlmRequest]]:
    """Those that can be shown, with what was asked: from bytes that the index vouches for."""
    for one in candidates:
        try:
            fixture = store.get(*one.key)
        except LlmError:  # what is wrong with it is not the matter here
            continue
        if fixture.request is not None:
            written = render_request(fixture.request.to_dict())
            yield one._replace(written=written), fixture, fixture.request
