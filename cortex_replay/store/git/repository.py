"""The git repository that a store stands in."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from cortex_replay.disk import Closing
from cortex_replay.errors import Finding, StoreIo
from cortex_replay.store.elsewhere import Elsewhere
from cortex_replay.store.git.process import Blobs, GitProcess, TooLarge
from cortex_replay.store.index.index import Index
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.shards import join_shards
from cortex_replay.store.paths import INDEX_NAME, SHARDS_FOLDER, UNPRINTABLE, escape
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, MAX_INDEX_BYTES, Untrusted, trust_index, trust_shard

__all__ = ["Repository", "StoreAtCommit", "find_merge_base", "find_top", "is_tracked"]

_PLACE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""What git tells its hooks. All three may be relative to the folder that a hook starts in."""


class Repository(GitProcess):
    """Runs git at the top of the repository around a store, and names the store's files as git does."""

    def __init__(self, root: Path) -> None:
        """Find it.

        Raises:
            StoreIo: There is none, or it is not where it seems to be; or git cannot be run.
        """
        told = {name: os.path.abspath(value) for name in _PLACE if (value := os.environ.get(name))}  # noqa: PTH100
        if "GIT_DIR" in told:  # a hook starts at the top
            self.top = Path(told.get("GIT_WORK_TREE", "")).resolve()
        else:
            top = find_top(root.resolve())
            if top is None:
                raise StoreIo(f"{escape(str(root))}: not a git repository, nor is any folder above it")
            self.top = top
            index = told.get("GIT_INDEX_FILE")
            told = {}
            if index is not None and find_top(Path.cwd()) == top:  # else it is about another repository
                told["GIT_INDEX_FILE"] = index
            told["GIT_CEILING_DIRECTORIES"] = str(top.parent)  # it is found here, or not at all
        told["GIT_WORK_TREE"] = str(self.top)  # whatever `core.worktree` says
        super().__init__(self.top, told)
        try:
            prefix = PurePosixPath(root.resolve().relative_to(self.top).as_posix())
        except ValueError:
            raise StoreIo(
                f"the store {escape(str(root))} is not in the git repository {escape(str(self.top))}"
            ) from None
        self.prefix = "" if prefix == PurePosixPath() else f"{prefix}/"
        """What stands before a store's path in git's name for it."""

    def tracks(self, path: str) -> bool:
        """Whether git has staged ``path``, anything below it, or something in the place of a folder above.

        Letter case does not count: some file systems see none.
        """
        above = [str(folder) for folder in PurePosixPath(path).parents][:-1]
        listed = os.fsdecode(self.run("ls-files", "-z")).lower().split("\0")
        wanted, links = path.lower(), {folder.lower() for folder in above}
        return any(name == wanted or name.startswith(f"{wanted}/") or name in links for name in listed)

    def find_commit(self, reference: str) -> str:
        """The id of a commit that somebody named.

        Raises:
            StoreIo: There is no such commit.
        """
        if reference.startswith("-") or UNPRINTABLE.search(reference):
            raise StoreIo(f"{escape(reference)} names no commit")
        commit = self.run("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}", accept=(0, 1))
        if not commit.strip():
            raise StoreIo(f"git knows no commit {reference}")
        return commit.decode().strip()

    @property
    def has_head(self) -> bool:
        """Whether ``HEAD`` names anything: before the first commit of a branch it does not."""
        return bool(self.run("rev-parse", "--verify", "--quiet", "HEAD", accept=(0, 1)).strip())

    def files(self) -> list[str]:
        """The files that git has or would take, by their paths below the top; not those that it ignores."""
        listed = self.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [name for name in os.fsdecode(listed).split("\0") if name]


def is_tracked(root: Path, name: str) -> bool:
    """Whether git tracks ``name`` in the folder ``root``, anything below it, or something in its way.

    Where there is no repository, or no git, nothing is tracked.
    """
    try:
        repository = Repository(root)
        return repository.tracks(f"{repository.prefix}{name}")
    except StoreIo:
        return False


