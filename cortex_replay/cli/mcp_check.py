"""``cortex-replay mcp check``."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.progress import wait_line
from cortex_replay.engine.exchanges import look_up_call
from cortex_replay.engine.mcp.link import Said, ServerLink, words_of
from cortex_replay.engine.mcp.survey import Page, Survey, survey
from cortex_replay.engine.staging import clean_wire
from cortex_replay.errors import NoFixture, Transport
from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.tool_contracts import (
    ContractChange,
    RecordedServer,
    judge_offer,
    read_server,
    servers_in,
)
from cortex_replay.history.tool_costs import PromptCost, costs_of_changes
from cortex_replay.mcp.offers import LISTS, Offer
from cortex_replay.mcp.questions import question_of
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.run import Run
from cortex_replay.run.mcp.http.server import ClientHeaders
from cortex_replay.run.mcp.stdio.process import ProcessLink
from cortex_replay.store.exchange import Exchange

__all__ = ["check_command"]

_MOST_SHOWN: Final = 5
_MOST_SAID: Final = 2000
_SECONDS: Final = 60.0
_GRACE_S: Final = 0.5
"""For a server to end by itself: it has told all that we want to know."""


class _CheckCommand(options.RunnerCommand):
    """Its options may stand behind the name."""

    allow_interspersed_args = True

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- SERVER ...]"]


@click.command(
    "check",
    cls=_CheckCommand,
    epilog="""Examples:

  cortex-replay mcp check files -- npx -y @modelcontextprotocol/server-filesystem .
  cortex-replay mcp check search --url https://search.example.com/mcp --breaking
  cortex-replay mcp check files --json -- npx some-server | jq -r '.changes[].text'

Exit status:
  0  the server offers what is recorded
  1  the server cannot be started or reached, or the store cannot be opened
  2  wrong usage
  3  nothing is recorded of the server, or no list of what it offers
  4  something changed
  5  the store is not what its index says
