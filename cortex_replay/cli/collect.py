"""``cortex-replay collect``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import DRIFT, command, json_option, settle, store_option, store_root
from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.redact.process import learn_secret
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.places import bucket_for
from cortex_replay.remote.seals import Seal
from cortex_replay.sharing.collect import Collection, Conflict, plan_collection
from cortex_replay.sharing.shared_store import NO_REMOTE
from cortex_replay.store import Store
from cortex_replay.store.index.index import ContentKey

__all__ = ["collect_command"]

_RUN = "CORTEX_REPLAY_RUN"


@command(
    "collect",
    epilog="""Examples:

  cortex-replay collect "$RUN"             add what the workers recorded, in one commit
  cortex-replay collect                    the run that CORTEX_REPLAY_RUN names
  cortex-replay collect --dry-run          what that would be
  cortex-replay collect --delete           and remove the run from the bucket, if all of it is here

Workers are processes on any number of machines that record with the same CORTEX_REPLAY_RUN and the
same remote (docs/fleet.md). Collect as often as you like, also while they run: what is in the store
already is not added again. What a worker that died had recorded is collected, too.

Where workers have different answers to one question of one scope, one of them goes into the store. All
are named, and the others stay in the bucket.

Exit status:
  0  everything that was recorded is in the store, or with --dry-run: would be
  1  there is no remote or no such run, the bucket cannot be read, or the store cannot be written
  2  wrong usage
  4  there are different answers to one question of one scope
  5  something that a worker recorded is missing in the bucket, or is not what it should be
""",
)
@click.argument("run", required=False)
@store_option
@click.option("--dry-run", is_flag=True, help="Fetch and check everything, and change nothing.")
@click.option("--delete", is_flag=True, help="Remove the run from the bucket once all of it is in the store.")
@json_option
@click.pass_context
def collect_command(
    ctx: click.Context, run: str | None, store: Path | None, dry_run: bool, delete: bool, as_json: bool
) -> None:
    """Add what the workers of a run recorded to the store.

    RUN is the name that the workers have in CORTEX_REPLAY_RUN. It is a secret: give it by that variable
    where others can see your command lines.
    """
    name = run or os.environ.get(_RUN, "")
    if not name:
        raise click.UsageError(f"name the run, or set {_RUN}")
    learn_secret(name)
    root = store_root(ctx, store)
    bucket = bucket_for(root)
    if bucket is None:
        raise StoreIo(NO_REMOTE)
    opened = Store.open_or_create(root, verify="on-read")
    found = plan_collection(opened, bucket, Seal.of(name))
    if not found.run.names:
        raise StoreIo(f"{bucket.url} knows of no such run: is it the same name, and the same remote?")
    status = FixtureIntegrityFailed.exit_code if found.findings else DRIFT if found.conflicts else 0
    settle(ctx, status)
    if not dry_run:
        found.apply(opened)
    is_deleted = delete and not dry_run and found.is_whole
    if is_deleted:
        bucket.delete(found.run.names)
    with output.tolerate_broken_pipe():
        if as_json:
            output.print_json(_as_json(found, dry_run=dry_run, is_deleted=is_deleted))
        else:
            _print(found, bucket, dry_run=dry_run)
            if delete and not is_deleted and not dry_run:
                output.talk("the run stays in the bucket, as not all of it is in the store")
    ctx.exit(status)


def _print(found: Collection, bucket: Bucket, *, dry_run: bool) -> None:
    run = found.run
    for change in found.plan.added:
        output.echo(f"add   {output.escape(change.row.path)}")
    for row in found.plan.removed:
        output.echo(f"drop  {output.escape(row.path)}")
    for conflict in found.conflicts:
        output.echo(f"conflict  {output.escape(_describe(conflict))}")
    output.print_findings(found.findings)
    if run.strangers:
        objects = output.count(run.strangers, "object")
        output.talk(f"warning: {objects} in the run's folder that no worker of it made; not collected")
    if run.withdrawn:
        output.talk(f"{output.count(run.withdrawn, 'answer')} of failed tests not collected")
    if run.unfinished:
        have, run_or = ("has", "it still runs") if len(run.unfinished) == 1 else ("have", "they still run")
        workers = output.count(run.unfinished, "worker")
        output.talk(f"{workers} {have} not ended: {run_or}, or died. Collect again when all have ended")
    workers = output.count(run.workers, "worker")
    verb = "would be new" if dry_run else "new"
    new = output.count(found.plan.added, "file")
    answers = output.count(found.answers, "answer")
    output.talk(f"{answers} of {workers} from {output.escape(bucket.url)}: {new} {verb}")


def _describe(conflict: Conflict) -> str:
    whose = conflict.scope or "no scope"
    what = _question(conflict.about)
    others = ", ".join(digest[:12] for digest in conflict.others)
    if not conflict.taken:
        return f"{what} of {whose}: the store has another answer than {others}, and keeps it"
    return f"{what} of {whose}: {conflict.taken[:12]} is taken, not {others}"


def _question(about: ContentKey) -> str:
    model, prompt_hash, n, key = about
    if key is not None:
        return f"call {key[:12]}"
    number = f", failure {n}" if n is not None else ""
    return f"{model} {(prompt_hash or '')[:12]}{number}"


def _as_json(found: Collection, *, dry_run: bool, is_deleted: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "workers": len(found.run.workers),
        "unfinished_workers": len(found.run.unfinished),
        "answers": found.answers,
        "added": [change.row.path for change in found.plan.added],
        "removed": [row.path for row in found.plan.removed],
        "conflicts": [_conflict_as_json(conflict) for conflict in found.conflicts],
        "findings": [asdict(finding) for finding in found.findings],
        "strangers": found.run.strangers,
        "withdrawn": found.run.withdrawn,
        "deleted": is_deleted,
    }


def _conflict_as_json(conflict: Conflict) -> dict[str, object]:
    model, prompt_hash, n, key = conflict.about
    about = {"model": model, "prompt_hash": prompt_hash, "n": n, "key": key}
    return {
        "scope": conflict.scope,
        **{name: value for name, value in about.items() if value is not None},
        "taken": conflict.taken or None,
        "others": list(conflict.others),
    }
