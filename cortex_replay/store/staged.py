"""The store as git would commit it: what is staged, not what lies in the working tree.

"Green here, red in CI" is nearly always a fixture that the index lists and git does not have,
because nobody added it or because an ignore rule hides it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from cortex_replay.errors import Finding, StoreIo
from cortex_replay.store.check import CheckReport, check_listing, check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.source import Listing

__all__ = ["check_staged"]

_LINK_MODE = "120000"


def check_staged(root: Path) -> CheckReport:
    """Check what git has staged of the store, and that it has every file the index lists.

    Raises:
        StoreIo: ``root`` is not in a git repository, or git cannot be run.
    """
    working = DirectorySource(root)
    staged = _StagedSource(working.root)
    report = check_store(staged)
    known = {finding.path for finding in report.findings}
    listed = {row.path for row in check_listing(working).index.rows}
    untracked = sorted(listed - staged.tracked - known)
    report.findings += [Finding("missing", path, "") for path in untracked]
    ignored = staged.ignored([finding.path for finding in report.findings])
    report.findings = [_explained(finding, staged, ignored) for finding in report.findings]
    return report


def _explained(finding: Finding, staged: _StagedSource, ignored: dict[str, str]) -> Finding:
    if finding.path in staged.tracked or finding.code not in ("missing", "index-unreadable"):
        return finding
    what = "INDEX.toml" if finding.path == INDEX_NAME else "is listed, but"
    if rule := ignored.get(finding.path):
        reason = f"{what} git ignores it ({rule}), so a clone will lack it"
        return replace(
            finding, code="ignored", reason=reason, hint=f"git add --force {finding.path}, or drop the rule"
        )
    reason = f"{what} git does not track it, so a clone will lack it"
    return replace(finding, code="untracked", reason=reason, hint=f"git add {finding.path}")


class _StagedSource:
    """Git's own index (the staging area), read as a store."""

    def __init__(self, root: Path) -> None:
        # A hook runs with GIT_DIR and relative paths in its environment, which hold at the top only.
        start = Path.cwd() if "GIT_DIR" in os.environ else root
        self._top = Path(self._git("rev-parse", "--show-toplevel", cwd=start).decode().rstrip("\n"))
        try:
            prefix = PurePosixPath(root.relative_to(self._top.resolve()).as_posix())
        except ValueError:
            raise StoreIo(f"the store {root} is not in the git repository {self._top}") from None
        self._prefix = "" if prefix == PurePosixPath(".") else f"{prefix}/"
        self._entries: dict[str, tuple[str, str]] = {}
        self._unmerged: set[str] = set()
        listing = self._git("ls-files", "--stage", "-z", "--", self._prefix or ".")
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

    def ignored(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of ``paths`` that an ignore rule hides, with the rule."""
        asked = "".join(f"{self._prefix}{path}\0" for path in paths).encode(errors="surrogateescape")
        answer = self._git("check-ignore", "--verbose", "-z", "--stdin", given=asked, accept=(0, 1))
        fields = os.fsdecode(answer).split("\0")
        return {
            path.removeprefix(self._prefix): f"{origin}:{line}: {pattern}"
            for origin, line, pattern, path in zip(*[iter(fields)] * 4, strict=False)
        }

    def has_folder(self, name: str) -> bool:
        """Whether anything below this folder is staged."""
        return any(path.startswith(f"{name}/") for path in self._entries)

    def list_files(self, folder: str) -> Listing:
        """What is staged below ``folder``."""
        listing = Listing()
        for path, (mode, _) in self._entries.items():
            if folder and not path.startswith(f"{folder}/"):
                continue
            if path in self._unmerged:
                listing.findings.append(Finding("not-a-file", path, "has an unresolved merge conflict"))
            elif mode == _LINK_MODE or not mode.startswith("100"):
                listing.findings.append(Finding("not-a-file", path, "is a link or a submodule"))
            else:
                listing.files.add(path)
        return listing

    def read(self, path: str, max_bytes: int) -> bytes | Finding:
        """The staged content of one file."""
        return next(iter(self.read_many([path], max_bytes)))[1]

    def read_many(self, paths: Iterable[str], max_bytes: int) -> Iterator[tuple[str, bytes | Finding]]:
        """The staged content of many files, from one git process."""
        command = ["git", "cat-file", "--batch"]
        with subprocess.Popen(
            command, cwd=self._top, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise StoreIo("git cat-file has no pipes")  # never: for the type checker
            for path in paths:
                if path not in self._entries:
                    yield path, Finding("missing", path, "is listed but not staged")
                    continue
                process.stdin.write(f"{self._entries[path][1]}\n".encode())
                process.stdin.flush()
                size = int(process.stdout.readline().split()[2])
                data = process.stdout.read(size)
                process.stdout.read(1)
                too_large = Finding("too-large", path, f"larger than {max_bytes} bytes")
                yield path, data if size <= max_bytes else too_large
            process.stdin.close()

    def _git(
        self, *arguments: str, cwd: Path | None = None, given: bytes = b"", accept: tuple[int, ...] = (0,)
    ) -> bytes:
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=cwd or self._top, input=given, capture_output=True, check=False
            )
        except OSError as error:
            raise StoreIo(f"git cannot be run: {error.strerror}") from None
        if done.returncode not in accept:
            raise StoreIo(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
