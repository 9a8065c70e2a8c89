"""The store as git would commit it: what is staged, not what lies in the working tree.

"Green here, red in CI" is nearly always a fixture that the index lists and git does not have,
because nobody added it or because an ignore rule hides it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cortex_replay.disk import Closing
from cortex_replay.errors import Finding
from cortex_replay.store import hints
from cortex_replay.store.check import CheckReport, Note, check_store, forget
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.elsewhere import Elsewhere, is_missing
from cortex_replay.store.git.process import Blobs, TooLarge
from cortex_replay.store.git.repository import Repository
from cortex_replay.store.index.named_file import File, NamedFile
from cortex_replay.store.index.shard_reading import read_root, try_shards
from cortex_replay.store.paths import INDEX_NAME, escape, path_problem
from cortex_replay.store.source import Listing
from cortex_replay.store.trust import Untrusted

__all__ = ["check_staged", "open_staging"]

_FILE_MODE = "100"
_LACKING = ("missing", "index-unreadable")


def check_staged(root: Path, note: Note = forget) -> CheckReport:
    """Check what git has staged of the store, and that it has every file the index lists.

    The index in the working tree counts too: what it lists and git does not have is about to be
    forgotten, even if that index is not staged yet.

    Args:
        root: Of the store.
        note: Gets each trusted recording with its path; perhaps more than once.

    Raises:
        StoreIo: ``root`` is not in a git repository, or git cannot be run.
    """
    working = DirectorySource(root)
    with _GitStaging(working.root) as staged:
        return _check(staged, working, note)


def open_staging(root: Path) -> _GitStaging:
    """What git has staged of the store, to be read; to be closed.

    Raises:
        StoreIo: ``root`` is not in a git repository, or git cannot be run.
    """
    return _GitStaging(root.resolve())


def _check(staged: _GitStaging, working: DirectorySource, note: Note) -> CheckReport:
    report = check_store(staged, note=note)
    known = {finding.path for finding in report.findings} | report.elsewhere | staged.tracked
    listed = [row for row in _working_rows(working) if path_problem(row.path) is None]
    unstaged = [row for row in listed if row.path not in known]
    if unstaged and staged.elsewhere:
        lost = staged.elsewhere.lacking(unstaged)
        unstaged = [row for row in unstaged if row.blake3 in lost]
    report.findings += [Finding("missing", path, "") for path in sorted({row.path for row in unstaged})]
    lacking = [
        finding.path
        for finding in report.findings
        if finding.code in _LACKING and path_problem(finding.path) is None
    ]
    ignored = staged.ignore_rules(lacking)
    report.findings = [_explain(finding, staged, ignored) for finding in report.findings]
    return report


def _working_rows(working: DirectorySource) -> list[NamedFile]:
    """The files that the index in the working tree lists, its shards among them."""
    with suppress(Untrusted):
        index = read_root(working)[0]
        if index.shards:
            index = try_shards(working, index)[0]
        return [*index.rows, *index.shards]
    return []


def _explain(finding: Finding, staged: _GitStaging, ignored: dict[str, str]) -> Finding:
    if finding.path in staged.tracked or finding.code not in _LACKING:
        return finding
    what = "" if finding.path == INDEX_NAME else "is listed, but "
    name = shlex.quote(staged.name_in_repository(finding.path))
    name = f"./{name}" if name.startswith("-") else name
    remote = staged.elsewhere.remote
    if remote is not None and finding.path != INDEX_NAME:
        reason = f"is neither staged nor pushed to {remote.url}, so a clone will lack it"
        if not staged.is_in_working_tree(finding.path):
            return replace(finding, reason=finding.reason or reason)
        hint = "cortex-replay push"
        if remote.keep != "remote":
            hint += f", or git add {name}"
        return replace(finding, code="untracked", reason=reason, hint=hint)
    if rule := ignored.get(finding.path):
        reason = f"{what}git ignores it ({rule}), so a clone will lack it"
        return replace(
            finding, code="ignored", reason=reason, hint=f"git add --force {name}, or drop the rule"
        )
    reason = f"{what}git does not track it, so a clone will lack it"
    hint = f"git add {name}" if staged.is_in_working_tree(finding.path) else hints.MISSING
    return replace(finding, code="untracked", reason=reason, hint=hint)


class _GitStaging(Closing):
    """Git's own index (the staging area), read as a store."""

    def __init__(self, root: Path) -> None:
        self._repository = Repository(root)
        self._blobs = self._repository.blobs()
        self.elsewhere = Elsewhere(root)
        self._prefix = self._repository.prefix
        self._entries: dict[str, tuple[str, str]] = {}
        self._unmerged: set[str] = set()
        listing = self._repository.run("ls-files", "--stage", "-z", "--", self._prefix or ".")
        for line in os.fsdecode(listing).split("\0"):
            head, _, path = line.partition("\t")
            if path:
                mode, blob, stage = head.split()
                path = path.removeprefix(self._prefix)
                self._entries[path] = (mode, blob)
                if stage != "0":
                    self._unmerged.add(path)

    @property
    def tracked(self) -> set[str]:
        return set(self._entries)

    def name_in_repository(self, path: str) -> str:
        """A path of the store as git knows it from the top of its repository."""
        return f"{self._prefix}{path}"

    def is_in_working_tree(self, path: str) -> bool:
        """Whether the file is there to be added."""
        return (self._repository.top / self.name_in_repository(path)).exists()

    def ignore_rules(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of ``paths`` that an ignore rule hides, with the rule; git may know of none."""
        asked = "".join(f"{self._prefix}{path}\0" for path in paths).encode(errors="surrogateescape")
        # 1 says that none is ignored, 128 that one of them stands beyond a link or a submodule.
        answer = self._repository.run(
            "check-ignore", "--verbose", "-z", "--stdin", given=asked, accept=(0, 1, 128)
        )
        fields = os.fsdecode(answer).split("\0")
        return {
            path.removeprefix(self._prefix): f"{origin}:{line}: {pattern}"
            for origin, line, pattern, path in zip(*[iter(fields)] * 4, strict=False)
            if not pattern.startswith("!")  # a rule that says not to ignore it
        }

    def has_folder(self, name: str) -> bool:
        """Whether anything below this folder is staged."""
        return any(path.startswith(f"{name}/") for path in self._entries)

    def list_files(self, folder: str) -> Listing:
        """What is staged below ``folder``."""
        listing = Listing()
        for path in self._entries:
            if folder and not path.startswith(f"{folder}/"):
                continue
            if finding := self._obstacle_at(path):
                listing.findings.append(finding)
            else:
                listing.files.add(path)
        return listing

    def _obstacle_at(self, path: str) -> Finding | None:
        """What is staged in the place of a plain file."""
        if path in self._unmerged:
            return Finding("not-a-file", escape(path), "has an unresolved merge conflict", hints.CONFLICT)
        if not self._entries[path][0].startswith(_FILE_MODE):
            return Finding("not-a-file", escape(path), "is a link or a submodule")
        return None

    def read(self, path: str, max_bytes: int) -> bytes | Finding:
        """The staged content of one file."""
        return self._content(self._blobs, path, max_bytes)

    def close(self) -> None:
        """End the process that reads single files: parents of requests, shards."""
        self._blobs.close()

    def read_listed(self, file: NamedFile, max_bytes: int) -> bytes | Finding:
        """The staged content of a file that a row names; what is not staged may be in the remote."""
        data = self.read(file.path, max_bytes)
        return self.elsewhere.get(file) if is_missing(data) and self.elsewhere else data

    def read_journal(self) -> bytes:
        """Nothing: what git has staged, no writer moves."""
        return b""

    def read_waiting(self, digest: str) -> bytes:  # noqa: ARG002
        """Nothing, likewise."""
        return b""

    def read_many(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        """The staged content of many files, from one git process; what is not staged, from the remote."""
        return self.elsewhere.complete(self._read_staged(files, max_bytes))

    def _read_staged(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        with self._repository.blobs() as blobs:
            for file in files:
                yield file, self._content(blobs, file.path, max_bytes)

    def _content(self, blobs: Blobs, path: str, max_bytes: int) -> bytes | Finding:
        if path not in self._entries:
            return Finding("missing", escape(path), "is listed but not staged")
        return self._obstacle_at(path) or _content(blobs, self._entries[path][1], path, max_bytes)


def _content(blobs: Blobs, blob: str, path: str, max_bytes: int) -> bytes | Finding:
    data = blobs.read(blob, max_bytes)
    if data is None:
        return Finding("unreadable", escape(path), "git has no content for what is staged")
    if isinstance(data, TooLarge):
        return Finding("too-large", escape(path), f"larger than {max_bytes} bytes")
    return data
