"""``cortex-replay import``."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import DRIFT, command, json_option, settle, store_option, store_root
from cortex_replay.config import load_settings
from cortex_replay.disk import Folder
from cortex_replay.modes import Mode
from cortex_replay.providers import upstream_name
from cortex_replay.redact.settings import redactor_for
from cortex_replay.store import Store
from cortex_replay.store.writer import CommitSummary

if TYPE_CHECKING:
    from cortex_replay.cassettes import ImportReport

__all__ = ["import_command"]


@command(
    "import",
    epilog="""Examples:

  cortex-replay import tests --store tests/llm          every cassette below
  cortex-replay import tests/cassettes --dry-run        what would be converted, and what not
  cortex-replay import login.yaml --host 127.0.0.1:8080=openai
  cortex-replay import tests/cassettes --json | jq -r '.not_converted[] | .file'

Cassettes are only read. What is not converted is listed, with its file, number and reason
(docs/migrating.md); everything else is committed.

Exit status:
  0  everything was converted, or is in the store already
  1  failure: the store could not be written
  2  wrong usage
  4  something was not converted; each is listed
  5  the store is not what its index says; nothing was written
""",
)
@click.argument(
    "cassettes",
    metavar="CASSETTE_OR_FOLDER...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@store_option
@click.option(
    "--mode",
    type=click.Choice(["once", "record"]),
    default="once",
    show_default=True,
    help="Keep other answers that a test has in the store (once), or overwrite them (record).",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST[:PORT]=NAME",
    help="Whose API was called there: 127.0.0.1:8080=openai. Repeatable.",
)
@click.option("--all", "takes_all", is_flag=True, help="Take calls to hosts that run no model, too.")
@click.option("--record-failures", is_flag=True, hidden=True, help="Errors are always taken; does nothing.")
@click.option(
    "--rootdir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="pytest's rootdir, which ids of tests are relative to; by default as pytest finds it.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_option
@click.pass_context
def import_command(
    ctx: click.Context,
    cassettes: Sequence[Path],
    store: Path | None,
    mode: str,
    hosts: Sequence[str],
    takes_all: bool,
    record_failures: bool,  # noqa: ARG001 - of earlier versions
    rootdir: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take over cassettes of vcrpy and pytest-recording."""
    from cortex_replay.cassettes import CassetteScopes, Importer, Places  # noqa: PLC0415 - and with it, YAML
    from cortex_replay.cassettes.documents import cassettes_in  # noqa: PLC0415
    from cortex_replay.engine.http.upstreams import Upstreams  # noqa: PLC0415

    root = store_root(ctx, store)
    named = _parse_hosts(hosts)
    for given in cassettes:
        _refuse_link(given)
    settings = load_settings(Path(), os.environ, {"store": root}).settings
    places = Places(Upstreams(settings, os.environ), named, takes_all=takes_all)
    files = list(dict.fromkeys(file for given in cassettes for file in cassettes_in(given)))
    summary: CommitSummary | None = None
    with _open_store(root, dry_run=dry_run) as opened:
        importer = Importer(
            opened,
            Mode(mode),
            places,
            lambda keys: redactor_for(settings, os.environ, *keys),
            CassetteScopes(rootdir),
        )
        report = importer.stage(files)
        if not dry_run:
            summary = opened.commit()
    settle(ctx, DRIFT if report.not_converted else 0)
    if as_json:
        output.print_json(
            {
                "store": str(root),
                "dry_run": dry_run,
                "added": [] if summary is None else summary.added,
                "removed": [] if summary is None else summary.removed,
                **asdict(report),
            }
        )
    else:
        _print(report, root, dry_run=dry_run)
    if summary is not None and summary.dropped:
        output.talk(f"{summary.dropped} dropped: somebody else recorded another answer meanwhile")
    ctx.exit(DRIFT if report.not_converted else 0)


@contextmanager
def _open_store(root: Path, *, dry_run: bool) -> Iterator[Store]:
    """The store; whatever goes wrong, nothing stays staged."""
    from cortex_replay.cassettes import open_dry_run  # noqa: PLC0415

    if dry_run:
        with open_dry_run(root) as store:
            yield store
        return
    store = Store.open_or_create(root, verify="on-read")
    try:
        yield store
    finally:
        store.discard()


def _refuse_link(path: Path) -> None:
    """A repository's own link may lead to recordings that are nobody else's business."""
    try:
        Folder.reach(path if path.is_dir() else path.parent).close()
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise click.UsageError(f"{path} is behind a link; name it itself: {path.resolve()}") from None


def _parse_hosts(given: Sequence[str]) -> dict[str, str]:
    hosts: dict[str, str] = {}
    for one in given:
        host, _, name = one.rpartition("=")
        if not host or not name or "/" in one:
            raise click.UsageError(f"--host takes HOST[:PORT]=NAME, not {one!r}")
        hosts[host] = upstream_name(name)
    return hosts


def _print(report: ImportReport, root: Path, *, dry_run: bool) -> None:
    for left in report.not_converted:
        output.echo(f"not converted: {output.escape(str(left))}")
    counts = [
        (report.answers, "answer"),
        (report.exchanges, "exchange"),
        (report.failures, "failure"),
    ]
    made = ", ".join(output.count(count, name) for count, name in counts if count) or "nothing"
    done = "would take" if dry_run else "took"
    interactions = output.count(report.interactions, "interaction")
    read = f"{output.count(report.cassettes, 'cassette')} with {interactions}"
    output.talk(f"{read}: {done} {made} into {output.escape(str(root))}")
    if report.repeated:
        output.talk(f"{report.repeated} said what is there already")
    if report.overwritten:
        output.talk(f"{output.count(report.overwritten, 'key')} had something else, which is overwritten")
    if report.changed:
        questions = output.count(report.changed, "question")
        output.talk(
            f"{questions} changed since sent, by a filter or by hand; a test that asks otherwise will miss"
        )
    if report.redacted:
        output.talk(f"a secret was cut out of {output.count(report.redacted, 'recording')}")
    if report.without_test:
        many = output.count(len(report.without_test), "cassette")
        first = output.escape(report.without_test[0])
        output.talk(f"{many} of no test that could be told ({first}, ...): docs/migrating.md")
    if report.not_converted:
        output.talk(f"{len(report.not_converted)} not converted, listed above")
    if not dry_run and report.cassettes:
        init = f"cortex-replay init --store {shlex.quote(str(root))}"
        output.talk(f"next, for pytest: {output.escape(init)}")
        output.talk("then put pytest.mark.llm_replay in place of pytest.mark.vcr (docs/migrating.md)")