def find_merge_base(root: Path, one: str, other: str) -> str:
    """The id of the commit at which two commits parted.

    Raises:
        StoreIo: There is no such commit, or no repository; or the two have no commit in common.
    """
    repository = Repository(root)
    commits = [repository.find_commit(reference) for reference in (one, other)]
    # Both commits, and behind a ^ those at which they parted.
    found = repository.run("rev-parse", "...".join(commits)).decode().split()
    bases = [commit.removeprefix("^") for commit in found if commit.startswith("^")]
    if not bases:
        raise StoreIo(f"{one} and {other} have no commit in common; in a shallow clone, fetch more of it")
    return bases[0]


def find_top(start: Path) -> Path | None:
    """The top of the work tree around a folder: the nearest one with a ``.git``.

    Git itself would also take a folder for a repository that only looks like the inside of one.

    Raises:
        StoreIo: ``.git`` is a link or a file that leads into the work tree, where a commit can put anything.
    """
    for folder in (start, *start.parents):
        entry = folder / ".git"
        try:
            mode = entry.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode):
            inside = _target(entry)
        elif stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
            inside = Path(os.path.realpath(entry))
        else:
            continue
        if inside != entry and (inside.is_relative_to(folder) or _is_in_work_tree_above(folder, inside)):
            raise StoreIo(
                f"{escape(str(entry))} leads to {escape(str(inside))}, a part of the work tree; "
                "no clone has such a link, so whoever packed this may have planted it"
            )
        if stat.S_ISREG(mode) or inside.is_file() or _is_repository(inside):
            return folder
    return None


def _is_in_work_tree_above(folder: Path, inside: Path) -> bool:
    """Whether a repository around this one can bring it along; that of a submodule is in its ``.git``."""
    tops = [above for above in folder.parents if os.path.lexists(above / ".git")]
    own = [Path(os.path.realpath(top / ".git")) for top in tops]
    return any(map(inside.is_relative_to, tops)) and not any(map(inside.is_relative_to, own))


def _is_repository(folder: Path) -> bool:
    """Whether git may take it for one; else it looks further up."""
    return os.path.lexists(folder / "HEAD") and (
        ((folder / "objects").is_dir() and (folder / "refs").is_dir()) or (folder / "commondir").is_file()
    )


def _target(file: Path) -> Path:
    """Where the ``.git`` of a worktree or a submodule leads to."""
    with file.open("rb") as opened:
        first = opened.read(2**14)
    named = first.removeprefix(b"gitdir: ").rstrip(b"\r\n")
    if named == first.rstrip(b"\r\n") or b"\0" in named:
        raise StoreIo(f"{escape(str(file))} does not say where its repository is")
    return Path(os.path.realpath(file.parent / os.fsdecode(named)))


