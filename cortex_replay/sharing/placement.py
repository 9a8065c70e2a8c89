"""What stands in the work tree, and what does not: moving files to where the setting ``keep`` says.

A file leaves the work tree only after its object was read back from the bucket and had the hash of its row.
Each file moves by itself: an interrupted move is finished by the next one, and a reader finds every file at
every instant, here or there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cortex_replay.config.remote import Keep
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store import hints
from cortex_replay.store.files import is_fixture_path
from cortex_replay.store.index.index import Row
from cortex_replay.store.lock import lock_store
from cortex_replay.store.state import translate_errors
from cortex_replay.store.trust import MAX_FIXTURE_BYTES

__all__ = ["Move", "plan_move", "plan_move_out"]

_BATCH = 256


@dataclass(slots=True)
class Move:
    """Files that do not stand where they are kept."""

    store: SharedStore
    out: list[Row] = field(default_factory=list)
    """To leave the work tree."""
    into: list[Row] = field(default_factory=list)
    """To come into it."""

    def apply(self, progress: Progress | None = None) -> None:
        """Move them. The objects were pushed before.

        Raises:
            FixtureIntegrityFailed: An object is not there, or is not what the index says; its file stays.
            StoreIo: The disk or the bucket refuses.
        """
        findings = [*self._move_out(progress), *self._move_in()]
        if findings:
            raise FixtureIntegrityFailed(sorted(findings, key=lambda finding: finding.path))

    def _move_out(self, progress: Progress | None) -> Iterator[Finding]:
        """Read each object back, then let its file go."""
        by_digest: dict[str, list[Row]] = {}
        for row in self.out:
            by_digest.setdefault(row.blake3, []).append(row)
        right: list[Row] = []
        for digest, found in self.store.remote.fetch(list(by_digest), progress, fresh=True):
            rows = by_digest[digest]
            if isinstance(found, bytes):
                right += rows
            else:
                yield from (Finding("missing", row.path, f"stays here: {found.reason}") for row in rows)
            if len(right) >= _BATCH:
                yield from self._let_go(right)
                right = []
        yield from self._let_go(right)

    def _let_go(self, rows: list[Row]) -> Iterator[Finding]:
        """Remove files that are what the index says; one that was changed by hand stays: it is work."""
        store = self.store
        with translate_errors(), lock_store(store.source, store.layout) as locked:
            locked.recover()
            gone: list[str] = []
            for row in rows:
                data = store.source.read(row.path, MAX_FIXTURE_BYTES)
                if isinstance(data, bytes) and blake3_hex(data) != row.blake3:
                    reason = "stays here: its bytes differ from the index"
                    yield Finding("mismatch", row.path, reason, hints.for_mismatch(row, data))
                elif isinstance(data, bytes):
                    gone.append(row.path)
            locked.remove_files(gone)

    def _move_in(self) -> Iterator[Finding]:
        store = self.store
        batch: dict[str, bytes] = {}
        for row, found in store.source.elsewhere.get_many(self.into):
            if isinstance(found, Finding):
                yield found
                continue
            batch[row.path] = found
            if len(batch) >= _BATCH:
                self._put(batch)
                batch = {}
        self._put(batch)

    def _put(self, files: dict[str, bytes]) -> None:
        store = self.store
        if files:
            with translate_errors(), lock_store(store.source, store.layout) as locked:
                locked.recover()
                for path, data in files.items():
                    locked.put_file(path, data)


def plan_move(store: SharedStore, keep: Keep) -> Move:
    """Which files do not stand where they are to be kept.

    Raises:
        StoreIo: The bucket cannot be asked how large its objects are.
    """
    rows = [row for row in store.files if is_fixture_path(row.path, store.layout)]
    here = [row for row in rows if row.path not in store.elsewhere]
    there = [row for row in rows if row.path in store.elsewhere]
    if keep == "git":
        return Move(store, [], there)
    if keep == "remote":
        return Move(store, here, [])
    large = store.remote.large
    sizes = store.remote.sizes({row.blake3 for row in there})
    return Move(
        store,
        [row for row in here if _size_of(store, row) >= large],
        [row for row in there if sizes.get(row.blake3, large) < large],
    )


def plan_move_out(store: SharedStore) -> Move:
    """Which files stand in the work tree and are kept in the bucket."""
    return Move(store) if store.remote.keep == "git" else Move(store, plan_move(store, store.remote.keep).out)


def _size_of(store: SharedStore, row: Row) -> int:
    try:
        return (store.source.root / row.path).lstat().st_size
    except OSError:
        return 0  # it is read when it is moved, and not before
