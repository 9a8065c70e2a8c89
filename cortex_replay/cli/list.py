"""``cortex-replay list``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import end_without_fixture
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.cli.questions import question_of, shorten, terminal_width
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.mcp_calls import McpCall, answers_to, read_mcp_calls
from cortex_replay.history.runs import UnknownRun, choose_calls
from cortex_replay.history.story import calls_made
from cortex_replay.store import Store, StoredFixture
from cortex_replay.store.reader import StoredExchange

__all__ = ["list_command"]

_HASH_SHOWN: Final = 12
_MODEL_SHOWN: Final = 32
_LEAST_SHOWN: Final = 20
"""So much of a question is shown on the narrowest terminal."""
_DAMAGED: Final = "(its file is not what the index says)"


@dataclass(frozen=True)
class _Row:
    """A recording and what it was asked, or why that cannot be said."""

    stored: StoredFixture
    question: str | None
    findings: Sequence[Finding] = ()

    @property
    def cells(self) -> tuple[str, str, str]:
        """The hash, the model, and what was asked."""
        asked = output.escape(self.question or "(does not say what was asked)")
        asked = _DAMAGED if self.findings else asked
        return self.stored.prompt_hash, self.stored.model, _of_scope(self.stored.scope) + asked

    def to_dict(self) -> dict[str, Any]:
        return {**self.stored._asdict(), "question": self.question}


@dataclass(frozen=True)
class _McpRow:
    """A recorded call to an MCP server."""

    calls: Sequence[McpCall]
    """The answers to equal calls; none if the file is not what the index says."""
    stored: StoredExchange
    findings: Sequence[Finding] = ()

    @property
    def cells(self) -> tuple[str, str, str]:
        """The key, the server, and what was asked."""
        if not self.calls:
            return self.stored.key, "", _of_scope(self.stored.scope) + _DAMAGED
        first = self.calls[0]
        several = f" ({len(self.calls)} answers)" if self.calls[1:] else ""
        asked = output.escape(output.redact(first.what)) + several
        return self.stored.key, f"mcp {first.server}", _of_scope(self.stored.scope) + asked

    def to_dict(self) -> dict[str, Any]:
        if not self.calls:
            return {**self.stored._asdict(), "server": None, "question": None}
        first = self.calls[0]
        return {
            **self.stored._asdict(),
            "server": first.server,
            "method": first.method,
            "tool": first.tool,
            "parameters": first.parameters,
            "question": first.what,
            "answers": len(self.calls),
            "runs": list(dict.fromkeys(call.run for call in self.calls)),
            "causes": [None if call.cause is None else call.cause._asdict() for call in self.calls],
        }


@dataclass(frozen=True)
class _Filter:
    """What is to be listed."""

    model: str | None
    scope: str | None
    server: str | None
    tool: str | None
    cause: str | None
    runs: tuple[str, ...]
    caused: frozenset[str] | None = None
    """The keys of calls that the answers to the prompt made."""

    @property
    def is_of_mcp(self) -> bool:
        """Whether only calls to MCP servers can fit."""
        return (self.server, self.tool, self.cause) != (None, None, None)

    def takes_scope(self, scope: str) -> bool:
        return self.scope is None or (bool(scope) and fnmatchcase(scope, self.scope))

    def takes_call(self, call: McpCall) -> bool:
        return (
            (self.server is None or fnmatchcase(call.server, self.server))
            and (self.tool is None or (call.tool is not None and fnmatchcase(call.tool, self.tool)))
            and (self.caused is None or call.key in self.caused)
        )


@command(
    "list",
    epilog="""Examples:

  cortex-replay list
  cortex-replay list --model 'claude-*'
  cortex-replay list --scope 'tests/test_chat.py::*'
  cortex-replay list --server files --tool 'read_*'   calls of these tools of an MCP server
  cortex-replay list --cause 3f2a91                   calls that this prompt's answers caused
  cortex-replay list --run latest                     what the latest run recorded
  cortex-replay list --json | jq -r '.[] | [.question, .path] | @tsv'

Exit status:
  0  the recordings are listed, possibly none
  1  the store could not be opened
  2  wrong usage
  3  no run and no test has the name that --run gives
  5  the store is not what its index says