class StoreAtCommit(Closing):
    """A store as it was in another commit; to be closed by who reads single files.

    Raises:
        StoreIo: There is no such commit, or no repository.
    """

    def __init__(self, root: Path, reference: str) -> None:
        self._root = root
        self._reference = reference
        self._repository = Repository(root)
        self._commit = self._repository.find_commit(reference)
        self._names: dict[str, str] | None = None
        self._blobs: Blobs | None = None

    def index(self) -> Index:
        """Its index; empty if the store was not there.

        Raises:
            StoreIo: What the commit has is no index.
        """
        root = self.root_index()
        if not root.shards:
            return root
        files = self._blobs_below(SHARDS_FOLDER, is_deep=True)
        with self._repository.blobs() as blobs:
            try:
                shards = [
                    trust_shard(shard, self._read_index_file(blobs, files, shard.path))
                    for shard in root.shards
                ]
            except Untrusted as error:
                raise StoreIo(f"{error.finding.path} at {self._reference}: {error.finding.reason}") from None
        return join_shards(root, shards)

    def root_index(self) -> Index:
        """Its index as ``INDEX.toml`` has it: all rows, or the shards that have them.

        Raises:
            StoreIo: What the commit has is no index.
        """
        files = self._blobs_below(INDEX_NAME)
        if INDEX_NAME not in files:
            return Index()
        with self._repository.blobs() as blobs:
            try:
                return trust_index(self._read_index_file(blobs, files, INDEX_NAME))
            except Untrusted as error:
                raise StoreIo(f"{error.finding.path} at {self._reference}: {error.finding.reason}") from None

    def read_beside(self, name: str, max_bytes: int) -> bytes | None:
        """A file that stands beside the index; ``None`` if it was not there, or is too large."""
        files = self._blobs_below(name)
        with self._repository.blobs() as blobs:
            data = blobs.read(files[name], max_bytes) if name in files else None
        return data if isinstance(data, bytes) else None

    def _read_index_file(self, blobs: Blobs, files: dict[str, str], path: str) -> bytes:
        reference = self._reference
        if path not in files:
            raise StoreIo(f"{path} is not there at {reference}, although {INDEX_NAME} lists it")
        data = blobs.read(files[path], MAX_INDEX_BYTES)
        if data is None:
            how = f"in a partial clone, run: git cat-file -e {files[path]}"
            raise StoreIo(f"git has not got {path} of {reference}; {how}")
        if isinstance(data, TooLarge):
            raise StoreIo(f"{path} at {reference} is larger than {MAX_INDEX_BYTES} bytes")
        return data

    def read_many(self, files: Collection[NamedFile]) -> Iterator[tuple[str, bytes]]:
        """The content of files, from git or the remote of the store; one that neither has is left out."""
        if not files:
            return
        names = self._all_names()
        missing: list[NamedFile] = []
        with self._repository.blobs() as blobs:
            for file in files:
                path = file.path
                data = blobs.read(names[path], MAX_FIXTURE_BYTES) if path in names else None
                if isinstance(data, bytes):
                    yield path, data
                elif path not in names:
                    missing.append(file)
        elsewhere = Elsewhere(self._root)
        for file, found in elsewhere.get_many(missing) if missing and elsewhere else ():
            if isinstance(found, bytes):
                yield file.path, found

    def read(self, file: NamedFile) -> bytes:
        """The content of one file, from git or the remote of the store.

        Raises:
            Untrusted: Neither has it.
        """
        name = self._all_names().get(file.path)
        if self._blobs is None:
            self._blobs = self._repository.blobs()
        data = self._blobs.read(name, MAX_FIXTURE_BYTES) if name is not None else None
        if isinstance(data, bytes):
            return data
        if name is None and (elsewhere := Elsewhere(self._root)):
            found = elsewhere.get(file)
            if isinstance(found, bytes):
                return found
            raise Untrusted(found)
        raise Untrusted(Finding("missing", escape(file.path), f"is not in {self._reference}"))

    def close(self) -> None:
        """End the process that reads single files."""
        if self._blobs is not None:
            self._blobs.close()
            self._blobs = None

    def _all_names(self) -> dict[str, str]:
        if self._names is None:
            self._names = self._blobs_below("", is_deep=True)
        return self._names

    def _blobs_below(self, path: str, *, is_deep: bool = False) -> dict[str, str]:
        """The plain files at a path of the store, or anywhere below it, and git's names for their content."""
        prefix = self._repository.prefix
        below = ["--", f"{prefix}{path}"] if f"{prefix}{path}" else []
        listed = self._repository.run("ls-tree", "-z", *(["-r"] if is_deep else []), self._commit, *below)
        found: dict[str, str] = {}
        for line in os.fsdecode(listed).split("\0"):
            head, _, name = line.partition("\t")
            mode, kind, blob = head.split() or ("", "", "")
            if kind == "blob" and mode.startswith("100"):
                found[name.removeprefix(prefix)] = blob
        return found
