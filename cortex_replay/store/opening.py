"""A store of which some files are broken, for who looks at the rest and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.gc_pause import pause_gc
from cortex_replay.store.check import CheckReport, check_opening, check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.paths import INDEX_NAME, SHARDS_FOLDER, escape
from cortex_replay.store.store import Store

__all__ = ["is_about_index", "open_in_part"]


@pause_gc()
def open_in_part(root: Path) -> tuple[Store, list[Finding]]:
    """The store without the files that something is wrong with, as far as that can be told without opening
    them, and what is wrong. Nothing that is answered from a store opens it so.

    Each file is still checked when it is read.

    Raises:
        FixtureIntegrityFailed: Its index itself cannot be trusted.
        StoreIo: There is no such folder.
    """
    source = DirectorySource(root)
    report = check_opening(source)
    if not any(map(is_about_index, report.findings)) and not report.has_keys:
        report = check_store(source, keep=True)
    if any(map(is_about_index, report.findings)):
        raise FixtureIntegrityFailed(report.findings)
    findings = list(report.findings)
    return Store(source, _without(report, {finding.path for finding in findings})), findings


def is_about_index(finding: Finding) -> bool:
    """Whether the index itself cannot be trusted, so that nothing is known of what it should list."""
    return finding.path == INDEX_NAME or finding.path.startswith(f"{SHARDS_FOLDER}/")


def _without(report: CheckReport, broken: set[str]) -> CheckReport:
    """A report without the rows of some files."""
    if not broken:
        return report
    index = report.index
    return replace(
        report,
        index=replace(
            index,
            fixtures=[row for row in index.fixtures if escape(row.path) not in broken],
            exchanges=[row for row in index.exchanges if escape(row.path) not in broken],
            scoped=[row for row in index.scoped if escape(row.path) not in broken],
            parts=[row for row in index.parts if escape(row.path) not in broken],
        ),
        findings=[],
    )
