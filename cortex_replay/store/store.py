"""The store as the rest of the package sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from cortex_replay.errors import FixtureIntegrityFailed, NoFixture
from cortex_replay.store.check import Progress, check_listing, check_store, read_fixture
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Fixture, FixtureKey, parse_fixture
from cortex_replay.store.index import FixtureRow
from cortex_replay.store.trusted import Layout, Untrusted
from cortex_replay.types import LlmRequest

__all__ = ["Store", "StoredFixture", "Verify"]

Verify = Literal["full", "on-read"]


class StoredFixture(NamedTuple):
    """A fixture's place in the store."""

    model: str
    prompt_hash: str
    path: str
    blake3: str


class Store:
    """A trusted set of fixtures, opened once and read-only.

    It is a class because trust is a property of the set: a fixture is only handed out by a store
    whose index and listing were whole when it was opened, and only from bytes whose hash is the
    index's. With ``verify="full"`` those bytes are read at opening and kept, so nothing that
    happens on disk later can change an answer.
    """

    def __init__(
        self,
        source: DirectorySource,
        layout: Layout,
        rows: dict[FixtureKey, FixtureRow],
        contents: dict[str, bytes],
    ) -> None:
        self.root: Path = source.root
        """Where ``INDEX.toml`` stands."""
        self.layout: Layout = layout
        """Where the files stand."""
        self._source = source
        self._rows = rows
        self._contents = contents
        self._parsed: dict[FixtureKey, Fixture] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: Verify = "full",
        progress: Progress | None = None,
    ) -> Store:
        """Open the store whose ``INDEX.toml`` stands in ``path``.

        Args:
            path: The store's root, in either layout.
            verify: ``"full"`` checks everything now. ``"on-read"`` checks the index and the
                listing now and each file when it is first served; it is as strict for what is
                served, and opens a large store much faster. An index without keys, as ``crtx-llm``
                writes it, can only be opened in full.
            progress: Called now and then with the number of files checked so far, and of all.

        Raises:
            FixtureIntegrityFailed: The store is not what its index says.
            StoreIo: There is no such folder.
        """
        if verify not in ("full", "on-read"):
            raise ValueError(f'verify is "full" or "on-read", not {verify!r}')
        source = DirectorySource(Path(path))
        rows: dict[FixtureKey, FixtureRow] = {}
        contents: dict[str, bytes] = {}

        def keep(row: FixtureRow, fixture: Fixture, data: bytes) -> None:
            rows[fixture.key] = row
            contents[row.path] = data

        report = check_listing(source) if verify == "on-read" else None
        if report is None or (report.is_trusted and not report.has_keys):
            report = check_store(source, keep=keep, progress=progress)
        else:
            for row in report.index.fixtures:
                if row.model is not None and row.prompt_hash is not None:
                    rows[FixtureKey(row.model, row.prompt_hash)] = row
        if not report.is_trusted:
            raise FixtureIntegrityFailed(report.findings)
        return cls(source, report.layout, rows, contents)

    def key(self, request: LlmRequest) -> FixtureKey:
        """What ``request`` is looked up by. Every lookup goes through here."""
        return FixtureKey(request.model, request.prompt_hash())

    def get(self, model: str, prompt_hash: str) -> Fixture:
        """The trusted fixture of a key.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        key = FixtureKey(model, prompt_hash)
        fixture = self._parsed.get(key)
        if fixture is None:
            fixture = self._parsed[key] = self._trusted(key)[0]
        return fixture

    def list(self) -> list[StoredFixture]:
        """Every fixture's key and place, sorted by path."""
        return sorted(
            (StoredFixture(*key, row.path, row.blake3) for key, row in self._rows.items()),
            key=lambda stored: stored.path,
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Store({os.fspath(self.root)!r}, {len(self)} fixtures)"

    def content(self, model: str, prompt_hash: str) -> bytes:
        """The trusted bytes of a key's file, exactly as they are stored.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        return self._trusted(FixtureKey(model, prompt_hash))[1]

    def _trusted(self, key: FixtureKey) -> tuple[Fixture, bytes]:
        row = self._rows.get(key)
        if row is None:
            raise NoFixture(*key)
        if (data := self._contents.get(row.path)) is not None:
            return parse_fixture(data), data
        try:
            return read_fixture(self._source, row)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
