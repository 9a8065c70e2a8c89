"""What was read of a store, once: enough to make every document of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, cast

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.money import PriceList
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.history.calls import HistoryCall, read_calls, times_of
from cortex_replay.history.mcp_calls import McpCall, read_mcp_calls
from cortex_replay.history.origins import scopes_with
from cortex_replay.history.runs import choose_calls
from cortex_replay.mcp.questions import server_in
from cortex_replay.progress import Progress
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Fixture, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.opening import open_in_part
from cortex_replay.types import TokenUsage
from cortex_replay.view.ids import call_id
from cortex_replay.view.shapes import Spent
from cortex_replay.view.spent import spent_on
from cortex_replay.view.threads import Thread, threads_of

__all__ = ["LookedAt", "OtherCall", "RecordedFile", "Recordings", "Surroundings", "read_recordings"]

Kind = Literal["model", "mcp", "exchange"]
_BATCH: Final = 256 * 1024
"""Characters that are looked through together. Where one has a secret, each is looked at by itself."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a user's settings say of recordings."""

    redactor: Redactor = field(default_factory=Redactor)
    prices: PriceList = field(default_factory=PriceList)
    max_age_days: float | None = None
    """How old a recording may be."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What of a store is to be looked at, and what a report says of it."""

    runs: Sequence[str] = ()
    """Runs and tests; none for all of it."""
    unused: frozenset[tuple[str, str, str]] | None = None
    """Of fixtures that a report calls unused, the model, the prompt hash and the scope."""
    unused_calls: frozenset[tuple[str, str]] | None = None
    """Likewise of calls to MCP servers, the key and the scope."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file of the store, and what it is found by."""

    id: str
    kind: Kind
    who: str
    """The model, the MCP server, or who else was asked."""
    key: str
    path: str
    blake3: str
    scopes: tuple[str, ...]
    """Whose rows name it; the empty one is that of all."""
    failure: int | None = None
    """Which answer to its key it is, of a failure."""


@dataclass(frozen=True, slots=True)
class OtherCall:
    """What is recorded beside calls with a question: a call that asked no model, a failure, an answer whose
    question is not known."""

    file: RecordedFile
    what: str
    said: str
    answers: int
    scopes: tuple[str, ...]
    texts: tuple[tuple[str, str], ...] = ()
    """What else can be looked for in it: where, and the text."""
    usages: tuple[TokenUsage | None, ...] = ()
    at: float | None = None


@dataclass(frozen=True)
class Recordings:
    """The recordings that are looked at."""

    store: Store
    surroundings: Surroundings
    looked_at: LookedAt
    calls: tuple[HistoryCall, ...]
    """To models, in their order. Of streams they have the ends only."""
    mcp_calls: tuple[McpCall, ...]
    others: tuple[OtherCall, ...]
    files: Mapping[str, RecordedFile]
    """By id."""
    findings: tuple[str, ...]
    """What the index does not vouch for."""

    @cached_property
    def threads(self) -> dict[str, Thread]:
        """By path, what each request goes on from."""
        return threads_of(self.calls)

    @cached_property
    def mcp_by_path(self) -> dict[str, list[McpCall]]:
        """The calls to servers, by their files."""
        found: dict[str, list[McpCall]] = {}
        for call in self.mcp_calls:
            found.setdefault(call.path, []).append(call)
        return found

    def spent(self, calls: Iterable[tuple[str, TokenUsage | None]]) -> Spent:
        """What calls took, each a model and what was counted."""
        return spent_on(calls, self.surroundings.prices)

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return self.surroundings.redactor.text(text)[0]

    def redact_all(self, texts: Sequence[str]) -> list[str]:
        """Many texts without secrets, at a fraction of what each takes by itself."""
        redactor = self.surroundings.redactor
        clean = (redactor.json(batch)[0] for batch in _batches(texts))
        return [text for batch in clean for text in cast("list[str]", batch)]


