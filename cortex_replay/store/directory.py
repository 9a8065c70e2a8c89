"""The store on disk, to be read.

Every component of a path is opened relative to the folder above it, without following links and
without blocking (:mod:`cortex_replay.disk`), so that neither a link nor a named pipe that appears
between two steps can lead a reader astray.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cortex_replay.disk import Folder, absolute_path, anchor_of
from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.store import hints
from cortex_replay.store.elsewhere import Elsewhere, is_missing
from cortex_replay.store.index.named_file import File, NamedFile
from cortex_replay.store.journal import JOURNAL_NAME, MAX_JOURNAL_BYTES, STATE_FOLDER, WAITING_FOLDER
from cortex_replay.store.paths import MAX_INDEX_BYTES, escape, is_fixture_name
from cortex_replay.store.source import Listing

__all__ = ["DirectorySource"]

_NOT_OURS: Final = frozenset({".git", STATE_FOLDER})
"""At the root of a flat store, what belongs to git and to writers is no part of it."""
_FIRST_READ: Final = 16 * 1024
_MAX_FOLDER_DEPTH: Final = 64


class DirectorySource:
    """A store's root folder."""

    def __init__(self, root: Path, *, is_new: bool = False) -> None:
        """Find the folder.

        Args:
            root: Where the index stands.
            is_new: Whether there is no store yet, and the first change makes it.

        Raises:
            FixtureIntegrityFailed: It is something else.
            StoreIo: There is no such folder.
        """
        self.is_new = is_new
        self.path = absolute_path(root)
        """As it was named: a writer goes this way, and follows no link from the anchor on."""
        try:
            self.root = self.path.resolve(strict=not is_new)  # of the same name: ``..`` means to all the same
        except (OSError, RuntimeError, ValueError) as error:
            raise StoreIo(f"the store {root} cannot be opened: {_reason(error)}") from None
        if not self.root.is_dir() and not (is_new and not os.path.lexists(self.root)):
            reason = "is no folder; a store is a folder with an INDEX.toml in it"
            finding = Finding("index-unreadable", escape(str(root)), reason, hints.NO_INDEX)
            raise FixtureIntegrityFailed([finding])
        self.anchor = anchor_of(root)
        self.elsewhere = Elsewhere(self.root)
        """Where files are had that are not here."""

    def has_folder(self, name: str) -> bool:
        """Whether a real folder of this name stands at the root."""
        try:
            return stat.S_ISDIR(os.lstat(self.root / name).st_mode)
        except OSError:
            return False

    def list_files(self, folder: str) -> Listing:
        """Every plain file below ``folder``, hidden ones too."""
        listing = Listing()
        try:
            with self._folder(folder) as opened:
                _walk(opened, f"{folder}/" if folder else "", listing, 0)
        except FileNotFoundError:
            pass  # then each listed file is missing, and is reported as such
        except OSError as error:
            listing.findings.append(_finding_of(folder, error))
        return listing

    def read(self, path: str, max_bytes: int) -> bytes | Finding:
        """The whole content of one file, read until its end."""
        folder, _, name = path.rpartition("/")
        try:
            with self._folder(folder) as opened:
                return _read_to_the_end(opened.open_file(name), path, max_bytes)
        except (OSError, UnicodeError) as error:
            return _finding_of(path, error)

    def read_listed(self, file: NamedFile, max_bytes: int) -> bytes | Finding:
        """The same of a file that a row names; where it is not here, from the remote of the store."""
        data = self.read(file.path, max_bytes)
        return self.elsewhere.get(file) if is_missing(data) and self.elsewhere else data

    def read_journal(self) -> bytes:
        """The journal; nothing where there is none, or where the state folder is not this user's."""
        try:
            with self._folder(STATE_FOLDER) as state:
                return state.read(JOURNAL_NAME, MAX_JOURNAL_BYTES) if state.is_ours else b""
        except OSError:
            return b""

    def read_waiting(self, digest: str) -> bytes:
        """A shard that a commit has not put in its place yet; nothing where none is."""
        try:
            with self._folder(f"{STATE_FOLDER}/{WAITING_FOLDER}") as waiting:
                return waiting.read(digest, MAX_INDEX_BYTES + 1) if waiting.is_ours else b""
        except OSError:
            return b""

    def read_many(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        """The content of many files, one system call each where they are small; those that are not here are
        fetched together, at the end.

        A small file comes whole with the first read on every local file system. If it ever does
        not, its hash is wrong and the caller asks :meth:`read_listed`.
        """
        return self.elsewhere.complete(self._read_here(files, max_bytes))

    def read_near(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        """As :meth:`read_many`, but nothing is fetched: what is neither here nor in the cache is missing."""
        for file, data in self._read_here(files, max_bytes):
            if isinstance(data, bytes) or not is_missing(data) or not self.elsewhere:
                yield file, data
            else:
                cached = self.elsewhere.get_cached(file)
                yield file, data if cached is None else cached

    def _read_here(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        opened: Folder | None = None
        current: str | None = None
        try:
            for file in files:
                path = file.path
                folder, _, name = path.rpartition("/")
                try:
                    if opened is None or folder != current:
                        if opened is not None:
                            opened.close()
                        opened, current = None, folder
                        opened = self._folder(folder)
                    data = opened.read_start(name, _FIRST_READ)
                except (OSError, UnicodeError) as error:
                    yield file, _finding_of(path, error)
                    continue
                yield file, data if len(data) < _FIRST_READ else self.read(path, max_bytes)
        finally:
            if opened is not None:
                opened.close()

    def _folder(self, below: str) -> Folder:
        with Folder.at(self.root) as root:
            return root.below(below)


def _walk(folder: Folder, prefix: str, listing: Listing, depth: int) -> None:
    files, findings = listing.files, listing.findings
    for entry in folder.entries():
        path = prefix + entry.name
        if path in _NOT_OURS:
            continue
        if entry.is_file(follow_symlinks=False):
            if entry.name.isascii() or _is_text(entry.name):
                files.add(path)
            elif is_fixture_name(entry.name):
                findings.append(
                    Finding("unlisted", escape(path), "its name is not UTF-8, so nothing can list it")
                )
        elif not entry.is_dir(follow_symlinks=False):
            kind = "a link" if entry.is_symlink() else "neither a file nor a folder"
            findings.append(
                Finding("not-a-file", escape(path), f"is {kind}; only plain files may stand here")
            )
        elif is_fixture_name(entry.name):
            findings.append(Finding("not-a-file", escape(path), "is a folder with the name of a fixture"))
        elif depth == _MAX_FOLDER_DEPTH:
            findings.append(Finding("not-a-file", escape(path), f"folders are nested deeper than {depth}"))
        else:
            try:
                with folder.folder(entry.name) as child:
                    _walk(child, f"{path}/", listing, depth + 1)
            except OSError as error:
                findings.append(_finding_of(path, error))


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_to_the_end(descriptor: int, path: str, max_bytes: int) -> bytes | Finding:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Finding("not-a-file", escape(path), "is not a plain file")
        if status.st_size > max_bytes:
            return Finding("too-large", escape(path), f"larger than {max_bytes} bytes")
        blocks = []
        left = max_bytes + 1  # it may grow while it is read
        while left > 0 and (block := os.read(descriptor, min(left, 2**20))):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)
    finally:
        os.close(descriptor)


def _finding_of(path: str, error: OSError | UnicodeError) -> Finding:
    if isinstance(error, UnicodeError):  # a locale that cannot spell it
        return Finding("unreadable", escape(path), "has a name that the locale's encoding cannot spell")
    if error.errno == errno.ENOENT:
        return Finding("missing", escape(path), "is not there")
    if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR):
        return Finding(
            "not-a-file", escape(path), "is a link, a folder or a special file, or stands below one"
        )
    return Finding("unreadable", escape(path), f"cannot be read: {_reason(error)}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
