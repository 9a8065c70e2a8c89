"""A store that has a remote, as the commands see it: its rows, where their files are, and the bucket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.remote import Remote
from cortex_replay.store.check import check_listing
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.index import Index, Row
from cortex_replay.store.index.named_file import one_per_file
from cortex_replay.store.trust import Layout

__all__ = ["NO_REMOTE", "SharedStore"]

NO_REMOTE = (
    "this store has no remote; name one in its configuration:\n"
    '  [tool.cortex-replay.remote]\n  url = "s3://bucket/folder"'
)


@dataclass(frozen=True, slots=True)
class SharedStore:
    """A store whose index is sound; its files may be here or elsewhere."""

    source: DirectorySource
    remote: Remote
    index: Index
    layout: Layout
    elsewhere: frozenset[str]
    """The paths of listed files that are not in the work tree."""

    @classmethod
    def open(cls, root: Path) -> SharedStore:
        """Read the index, and look which files are here.

        Raises:
            FixtureIntegrityFailed: The index is not sound, or there are files that it does not list.
            StoreIo: There is no store, or it has no remote.
        """
        source = DirectorySource(root)
        remote = source.elsewhere.remote
        if remote is None:
            raise StoreIo(NO_REMOTE)
        report = check_listing(source)
        if not report.is_trusted:
            raise FixtureIntegrityFailed(report.findings)
        return cls(source, remote, report.index, report.layout, report.elsewhere)

    @property
    def files(self) -> list[Row]:
        """One row for each file, sorted by path."""
        return one_per_file(self.index.rows)
