"""Checking signatures: the options of ``verify``, and what is said of a verdict."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import option_group
from cortex_replay.errors import ConfigError, StoreIo
from cortex_replay.store.check import CheckReport
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git.repository import StoreAtCommit
from cortex_replay.store.git.staging import open_staging
from cortex_replay.store.signing.chain import CHAIN_NAME, MAX_CHAIN_BYTES, STORE_ID, Chain, ChainError, Head
from cortex_replay.store.signing.judge import Known, Verdict, judge, read_evidence
from cortex_replay.store.signing.outside import check_outside, read_signers, tree_of
from cortex_replay.store.signing.seen import Memory
from cortex_replay.store.signing.ssh import SshKeygen
from cortex_replay.store.trust import Untrusted

__all__ = ["SignatureOptions", "print_verdict", "signature_options", "verdict_as_json"]

signature_options = option_group(
    click.option(
        "--signers",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Also check who signed the index: a list of OpenSSH's allowed_signers, outside of this tree.",
    ),
    click.option(
        "--seen",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="With --signers: remember here, and not for this user, which signed index is the newest.",
    ),
    click.option("--store-id", metavar="ID", help="With --signers: it has to be the index of this store."),
    click.option(
        "--trust-anew",
        is_flag=True,
        help="With --signers: take this index for the newest, whatever you have seen before.",
    ),
)


@dataclass(frozen=True, slots=True)
class SignatureOptions:
    """What a user wants to know of a signature."""

    signers: Path
    seen: Path | None
    store_id: str | None
    trust_anew: bool

    @classmethod
    def of(
        cls, signers: Path | None, seen: Path | None, store_id: str | None, trust_anew: bool
    ) -> SignatureOptions | None:
        """The options, or ``None`` if no signature is to be checked.

        Raises:
            UsageError: One of them would do nothing, or cannot be.
        """
        if signers is None:
            if seen or store_id or trust_anew:
                raise click.UsageError("--seen, --store-id and --trust-anew go with --signers")
            return None
        if store_id is not None and not STORE_ID.fullmatch(store_id):
            raise click.UsageError("--store-id takes the 32 hex digits that INDEX.toml has as store_id")
        return cls(signers, seen, store_id, trust_anew)

    def judge(
        self, source: DirectorySource, report: CheckReport, base: str | None, *, is_staged: bool
    ) -> Verdict:
        """Judge the signature of the index that was checked.

        Args:
            source: Where the store is.
            report: What the check found; its index is the one that is judged.
            base: A commit that is trusted, if one was named.
            is_staged: Whether what git has staged was checked.

        Raises:
            ConfigError: A file that the verdict rests on stands where anybody could change it.
            StoreIo: The store changed, or a program cannot be run.
        """
        signers = read_signers(self.signers, source.path)
        if self.seen is not None:
            check_outside(self.seen, source.path, "--seen")
        head, chain = _read_base(source, base) if base is not None else (None, Chain())
        known = Known(
            self.store_id, (lambda _: None) if self.trust_anew else Memory(self.seen).recall, head, chain
        )
        if not report.root:
            return Verdict([])  # there is a finding of what is there instead
        try:
            if is_staged:
                with closing(open_staging(source.root)) as staged:
                    evidence = read_evidence(staged)
            else:
                evidence = read_evidence(source)
        except Untrusted as error:
            return Verdict([error.finding])
        if evidence.index != report.root:
            raise StoreIo("the store changed in the meantime; repeat the command")
        return judge(evidence, known, SshKeygen(tree_of(source.root)), signers)

    def remember(self, verdict: Verdict) -> None:
        """Note what was seen, once everything else is well, too.

        Raises:
            ConfigError: The file that the user named cannot be written.
        """
        if verdict.head is None or verdict.entry is None:
            return
        try:
            Memory(self.seen).note(verdict.head.store_id, verdict.entry)
        except ConfigError as error:
            if self.seen is not None:
                raise
            output.talk(f"warning: an older index will not be noticed later: {output.escape(error.reason)}")


def _read_base(source: DirectorySource, base: str) -> tuple[Head | None, Chain]:
    with StoreAtCommit(source.root, base) as then:
        try:
            head = Head.of(then.root_index().header)
            return head, Chain.parse(then.read_beside(CHAIN_NAME, MAX_CHAIN_BYTES) or b"")
        except ChainError as error:
            raise StoreIo(f"what {base} has is not signed as it should be: {error}") from None


def print_verdict(verdict: Verdict) -> None:
    """Say who signed, to a person."""
    if verdict.is_good and verdict.signer and verdict.head and output.is_terminal(sys.stderr):
        name, key = output.escape(verdict.signer.name), output.escape(verdict.signer.key)
        output.talk(f"ok: signed by {name} ({key}), generation {verdict.head.generation}")


def verdict_as_json(verdict: Verdict) -> dict[str, object]:
    """What there is to say of a signature, for a program; nothing if none was looked at."""
    head, signer = verdict.head, verdict.signer
    if head is None and verdict.is_good:
        return {}
    signature = {
        "ok": verdict.is_good,
        "store_id": head.store_id if head else None,
        "generation": head.generation if head else None,
        "signer": signer.name if signer else None,
        "key": signer.key if signer else None,
    }
    return {"signature": signature}