""",
)
@store_option
@click.option("--model", metavar="PATTERN", help="Only models that match this pattern ('*' and '?').")
@click.option(
    "--scope", metavar="PATTERN", help="Only what scopes (tests) whose names match have of their own."
)
@click.option("--server", metavar="PATTERN", help="Only calls to MCP servers whose names match.")
@click.option("--tool", metavar="PATTERN", help="Only calls to MCP tools whose names match.")
@click.option("--cause", metavar="HASH", help="Only MCP calls caused by answers to this prompt.")
@click.option(
    "--run", "runs", metavar="RUN", multiple=True, help="Only what this run recorded: `latest`, or its id."
)
@click.option("--mcp", "with_mcp", is_flag=True, help="With --json, list calls to MCP servers, too.")
@json_option
@click.pass_context
def list_command(
    ctx: click.Context, /, store: Path | None, as_json: bool, with_mcp: bool, **filters: Any
) -> None:
    """List the recordings: prompt hash, model, question.

    Calls to MCP servers follow: key, server, what was called. What a test or another scope has of its own is
    listed with its name. The question is the first line of what the user said last. At a terminal it is
    shortened to fit. With --json each recording has its whole hash and its file as well; there, MCP calls
    servers are listed if you name --mcp, --server, --tool or --cause.
    """
    wanted = _Filter(**filters)
    rows = _read(ctx, store_root(ctx, store), wanted, with_mcp=with_mcp or not as_json)
    findings = [finding for row in rows for finding in row.findings]
    settle(ctx, FixtureIntegrityFailed.exit_code if findings else 0)
    if as_json:
        output.print_json([row.to_dict() for row in rows])
    else:
        output.echo_lines(_lines(rows, terminal_width()))
    if findings and as_json:
        output.print_error(FixtureIntegrityFailed(findings), as_json=True)
    elif findings:
        output.print_findings(findings, err=True)
    ctx.exit(FixtureIntegrityFailed.exit_code if findings else 0)


def _read(ctx: click.Context, root: Path, wanted: _Filter, *, with_mcp: bool) -> list[_Row | _McpRow]:
    with progress_bar("reading") as progress:
        opened = Store.open(root, verify="on-read")
        of_runs = _paths_of(ctx, opened, wanted.runs) if wanted.runs else None
        if wanted.cause is not None:
            wanted = replace(wanted, caused=_caused_by(opened, wanted.cause.lower()))
        stored_fixtures = [
            stored
            for stored in opened.list(scoped=True)
            if not wanted.is_of_mcp
            and (wanted.model is None or fnmatchcase(stored.model, wanted.model))
            and wanted.takes_scope(stored.scope)
            and (of_runs is None or stored.path in of_runs)
        ]
        rows: list[_Row | _McpRow] = []
        for done, stored in enumerate(stored_fixtures, start=1):
            rows.append(_row(opened, stored))
            if progress is not None:
                progress(done, len(stored_fixtures))
        if wanted.is_of_mcp or (with_mcp and wanted.model is None):
            rows += _mcp_rows(opened, wanted, of_runs)
    return rows


def _paths_of(ctx: click.Context, store: Store, runs: Sequence[str]) -> set[str]:
    """The files of what runs recorded."""
    try:
        calls: list[HistoryCall | McpCall] = [*read_calls(store).calls, *read_mcp_calls(store)]
        return {call.path for call in choose_calls(calls, runs)}
    except UnknownRun as error:
        end_without_fixture(ctx, output.escape(str(error)))


def _caused_by(store: Store, start: str) -> frozenset[str]:
    """The keys of calls that the answers to a prompt made, by the start of its hash."""
    every = read_mcp_calls(store)
    calls = [call for call in read_calls(store).calls if call.prompt_hash.startswith(start)]
    named = [call for call in every if call.cause is not None and call.cause.prompt_hash.startswith(start)]
    return frozenset(call.key for call in (*calls_made(calls, every), *named))


def _mcp_rows(store: Store, wanted: _Filter, of_runs: set[str] | None) -> list[_McpRow]:
    rows = []
    for stored in store.list_exchanges():
        if wanted.takes_scope(stored.scope) and (of_runs is None or stored.path in of_runs):
            try:
                calls = answers_to(store, stored)
            except FixtureIntegrityFailed as error:  # it proves nothing; the others are what they are
                rows.append(_McpRow((), stored, error.issues))
                continue
            if any(map(wanted.takes_call, calls)):
                rows.append(_McpRow(calls, stored))
    return rows


def _row(store: Store, stored: StoredFixture) -> _Row:
    try:
        return _Row(stored, question_of(store.get(stored.model, stored.prompt_hash, stored.scope).request))
    except FixtureIntegrityFailed as error:  # the others are what they are all the same
        return _Row(stored, None, error.issues)


def _lines(rows: Sequence[_Row | _McpRow], columns: int | None) -> Iterator[str]:
    cells = [row.cells for row in rows]
    # Secrets first: half of one would not be known for one.
    names = [shorten(output.escape(output.redact(name)), _MODEL_SHOWN) for _, name, _ in cells]
    width = max(map(len, names), default=0)
    room = None if columns is None else max(columns - _HASH_SHOWN - width - 4, _LEAST_SHOWN)
    for (key, _, asked), name in zip(cells, names, strict=True):
        shown = asked if room is None else shorten(asked, room)
        yield f"{key[:_HASH_SHOWN]}  {name.ljust(width)}  {shown}".rstrip()


def _of_scope(scope: str) -> str:
    return f"[{output.escape(output.redact(scope))}] " if scope else ""