def _batches(texts: Iterable[str]) -> Iterator[list[JsonValue]]:
    """Texts in lists that are small enough for one of them to matter little to the others."""
    batch: list[JsonValue] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_recordings(
    root: Path,
    surroundings: Surroundings,
    looked_at: LookedAt | None = None,
    progress: Progress | None = None,
) -> Recordings:
    """Read a store. What is wrong with single files is noted, and the rest is there.

    Args:
        root: Where ``INDEX.toml`` stands.
        surroundings: What the user's settings say.
        looked_at: What is wanted; everything without it.
        progress: Called now and then with the number of recordings read so far, and of all.

    Raises:
        FixtureIntegrityFailed: The index itself cannot be trusted.
        UnknownRun: No run and no test has a wanted name.
        StoreIo: There is no such folder.
    """
    looked_at = looked_at or LookedAt()
    store, findings = open_in_part(root)
    calls: Sequence[HistoryCall] = read_calls(store, progress, damaged=findings, is_light=True).calls
    mcp_calls: Sequence[McpCall] = read_mcp_calls(store, damaged=findings)
    files = _Files(store, calls, mcp_calls)
    others = [*files.others(findings)]
    if looked_at.runs:
        every: list[HistoryCall | McpCall] = [*calls, *mcp_calls]
        chosen = choose_calls(every, looked_at.runs)
        calls = [call for call in chosen if isinstance(call, HistoryCall)]
        mcp_calls = [call for call in chosen if isinstance(call, McpCall)]
        scopes = {scope for call in chosen for scope in call.scopes}
        others = [other for other in others if scopes.intersection(other.scopes)]
    shown = {call.path for call in calls} | {call.path for call in mcp_calls}
    shown |= {other.file.path for other in others}
    return Recordings(
        store,
        surroundings,
        looked_at,
        tuple(calls),
        tuple(mcp_calls),
        tuple(others),
        {file.id: file for file in files.by_path.values() if file.path in shown},
        tuple(dict.fromkeys(f"{finding.path}: {finding.reason}" for finding in findings)),
    )


class _Files:
    """The files of a store, each once, whoever has it."""

    def __init__(self, store: Store, calls: Iterable[HistoryCall], mcp_calls: Iterable[McpCall]) -> None:
        self._store = store
        self.by_path: dict[str, RecordedFile] = {}
        self._read = {call.path for call in calls}
        servers = {call.path: call.server for call in mcp_calls}
        for stored in store.list(scoped=True):
            self._add("model", stored.model, stored.prompt_hash, stored.path, stored.blake3, stored.scope)
        for exchange in store.list_exchanges():
            server = servers.get(exchange.path)
            kind: Kind = "exchange" if server is None else "mcp"
            self._add(kind, server or "", exchange.key, exchange.path, exchange.blake3, exchange.scope)
        for row in store.list_failures():
            scope = getattr(row, "scope", "")
            self._add(
                "exchange",
                row.model or "",
                row.prompt_hash or "",
                row.path,
                row.blake3,
                scope,
                int(row.n or 0),
            )

    def _add(
        self, kind: Kind, who: str, key: str, path: str, blake3: str, scope: str, failure: int | None = None
    ) -> None:
        before = self.by_path.get(path)
        scopes = (scope,) if before is None else (*before.scopes, scope)
        self.by_path[path] = RecordedFile(call_id(path), kind, who, key, path, blake3, scopes, failure)

    def others(self, findings: list[Finding]) -> Iterator[OtherCall]:
        """What no call says; of broken files what is wrong with them."""
        for path, file in [*self.by_path.items()]:
            if path in self._read or file.kind == "mcp":
                continue
            try:
                if (other := self._other(file)) is not None:
                    self.by_path[path] = other.file
                    yield other
            except FixtureIntegrityFailed as error:
                findings += error.issues

    def _other(self, file: RecordedFile) -> OtherCall | None:
        if file.kind == "model":
            return _without_question(file, self._store.get(file.who, file.key, file.scopes[0]))
        if file.failure is not None:
            found = self._store.failures(file.who, file.key, file.scopes[0]).get(file.failure)
        else:
            found = self._store.exchange(file.key, file.scopes[0])
        return None if found is None else _of_exchange(file, found)


def _without_question(file: RecordedFile, fixture: Fixture) -> OtherCall:
    """A fixture that does not hold its request."""
    first = fixture.answers[0]
    return OtherCall(
        file,
        "",
        first.text,
        len(fixture.answers),
        _scopes_of(file, fixture.meta),
        tuple(("answer", answer.text) for answer in fixture.answers),
        tuple(answer.usage for answer in fixture.answers),
        times_of(first, fixture.meta or {})[0],
    )


def _of_exchange(file: RecordedFile, exchange: Exchange) -> OtherCall | None:
    request = exchange.request or {}
    if server_in(request) is not None:  # it was read as a call, or it is broken
        return None
    who = file.who or str(request.get("upstream", ""))
    what = f"{request.get('method', '')} {request.get('path', '')}".strip()
    if file.failure is not None:
        what = f"answer {file.failure} was an error"
    bodies = (("question", request.get("body")), ("answer", exchange.wire.get("body")))
    texts = [
        (where, body if isinstance(body, str) else compact(body))
        for where, body in bodies
        if body is not None
    ]
    return OtherCall(
        replace(file, who=who),
        what,
        f"status {exchange.wire.get('status')}" if "status" in exchange.wire else "messages both ways",
        len(exchange.wires),
        _scopes_of(file, exchange.meta),
        tuple(texts),
    )


def _scopes_of(file: RecordedFile, meta: Mapping[str, object] | None) -> tuple[str, ...]:
    return tuple(filter(None, scopes_with((meta or {}).get("scope"), file.scopes)))
