"""``cortex-replay sign``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.index import Row, ScopedRow
from cortex_replay.store.signing.chain import CHAIN_NAME, SIGNATURE_NAME
from cortex_replay.store.signing.outside import tree_of
from cortex_replay.store.signing.seen import Memory
from cortex_replay.store.signing.signing import SigningPlan, plan_signing
from cortex_replay.store.signing.ssh import SshKeygen

__all__ = ["sign_command"]

KEY_VARIABLE: Final = "CORTEX_REPLAY_SIGNING_KEY"


@command(
    "sign",
    epilog="""Examples:

  cortex-replay sign --key ~/.ssh/id_ed25519        sign what is recorded
  cortex-replay sign --key ~/.ssh/id_ed25519.pub    with the private key in ssh-agent, or on a hardware key
  cortex-replay sign --dry-run                      what was added, changed and removed since the last time
  git add INDEX.toml INDEX.toml.sig INDEX.chain .gitattributes

The environment variable CORTEX_REPLAY_SIGNING_KEY names a key, too. `cortex-replay verify
--signers FILE` checks the signature; docs/signing.md says what it protects from.

Exit status:
  0  signed, or it was signed already; with --dry-run: this is what would be signed
  1  the store could not be written, or the key signs nothing
  2  wrong usage
  5  the store is not what its index says; nothing was signed
""",
)
@store_option
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Your SSH key: the private half, or the public half if an ssh-agent has the other.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be signed and change nothing.")
@click.option("--again", is_flag=True, help="Sign although nothing changed, such as with another key.")
@click.option("--merged", "is_merged", is_flag=True, help="Sign what a merge of two signed branches made.")
@click.option("--trust-anew", is_flag=True, help="Sign although you have seen a state that this one lacks.")
@json_option
@click.pass_context
def sign_command(
    ctx: click.Context,
    store: Path | None,
    key: Path | None,
    dry_run: bool,
    again: bool,
    is_merged: bool,
    trust_anew: bool,
    as_json: bool,
) -> None:
    """Sign the index with an SSH key, after showing what changed since it was signed last.

    The signature covers every recording, by the hashes in INDEX.toml. It stands beside it, in INDEX.toml.sig;
    INDEX.chain lists what was signed before.
    """
    if key is None and (named := os.environ.get(KEY_VARIABLE)):
        key = Path(named)
    if key is None and not dry_run:
        raise click.UsageError(f"say which key signs: --key ~/.ssh/id_ed25519, or {KEY_VARIABLE}")
    source = DirectorySource(store_root(ctx, store))
    ssh = SshKeygen(tree_of(source.root))
    with progress_bar("verifying") as progress:
        recall = (lambda _: None) if trust_anew else Memory().recall
        plan = plan_signing(source, ssh, recall, is_merged=is_merged, progress=progress)
    is_idle = plan.is_signed and not again
    with output.tolerate_broken_pipe():
        if as_json:
            output.print_json(_as_json(plan, is_signed=not dry_run and not is_idle, dry_run=dry_run))
        else:
            output.echo_lines(_lines(plan))
    if not dry_run and not is_idle and key is not None:
        plan.apply(source, ssh, key)
    _summarise(plan, is_idle=is_idle, dry_run=dry_run)


def _lines(plan: SigningPlan) -> Iterator[str]:
    if plan.changes is None or plan.last is None:
        return
    for verb, rows in (
        ("add", plan.changes.added),
        ("change", [row for _, row in plan.changes.changed]),
        ("remove", plan.changes.removed),
    ):
        for row in rows:
            yield f"{verb.ljust(6)}  {output.escape(row.path)}{_scope_of(row)}"


def _scope_of(row: Row) -> str:
    return f"  (of {output.escape(row.scope)})" if isinstance(row, ScopedRow) else ""


def _summarise(plan: SigningPlan, *, is_idle: bool, dry_run: bool) -> None:
    if is_idle:
        output.talk("nothing to do: nothing changed since it was signed")
        return
    if plan.changes is None:
        output.talk("what changed since the last signature is not known: git has not got the index it is of")
    else:
        since = "since the last signature" if plan.last else "in all"
        counts = f"{len(plan.changes.added)} added, {len(plan.changes.changed)} changed"
        output.talk(f"{since}: {counts}, {len(plan.changes.removed)} removed")
    verb = "would be signed" if dry_run else "signed"
    output.talk(f"generation {plan.head.generation} of the store {plan.head.store_id} {verb}")
    if not dry_run:
        output.talk(f"commit INDEX.toml, {SIGNATURE_NAME}, {CHAIN_NAME} and .gitattributes together")


def _as_json(plan: SigningPlan, *, is_signed: bool, dry_run: bool) -> dict[str, object]:
    changes = plan.changes
    return {
        "dry_run": dry_run,
        "signed": is_signed,
        "store_id": plan.head.store_id,
        "generation": plan.head.generation,
        "digest": plan.chain.entries[-1].digest,
        "since": None
        if changes is None
        else {
            "added": [row.path for row in changes.added],
            "changed": [row.path for _, row in changes.changed],
            "removed": [row.path for row in changes.removed],
        },
    }
