"""The changes of one open store that wait for a commit: in memory, and their answers in staging.

An answer is written where it survives this process, outside ``fixtures/`` and outside git. What a dead
process staged can be adopted: it is checked like any other answer, and then waits here, for the scope that it
names itself. What else belongs to answers (:mod:`.notes`) is staged beside them, and so are further answers
to a key (:mod:`.growing`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.changes import Add, Pin, Remove, new_exchange, new_fixture
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.growing import Growing, base_and_place
from cortex_replay.store.index.index import ContentKey, content_key
from cortex_replay.store.lock import LockedStore, lock_store, staged_kind
from cortex_replay.store.marks import user_marker
from cortex_replay.store.notes import NOTE_KIND, parse_note, render_note
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.staging import FORM, Session, Staging
from cortex_replay.store.trust import Layout, Untrusted

__all__ = ["PendingChanges"]

_FIXTURE_MODE: Final = 0o644
_LOST: Final = "the disk lost a staged answer; record it again"


class PendingChanges:
    """What was staged and not committed. Makes nothing on disk before the first answer."""

    def __init__(self, source: DirectorySource, layout: Layout) -> None:
        self.session: Session | None = None
        """Where the answers wait."""
        self._source = source
        self._layout = layout
        self._staged: list[Growing] = []
        """Each change, with the name of its answer in staging."""
        self._count = 0
        """How often something was staged."""
        self._removed: dict[tuple[ContentKey, str], int] = {}
        """By key and scope, when all that is there was to go."""
        self._doubtful: set[str] = set()
        """Staged files whose last ``fsync`` is not known to have succeeded."""

    def __bool__(self) -> bool:
        return bool(self._staged)

    @property
    def changes(self) -> list[Add | Remove | Pin]:
        """The changes in the order in which they were staged."""
        return [staged.change for staged in self._staged]

    @property
    def names(self) -> dict[str, str]:
        """By path, what each answer is called in staging."""
        return {one.change.row.path: one.name for one in self._staged if isinstance(one.change, Add)}

    def stage(self, change: Add | Remove | Pin, data: bytes = b"") -> Growing:
        """Remember a change, and write its answer; gives what further answers may come to."""
        name = ""
        if isinstance(change, Add):
            kind = staged_kind(change.row.path, self._layout, change.overwrite)
            name = self._open_session().write(data, kind)
        elif isinstance(change, Pin) or change.is_kept:
            name = self._open_session().write(render_note(change), NOTE_KIND)
        self._count += 1
        staged = Growing(change, name, self._count, len(data), session=self.session)
        self._staged.append(staged)
        if isinstance(change, Remove):
            self._removed[change.key, change.scope] = self._count
        return staged

    def withdraw(self, staged: Growing, heir: Growing) -> None:
        """Drop something staged, with its files, for what says all of it anew: a secret may be in the old."""
        if not self.has(staged):
            return
        if isinstance(heir.change, Add) and not heir.change.overwrite:
            heir.order = staged.order  # the first to record an answer owns it
        staged.session, staged.is_withdrawn = None, True
        for name in (staged.name, *(piece.name for piece in staged.pieces)):
            with suppress(OSError):
                self._open_session().folder.unlink(name)

    def grow(self, staged: Growing, place: int, data: bytes) -> bool:
        """Write a further answer of something staged; whether that can get it.

        Args:
            staged: As :meth:`stage` gave it.
            place: Which answer it is.
            data: A fixture with this answer alone.
        """
        if not self.has(staged) or not staged.takes(place, len(data)):
            return False
        name = self._open_session().write(data, staged.kind(place))
        self._count += 1
        staged.take(place, name, data, self._count)
        return True

    def has(self, staged: Growing) -> bool:
        """Whether an answer that was staged still waits here: it is not committed or dropped, no removal came
        after it, and it was not staged before a fork."""
        change = staged.change
        if staged.session is None or staged.session is not self.session or not isinstance(change, Add):
            return False
        return self._removed.get((content_key(change.row), change.scope), 0) < staged.order

    def join(self) -> None:
        """Put answers together that came one by one; from then on, their change is staged in one file."""
        self._staged = [staged for staged in self._staged if not staged.is_withdrawn]
        self._staged.sort(key=lambda staged: staged.order)
        if (session := self.session) is None:
            return

        def read(name: str, digest: str) -> bytes:
            data = session.folder.read(name)
            if blake3_hex(data) != digest:
                raise StoreIo(_LOST)
            return data

        for staged in self._staged:
            if staged.pieces:
                whole, data = staged.joined(self._layout, read)
                kind = staged_kind(whole.row.path, self._layout, whole.overwrite)
                # The pieces stay until the commit is made: the whole may not be written to its end.
                staged.become(whole, session.write(data, kind), len(data))

    def _open_session(self) -> Session:
        if self.session is None:
            with lock_store(self._source, self._layout) as store:
                self.session = store.open_session()
        return self.session

    def adopt(self, store: LockedStore) -> int:
        """Stage what dead sessions hold, and remove them; gives the number of answers."""
        adopted = 0
        staging = Staging.of(store.state, user_marker())
        if staging is None:
            return 0
        with staging:
            dead = staging.dead_sessions()
            if dead and self.session is None:
                self.session = store.open_session()
            for session in dead:
                by_number: dict[str, Growing] = {}
                adopted += sum(self._adopt(by_number, *answer) for answer in staging.answers(session))
                staging.remove(session)
        return adopted

    def _adopt(self, by_number: dict[str, Growing], number: str, kind: str, data: bytes) -> bool:
        """Stage one file of a dead session; whether it is an answer that we can read."""
        if (further := base_and_place(kind)) is not None:
            base, place = by_number.get(further[0]), further[1]
            return base is not None and self.grow(base, place, data)
        if kind == NOTE_KIND:
            if (note := parse_note(data)) is not None:
                self.stage(note)
            return False
        layout, overwrite = self._layout, kind.startswith("replace")
        change: Add
        try:
            # Whatever was committed since then has been seen by somebody, so it stays; this has not.
            if kind.endswith("-exchange"):
                change = new_exchange(
                    layout, parse_exchange(data), data, overwrite=overwrite, keep_existing=True
                )
            else:
                key = parse_fixture(data).key
                change = new_fixture(layout, key, data, overwrite=overwrite, keep_existing=True)
        except (Untrusted, FixtureError):
            return False  # of another version, perhaps
        by_number[number] = self.stage(replace(change, scope=change.said.owner), data)
        return True

    def sync(self) -> None:
        """Make every staged file durable, with the permissions that it will have in its place.

        A file whose ``fsync`` failed is written anew at the next attempt: the system may have dropped
        its pages and would call a second ``fsync`` of it a success.
        """
        mode = self._fixture_mode()
        for staged in self._staged:
            if not isinstance(staged.change, Add) or self.session is None:
                continue  # a note needs not outlive the commit that it is part of
            if staged.name in self._doubtful:
                staged.name = self._write_anew(self.session, staged.change, staged.name)
            self._doubtful.add(staged.name)
            self.session.folder.sync_file(staged.name, mode)
            self._doubtful.discard(staged.name)

    def write_forms(self, store: LockedStore, files: Mapping[str, bytes]) -> dict[str, str]:
        """Write what a commit makes of answers, durably; gives, by path, what each is called in staging."""
        if not files:
            return {}
        if self.session is None:
            self.session = store.open_session()
        mode = self._fixture_mode()
        names = {path: self.session.write(data, FORM) for path, data in files.items()}
        for name in names.values():
            self.session.folder.sync_file(name, mode)
        return names

    def _fixture_mode(self) -> int:
        """Who may read the index may read the answers."""
        try:
            return (self._source.root / INDEX_NAME).lstat().st_mode & 0o666 | 0o600
        except OSError:
            return _FIXTURE_MODE

    def _write_anew(self, session: Session, change: Add, name: str) -> str:
        data = session.folder.read(name)
        if blake3_hex(data) != change.row.blake3:
            raise StoreIo(_LOST)
        new_name = session.write(data, name.rpartition(".")[2])
        session.folder.unlink(name)
        self._doubtful.discard(name)
        return new_name

    def forget(self, names: Collection[str]) -> None:
        """Forget the answers of these names."""
        for staged in self._staged:
            if staged.name in names:
                staged.session = None
        self._staged = [staged for staged in self._staged if staged.name not in names]

    def discard(self) -> None:
        """Forget all changes and remove their answers."""
        if session := self._release():
            session.close()

    def abandon(self) -> None:
        """Forget all changes and leave their answers to whoever adopts them."""
        if session := self._release():
            session.abandon()

    def _release(self) -> Session | None:
        session, self.session = self.session, None
        for staged in self._staged:
            staged.session = None
        self._staged.clear()
        self._removed.clear()
        self._doubtful.clear()
        return session
