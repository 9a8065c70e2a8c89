"""``cortex-replay list``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.cli.questions import question_of, shorten, terminal_width
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.store import Store, StoredFixture

__all__ = ["list_command"]

_HASH_SHOWN: Final = 12
_MODEL_SHOWN: Final = 32
_LEAST_SHOWN: Final = 20
"""So much of a question is shown on the narrowest terminal."""


@dataclass(frozen=True)
class _Row:
    """A recording and what it was asked, or why that cannot be said."""

    stored: StoredFixture
    question: str | None
    findings: Sequence[Finding] = ()


@command(
    "list",
    epilog="""Examples:

  cortex-replay list
  cortex-replay list --model 'claude-*'
  cortex-replay list --scope 'tests/test_chat.py::*'
  cortex-replay list --json | jq -r '.[] | [.question, .path] | @tsv'

Exit status:
  0  the recordings are listed, possibly none
  1  the store could not be opened
  2  wrong usage
  5  the store is not what its index says
""",
)
@store_option
@click.option("--model", metavar="PATTERN", help="Only models that match this pattern ('*' and '?').")
@click.option(
    "--scope", metavar="PATTERN", help="Only what scopes (tests) whose names match have of their own."
)
@json_option
@click.pass_context
def list_command(
    ctx: click.Context, store: Path | None, model: str | None, scope: str | None, as_json: bool
) -> None:
    """List the recordings: prompt hash, model, question.

    What a test or another scope has of its own is listed with its name. The question is the first line of
    what the user said last. At a terminal it is shortened to fit. With
    --json each recording has its whole hash and its file as well.
    """
    rows = _read(store_root(ctx, store), model, scope)
    findings = [finding for row in rows for finding in row.findings]
    settle(ctx, FixtureIntegrityFailed.exit_code if findings else 0)
    if as_json:
        output.print_json([{**row.stored._asdict(), "question": row.question} for row in rows])
    else:
        output.echo_lines(_lines(rows, terminal_width()))
    if findings and as_json:
        output.print_error(FixtureIntegrityFailed(findings), as_json=True)
    elif findings:
        output.print_findings(findings, err=True)
    ctx.exit(FixtureIntegrityFailed.exit_code if findings else 0)


def _read(root: Path, model: str | None, scope: str | None) -> list[_Row]:
    with progress_bar("reading") as progress:
        opened = Store.open(root, verify="on-read")
        wanted = [
            stored
            for stored in opened.list(scoped=True)
            if (model is None or fnmatchcase(stored.model, model))
            and (scope is None or (bool(stored.scope) and fnmatchcase(stored.scope, scope)))
        ]
        rows = []
        for done, stored in enumerate(wanted, start=1):
            rows.append(_row(opened, stored))
            if progress is not None:
                progress(done, len(wanted))
    return rows


def _row(store: Store, stored: StoredFixture) -> _Row:
    try:
        return _Row(stored, question_of(store.get(stored.model, stored.prompt_hash, stored.scope).request))
    except FixtureIntegrityFailed as error:  # the others are what they are all the same
        return _Row(stored, None, error.issues)


def _lines(rows: Sequence[_Row], columns: int | None) -> Iterator[str]:
    # Secrets first: half of one would not be known for one.
    models = [shorten(output.escape(output.redact(row.stored.model)), _MODEL_SHOWN) for row in rows]
    width = max(map(len, models), default=0)
    room = None if columns is None else max(columns - _HASH_SHOWN - width - 4, _LEAST_SHOWN)
    for row, model in zip(rows, models, strict=True):
        question = _cell(row)
        shown = question if room is None else shorten(question, room)
        yield f"{row.stored.prompt_hash[:_HASH_SHOWN]}  {model.ljust(width)}  {shown}".rstrip()


def _cell(row: _Row) -> str:
    of = f"[{output.escape(output.redact(row.stored.scope))}] " if row.stored.scope else ""
    if row.findings:
        return f"{of}(its file is not what the index says)"
    return of + output.escape(row.question or "(does not say what was asked)")
