"""Signing an index: what would be signed, as a value, and then doing it.

A signature comes before anything is written: who gives no passphrase has changed nothing. Then the index gets
its new head by a commit as any other, and signature and chain follow under the same lock. If the process dies
in between, the index is there and its signature is stale; signing again gives it the same generation.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git.history import open_history
from cortex_replay.store.index.index import Index
from cortex_replay.store.index.shards import join_shards, render_whole
from cortex_replay.store.merge.merge import IndexComparison, compare_indexes
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.signing.chain import CHAIN_NAME, SIGNATURE_NAME, Chain, ChainError, Entry, Head
from cortex_replay.store.signing.judge import Evidence, read_evidence
from cortex_replay.store.signing.ssh import SshKeygen
from cortex_replay.store.trust import Layout, Untrusted, trust_index, trust_shard
from cortex_replay.store.writer import StoreWriter

__all__ = ["SigningPlan", "plan_signing"]

_CHANGED: Final = "the store changed in the meantime; look again and then repeat the command"
_MERGED: Final = (
    f"{CHAIN_NAME} does not list the signatures that {INDEX_NAME} was signed with. If a merge of two signed "
    "branches brought them together, look at what changed and use --merged; else bring both files from one "
    "commit"
)


@dataclass(frozen=True, slots=True)
class SigningPlan:
    """What would be signed."""

    layout: Layout
    old_index: bytes = field(repr=False)
    index: Index = field(repr=False)
    """All rows, with the new head."""
    data: bytes = field(repr=False)
    """``INDEX.toml`` as it is signed."""
    head: Head
    chain: Chain = field(repr=False)
    """With this signature."""
    is_signed: bool
    """Whether nothing changed since it was signed last."""
    last: Entry | None
    """What was signed last."""
    changes: IndexComparison | None
    """What changed since then; ``None`` if that is not known."""

    def apply(self, source: DirectorySource, ssh: SshKeygen, key: Path) -> None:
        """Sign it.

        Args:
            source: Where the store is.
            ssh: How it is signed.
            key: The file of a private key; or of a public one, whose private key an agent has.

        Raises:
            StoreIo: The key cannot be used, another process committed meanwhile, or the disk refused.
        """
        signature = ssh.sign(self.data, key)
        beside = {SIGNATURE_NAME: signature, CHAIN_NAME: self.chain.render()}
        written = StoreWriter(source, self.layout).put_index(
            self.index, self.old_index, {}, is_sharded=bool(self.index.shards), beside=beside
        )
        if written != self.data:
            raise StoreIo(f"{INDEX_NAME} was written otherwise than it was signed; sign again")


def plan_signing(
    source: DirectorySource,
    ssh: SshKeygen,
    recall: Callable[[str], Entry | None] = lambda _: None,
    *,
    is_merged: bool = False,
    progress: Progress | None = None,
) -> SigningPlan:
    """Say what would be signed, after all of the store was checked.

    Args:
        source: Where the store is.
        ssh: How signatures are checked.
        recall: The newest index of a store that the user has seen, by its id.
        is_merged: Whether the chain may have signatures that the index was not signed with.
        progress: Called now and then with the number of files checked so far, and of all.

    Raises:
        FixtureIntegrityFailed: The store is not what its index says, or the chain is none.
        StoreIo: Another process committed meanwhile, or the chain is not that of the index.
    """
    report = check_store(source, progress=progress)
    if not report.is_trusted:
        raise FixtureIntegrityFailed(report.findings)
    try:
        evidence = read_evidence(source)
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None
    if evidence.index != report.root:
        raise StoreIo(_CHANGED)
    if report.layout is Layout.FLAT and not report.index.rows:
        raise StoreIo("there is nothing to sign: the store is empty")
    old, chain = _read_past(report.index, evidence)
    if old is not None:
        _check_past(old, chain, recall(old.store_id), is_merged=is_merged)
    head = chain.next_head(secrets.token_hex(16) if old is None else old.store_id)
    index = replace(report.index, header=head.on(report.index.header))
    _, files = render_whole(index, is_sharded=bool(index.shards))
    entry = Entry(head.generation, blake3_hex(files.root))
    present = None if old is None else Entry(old.generation, blake3_hex(evidence.index))
    return SigningPlan(
        report.layout,
        evidence.index,
        index,
        files.root,
        head,
        Chain.of([*chain.entries, entry]),
        is_signed=present in chain.entries and ssh.is_signed(evidence.index, evidence.signature or b""),
        last=chain.entries[-1] if chain.entries else None,
        changes=_changes_since(source, chain, report.index, present),
    )


def _read_past(index: Index, evidence: Evidence) -> tuple[Head | None, Chain]:
    try:
        head = Head.of(index.header)
        chain = Chain.parse(evidence.chain or b"")
    except ChainError as error:
        raise FixtureIntegrityFailed([Finding("chain-broken", CHAIN_NAME, str(error))]) from None
    if head is None and chain.entries:
        raise StoreIo(
            f"{CHAIN_NAME} lists signatures, but {INDEX_NAME} does not say of which store: bring both from "
            f"one commit, or remove {CHAIN_NAME} to begin anew, as another store"
        )
    return head, chain


def _check_past(head: Head, chain: Chain, seen: Entry | None, *, is_merged: bool) -> None:
    """See that what is signed next comes from all that was signed before."""
    if chain.newest < head.generation - 1:
        raise StoreIo(
            f"{CHAIN_NAME} lacks signatures that {INDEX_NAME} comes from; bring both from one commit"
        )
    if chain.prev_of(head.generation) != head.prev and not is_merged:
        raise StoreIo(_MERGED)
    if seen is not None and seen not in chain.entries:
        raise StoreIo(
            f"you have seen generation {seen.generation} of this store, and {CHAIN_NAME} does not list it: "
            "bring the newest state. If you gave that one up yourself, --trust-anew signs without it"
        )


def _changes_since(
    source: DirectorySource, chain: Chain, index: Index, present: Entry | None
) -> IndexComparison | None:
    """What changed since the last signature, if git still has the index that it is of."""
    if not chain.entries:
        return compare_indexes(Index(), index)
    if present in chain.entries:
        return compare_indexes(index, index)
    wanted = [entry.digest for entry in chain.entries if entry.generation == chain.newest]
    with open_history(source.root) as history:
        found = history.find(INDEX_NAME, wanted[0]) if len(wanted) == 1 else None  # else which of two?
        if found is None:
            return None
        try:
            root = trust_index(found)
            shards = history.find_shards(root.shards)
            if len(shards) < len(root.shards):
                return None
            parsed = [trust_shard(shard, data) for shard, data in shards.items()]
        except Untrusted:
            return None
    return compare_indexes(join_shards(root, parsed) if root.shards else root, index)