""",
)
@click.argument("name")
@options.store_option
@click.option("--url", metavar="URL", help="The server's URL, if it is reached over HTTP.")
@click.option("--breaking", is_flag=True, help="Exit with 4 only if a recorded call may be wrong now.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    default=_SECONDS,
    show_default=True,
    help="How long to wait in all.",
)
@options.json_option
@click.pass_context
def check_command(
    ctx: click.Context,
    /,
    name: str,
    store: Path | None,
    url: str | None,
    breaking: bool,
    seconds: float,
    as_json: bool,
) -> None:
    """Compare what an MCP server offers now with what is recorded, and tell which recordings that touches.

    It starts the server, asks for its tools, prompts and resource templates, and calls none of them. Nothing
    is written. A provider of the kind mcp needs neither --url nor a command.
    """
    command = options.command_after_dashes(ctx)
    run = Run.open(mode="replay", store=options.store_root(ctx, store))
    connect = _way_to(run, name, command, url)
    calls = read_mcp_calls(run.store)
    recorded = read_server(run.store, name, calls)
    if not recorded.offers:
        _tell_of_nothing(ctx, name, bool(recorded.calls), servers_in(calls), as_json=as_json)
    found = asyncio.run(_ask(recorded, connect, seconds))
    now = Offer.of_pages(_stored_form(run, name, found.pages))
    prompts = read_calls(run.store).calls
    changes = judge_offer(recorded, now, prompts)
    costs = list(_costs(run, recorded, now, prompts)) if changes else []
    is_wrong = any(one.change.is_breaking for one in changes) if breaking else bool(changes)
    status = options.DRIFT if is_wrong else 0
    options.settle(ctx, status)
    if as_json:
        output.print_json(
            {
                "server": name,
                "says": found.server,
                "changes": [one.to_dict() for one in changes],
                "breaking": sum(one.change.is_breaking for one in changes),
                "cache": [cost.to_dict() for cost in costs],
            }
        )
    else:
        _print(name, found.server, changes, costs)
    ctx.exit(status)


def _way_to(run: Run, name: str, command: Sequence[str], url: str | None) -> _Connect:
    if command and url:
        raise click.UsageError("give --url or a command behind --, not both")
    if command:
        return lambda: _start(command)
    http = run.desk().http
    if url:
        http.add(name, url)
    elif name not in http.names:
        raise click.UsageError(
            f"give the server behind --, or its --url: cortex-replay mcp check {name} -- npx some-server"
        )
    return http.connect(name, ClientHeaders())


_Connect = Callable[[], Any]


def _tell_of_nothing(
    ctx: click.Context, name: str, has_calls: bool, known: Sequence[str], *, as_json: bool
) -> None:
    """There is nothing to compare with."""
    what = "no list of what it offers is recorded of the server" if has_calls else "nothing is recorded of"
    others = "" if has_calls else f" (recorded: {', '.join(known) or 'no server'})"
    reason = f"{what} {name}{others}"
    if as_json:
        output.print_json({"server": name, "error": reason})
    output.talk(f"error: {output.escape(reason)}")
    ctx.exit(NoFixture.exit_code)


async def _ask(recorded: RecordedServer, connect: _Connect, seconds: float) -> Survey:
    """What the server says now.

    Raises:
        Transport: It cannot be reached, ends, or takes too long.
    """
    kinds = {kind for one in recorded.offers for kind in one.offer.lists}
    methods = [method for method, about in LISTS.items() if about.kind in kinds]
    asked = "it was started"
    with wait_line() as show:

        def tell(method: str) -> None:
            nonlocal asked
            asked = f"it was asked {method}"
            show(f"{recorded.name}: {method}")

        show(f"{recorded.name}: starting")
        try:
            async with asyncio.timeout(seconds):
                link: ServerLink = await connect()
                return await survey(
                    link, methods, recorded.handshake, is_modern=recorded.is_modern, tell=tell
                )
        except TimeoutError:
            problem = f"no answer within {seconds:g} s; the last thing was that {asked} (--seconds)"
            raise Transport(f"{recorded.name}: {problem}") from None


async def _start(command: Sequence[str]) -> ServerLink:
    with _LastWords() as words:
        link = await ProcessLink.start(command, errors=words.descriptor, grace_s=_GRACE_S)
    return _Spoken(link, words)


class _LastWords:
    """What a server prints for people; shown if it ends too early, and else not: it may print anything."""

    def __init__(self) -> None:
        self._read, self.descriptor = os.pipe()
        self._said = b""
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def _keep(self) -> None:
        while data := os.read(self._read, 65536):
            self._said = (self._said + data)[-_MOST_SAID:]
        os.close(self._read)

    def text(self) -> str:
        """The end of it."""
        self._thread.join(1.0)
        return self._said.decode(errors="replace").strip()


class _Spoken:
    """A link that says what its server printed, if it ends too early."""

    def __init__(self, link: ServerLink, words: _LastWords) -> None:
        self._link = link
        self._words = words
        self.close = link.close

    async def send(self, frame: bytes) -> None:
        try:
            await self._link.send(frame)
        except Transport as error:
            raise self._with_words(error) from None

    async def frames(self) -> AsyncIterator[Said]:
        try:
            async for said in self._link.frames():
                yield said
        except Transport as error:
            raise self._with_words(error) from None

    def _with_words(self, error: Transport) -> Transport:
        printed = self._words.text()
        problem = words_of(error)
        return Transport(f"{problem}; it printed: {printed}" if printed else problem)


def _stored_form(run: Run, name: str, pages: Iterable[Page]) -> Iterator[tuple[str, Any]]:
    """Answers as a recording would hold them: without secrets, with placeholders for bound values."""
    scope = run.counting_scope()
    for page in pages:
        look = look_up_call(scope, question_of(name, page.method, page.parameters))
        wire = clean_wire({"messages": [{"at_ms": 0, "result": page.result}]}, run.redactor)
        match look.bind(Exchange(wire, key=look.key)).wire:
            case {"messages": [{"result": result}]}:
                yield page.method, result


def _costs(
    run: Run, recorded: RecordedServer, now: Offer, prompts: Sequence[HistoryCall]
) -> Iterator[PromptCost]:
    settings = run.settings
    tariff = Tariff.for_models({call.model for call in prompts}, settings.prices, settings.currency)
    yield from costs_of_changes(prompts, recorded, now, tariff)


def _print(name: str, says: str, changes: Sequence[ContractChange], costs: Sequence[PromptCost]) -> None:
    shown = output.escape(f"{name} ({says})" if says else name)
    if not changes:
        output.echo(f"{shown} offers what is recorded.")
        return
    for title, group in groupby(changes, lambda one: f"{one.change.of} {one.change.name}"):
        output.echo(click.style(output.escape(title), bold=True))
        ones = list(group)
        for change in (one.change for one in ones):
            what = "" if change.what in ("added", "removed", "renamed") else f"{change.what}: "
            mark = "  (breaking)" if change.is_breaking else ""
            output.echo(f"  {output.escape(what + change.text)}{mark}")
        for line in _touched_lines(ones):
            output.echo(f"  {line}")
    for line in _cost_lines(costs):
        output.echo(output.escape(line))
    output.talk(f"{shown}: {_summary(changes)}")


def _touched_lines(changes: Sequence[ContractChange]) -> Iterator[str]:
    """What the changes of one tool touch."""
    calls = {(call.path, call.answer) for one in changes for call in one.calls}
    misfits = {(call.path, call.answer): call for one in changes for call in one.misfits}
    prompts = {path for one in changes for path in one.prompts}
    if calls:
        told = f"touches {output.count(calls, 'recorded call')}"
        yield told + (f", {len(misfits)} of which it would refuse now:" if misfits else "")
        for call in list(misfits.values())[:_MOST_SHOWN]:
            yield "  " + output.escape(f"{call.path}  {call.what}: {call.problem}")
        if len(misfits) > _MOST_SHOWN:
            yield f"  … and {len(misfits) - _MOST_SHOWN} more"
    if prompts:
        yield f"{output.count(prompts, 'recorded prompt')} {'offers' if len(prompts) == 1 else 'offer'} it"


def _cost_lines(costs: Sequence[PromptCost]) -> Iterator[str]:
    """What the changes do to prompt caches; the dearest prompt stands for all."""
    if not costs:
        return
    most = max(costs, key=lambda one: one.cost.tokens)
    about = "about " if most.cost.is_estimate else ""
    yield "prompt cache"
    yield (
        f"  Tools stand in front of a prompt, so {output.count(costs, 'recorded prompt')} would not find "
        "in the cache what stands behind the first tool that changed."
    )
    yield (
        f"  The first call after the change pays again for up to {about}{most.cost.tokens:,} cached tokens "
        f"({most.path}): {most.cost.per_call}."
    )


def _summary(changes: Sequence[ContractChange]) -> str:
    breaking = sum(one.change.is_breaking for one in changes)
    calls = {(call.path, call.answer) for one in changes for call in one.calls}
    refused = {(call.path, call.answer) for one in changes for call in one.misfits}
    prompts = {path for one in changes for path in one.prompts}
    told = [f"{output.count(changes, 'change')}" + (f" ({breaking} breaking)" if breaking else "")]
    told += [f"{output.count(calls, 'recorded call')} touched"] if calls else []
    told += [f"{len(refused)} refused by the server of today"] if refused else []
    told += [f"{output.count(prompts, 'recorded prompt')} touched"] if prompts else []
    return ", ".join(told) + "; record again to take them over"
