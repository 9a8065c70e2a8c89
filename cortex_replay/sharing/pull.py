"""Having the files of a store on this machine, all of them or those that a test or a model needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain

from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.remote.objects import BucketError
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.index.index import Index, Row, ScopedRow, content_key, continued_by
from cortex_replay.store.index.named_file import one_per_file

__all__ = ["PullPlan", "Selection", "plan_pull"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted. A pattern has ``*`` and ``?``; without one, everything is."""

    model: str | None = None
    test: str | None = None
    """Of a scope: what it has of its own, and all that is shared, since it may ask for any of it."""

    def takes(self, row: Row) -> bool:
        """Whether a row is wanted, whatever others need of it."""
        if self.test is not None and isinstance(row, ScopedRow) and not fnmatchcase(row.scope, self.test):
            return False
        return self.model is None or fnmatchcase(content_key(row)[0] or "", self.model)


@dataclass(slots=True)
class PullPlan:
    """What is wanted, and what of it is not on this machine."""

    store: SharedStore
    wanted: list[Row]
    lacking: list[Row] = field(default_factory=list)
    """One row for each object that has to be fetched."""

    def apply(self) -> int:
        """Fetch it, and see that it stays; gives the number of bytes.

        Raises:
            FixtureIntegrityFailed: The bucket lacks something, or it is not what the index says.
            BucketError: The bucket cannot be asked.
        """
        findings: list[Finding] = []
        fetched = 0
        try:
            for _, found in self.store.source.elsewhere.get_all(self.lacking):
                if isinstance(found, Finding):
                    findings.append(found)
                else:
                    fetched += len(found)
        except BucketError:
            if not any(finding.code == "mismatch" for finding in findings):
                raise
        if findings:
            raise FixtureIntegrityFailed(sorted(findings, key=lambda finding: finding.path))
        return fetched

    def evicted(self) -> int:
        """How many files did not stay, because the cache is too small for all of them."""
        away = {row.blake3 for row in self.wanted if row.path in self.store.elsewhere}
        return len(self.store.remote.uncached(away))


def plan_pull(store: SharedStore, selection: Selection) -> PullPlan:
    """What has to be fetched so that what is selected works without a network."""
    wanted = one_per_file(_with_links(store.index, filter(selection.takes, store.index.rows)))
    away = [row for row in wanted if row.path in store.elsewhere]
    lacking = store.remote.uncached({row.blake3 for row in away})
    by_digest = {row.blake3: row for row in away if row.blake3 in lacking}
    return PullPlan(store, wanted, list(by_digest.values()))


def _with_links(index: Index, rows: Iterable[Row]) -> list[Row]:
    """These rows, those whose requests they continue, and the parts; which part is whose, only files tell."""
    by_key: dict[tuple[str | None, str | None], list[Row]] = {}
    for row in index.rows:
        model, prompt_hash, n, key = content_key(row)
        if prompt_hash is not None and n is None and key is None:
            by_key.setdefault((model, prompt_hash), []).append(row)
    found = dict.fromkeys(chain(rows, index.parts))
    queue = list(found)
    while queue:
        row = queue.pop()
        continues = continued_by(row)
        for parent in by_key.get((content_key(row)[0], continues), ()) if continues else ():
            if parent not in found:
                found[parent] = None
                queue.append(parent)
    return list(found)
