"""``cortex-replay pull``."""

from __future__ import annotations

from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.errors import StoreIo
from cortex_replay.sharing.pull import Selection, plan_pull
from cortex_replay.sharing.shared_store import SharedStore

__all__ = ["pull_command"]


@command(
    "pull",
    epilog="""Examples:

  cortex-replay pull                                   everything that the store names
  cortex-replay pull --model 'claude-*'                what calls to these models need
  cortex-replay pull --test 'tests/test_agent.py::*'   leave out what only other tests need

What is fetched goes into your cache, where every work tree finds it, and each file is checked by its hash.
After that, tests and all commands work without a network. A test may ask for anything that is shared, so
--test leaves out only what other tests have of their own.

Exit status:
  0  all of it is on this machine
  1  there is no remote, it cannot be asked, or the cache is too small to keep all of it
  2  wrong usage
  5  the remote lacks something, or it is not what the index says
""",
)
@store_option
@click.option("--model", metavar="PATTERN", help="Calls to models that match this pattern ('*' and '?').")
@click.option("--test", metavar="PATTERN", help="What tests (scopes) whose names match may ask for.")
@click.option("--dry-run", is_flag=True, help="Say what is not on this machine, and fetch nothing.")
@json_option
@click.pass_context
def pull_command(
    ctx: click.Context, store: Path | None, model: str | None, test: str | None, dry_run: bool, as_json: bool
) -> None:
    """Fetch the files of the store that this machine lacks."""
    shared = SharedStore.open(store_root(ctx, store))
    plan = plan_pull(shared, Selection(model, test))
    fetched = 0 if dry_run else plan.apply()
    if not dry_run and (evicted := plan.evicted()):
        raise StoreIo(
            f"{output.count(evicted, 'file')} of {len(plan.wanted)} did not stay in the cache, which is too "
            "small for all of them, or cannot be written; see remote.cache_size in docs/configuration.md"
        )
    if as_json:
        output.print_json(
            {
                "dry_run": dry_run,
                "url": shared.remote.url,
                "files": len(plan.wanted),
                "fetched": [{"path": row.path, "blake3": row.blake3} for row in plan.lacking],
                "fetched_bytes": fetched,
            }
        )
        return
    objects = output.count(plan.lacking, "object")
    here = len(plan.wanted) - len(plan.lacking)
    verb = "would be fetched" if dry_run else f"({fetched:,} bytes) fetched"
    output.talk(f"{objects} {verb} from {output.escape(shared.remote.url)}, {here} were here")
