"""``cortex-replay scan``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from cortex_replay.canonical import JsonValue
from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.config import load_settings
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.progress import Progress
from cortex_replay.redact.settings import redactor_for
from cortex_replay.store.check import check_listing, confirm
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture_json import FixtureError, read_document
from cortex_replay.store.index.index import Row
from cortex_replay.store.index.named_file import one_per_file
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Untrusted

__all__ = ["scan_command"]

_PROGRESS_STEP: Final = 64


class _Secret(NamedTuple):
    path: str
    place: str
    rule: str


@command(
    "scan",
    epilog="""Examples:

  cortex-replay scan                    the store in this folder
  cortex-replay scan tests/llm          another one (in a pre-commit hook, say)
  cortex-replay scan --json | jq -r '.secrets[].path'

Exit status:
  0  no secret was found
  1  secrets were found, each is printed; or the store could not be opened
  2  wrong usage
  5  the store is not what its index says
""",
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@store_option
@json_option
@click.pass_context
def scan_command(ctx: click.Context, path: Path | None, store: Path | None, as_json: bool) -> None:
    """Look for secrets in every recorded file.

    PATH is short for --store PATH. Looks for the secrets in this shell's variables (API_KEY, GH_TOKEN,
    PGPASSWORD, the password in DATABASE_URL, ...: the same that a recording leaves out), and for what looks
    like a secret of a well-known service, however it is encoded. Prints the file, the place in it and the
    rule, and never the secret; nothing when all is well.
    """
    source = DirectorySource(store_root(ctx, path, store))
    report = check_listing(source)
    if not report.is_trusted:
        raise FixtureIntegrityFailed(report.findings)
    rows = one_per_file(report.index.rows)
    settings = load_settings(Path(), os.environ).settings
    redactor = redactor_for(settings, os.environ)
    with progress_bar("scanning") as progress:
        found = [
            _Secret(row.path, place, rule)
            for row, document in _documents(source, rows, progress)
            for place, rule in redactor.found_in(document)
        ]
    status = 1 if found else 0
    settle(ctx, status)
    if as_json:
        secrets = [secret._asdict() for secret in found]
        counts = {"files_scanned": len(rows), "known_values": len(redactor)}
        output.print_json({"ok": not found, **counts, "secrets": secrets})
    else:
        _print(found, len(rows))
    ctx.exit(status)


def _documents(
    source: DirectorySource, rows: list[Row], progress: Progress | None
) -> Iterator[tuple[Row, JsonValue]]:
    """Every listed file's JSON, once its bytes are those that the index vouches for.

    Raises:
        FixtureIntegrityFailed: They are not.
    """
    contents = source.read_many(rows, MAX_FIXTURE_BYTES)
    for count, (row, data) in enumerate(contents, start=1):
        if progress and count % _PROGRESS_STEP == 0:
            progress(count, len(rows))
        try:
            if isinstance(data, Finding):
                raise Untrusted(data)
            yield row, read_document(confirm(source, row, data))
        except FixtureError as error:
            raise FixtureIntegrityFailed([Finding(error.code, row.path, str(error))]) from None
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None


def _print(found: list[_Secret], files: int) -> None:
    output.print_findings(Finding(secret.rule, secret.path, secret.place) for secret in found)
    if found:
        spoiled = {secret.path for secret in found}
        output.talk(
            f"{output.count(found, 'secret')} in {output.count(spoiled, 'file')}: revoke what was ever "
            "shared; record again, or cut it out by hand and run `cortex-replay index --accept-changed`"
        )
    elif output.is_terminal(sys.stderr):
        output.talk(f"ok: no secret found in {files} files")
