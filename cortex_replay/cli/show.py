"""``cortex-replay show``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import (
    complete_fixture,
    end_without_fixture,
    find_fixture,
    find_mcp_call,
    fixtures_like,
)
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.cli.questions import terminal_width
from cortex_replay.cli.story import call_lines, message_lines, story_lines
from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.mcp_calls import McpCall, answers_to, read_mcp_calls
from cortex_replay.history.runs import UnknownRun, choose_calls, may_name_run
from cortex_replay.history.story import tell_story
from cortex_replay.store import Answer, Fixture, Store, StoredFixture
from cortex_replay.store.fixture import RequestLink
from cortex_replay.store.fixture_json import parse_fixture
from cortex_replay.store.reader import StoredExchange
from cortex_replay.types import JsonValue, LlmMessage, LlmRequest, ToolCall

__all__ = ["show_command"]


@command(
    "show",
    epilog="""Examples:

  cortex-replay show 3f2a91                        by the start of its prompt hash
  cortex-replay show fixtures/m/3f2a91-77aa01.json  by its file
  cortex-replay show 3f2a91 --json                 its JSON, once it is trusted, with the whole request
  cortex-replay show 3f2a91 --json --raw           the file as it is stored: the new messages, and a link
  cortex-replay show 3f2a91 --scope tests/test_chat.py::test_hello   what this test gets
  cortex-replay show latest                        the story of the latest run that recorded something
  cortex-replay show 20261116T0630                 of the run whose id begins so
  cortex-replay show --run 'tests/test_agent.py::*'   of what these tests recorded, in whatever run
  cortex-replay show latest --json | jq '.steps[]'

Exit status:
  0  the recording or the run is shown
  1  the store could not be opened
  2  wrong usage, or several recordings fit
  3  no recording and no run fits
  5  the store is not what its index says
""",
)
@click.argument("fixture", required=False, metavar="[FIXTURE|RUN]", shell_complete=complete_fixture)
@store_option
@click.option("--model", help="Only this model, where several have the same prompt.")
@click.option("--scope", metavar="NAME", default="", help="What this test, or other scope, gets.")
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="The story of this run, or of this test.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Print texts as they are, control characters included; with --json the file itself.",
)
@json_option
@click.pass_context
def show_command(
    ctx: click.Context,
    fixture: str | None,
    store: Path | None,
    model: str | None,
    scope: str,
    runs: tuple[str, ...],
    raw: bool,
    as_json: bool,
) -> None:
    """Show one recording, or the story of a run.

    FIXTURE is the start of a prompt hash, or of the key of a call to an MCP server, or the path of a file as
    INDEX.toml has it: you see prompt, answers, usage, where it came from; of a call to an MCP server every
    message, and the model's tool call that caused it.

    RUN is `latest`, the id of a recording run or the start of one, or `all`: you see its calls to models and
    to MCP servers in order, what caused which, and where results came back.
    """
    if (fixture is None) is not bool(runs):
        raise click.UsageError("name one recording or one run, such as: cortex-replay show latest")
    opened = Store.open(store_root(ctx, store), verify="on-read")
    if fixture is None:
        _show_story(ctx, opened, runs, as_json=as_json)
        return
    if not fixtures_like(opened, fixture, model, scope):
        if (call := find_mcp_call(opened, fixture, scope)) is not None:
            _show_mcp_call(opened, call, raw=raw, as_json=as_json)
            return
        if may_name_run(fixture):
            _show_story(ctx, opened, [fixture], as_json=as_json)
            return
    stored = find_fixture(ctx, opened, fixture, model, scope)
    key = (stored.model, stored.prompt_hash, stored.scope)
    content = opened.content(*key)
    if as_json and raw:
        output.print_file(content)
        return
    if as_json:
        output.print_json_text(opened.whole_content(*key).decode())
        return
    links = _link_facts(opened, stored, parse_fixture(content).link)
    facts = [*links, *_scopes_of(opened, stored)]
    lines = _lines(opened.get(*key), stored, facts, len(content), raw)
    output.echo("\n".join(lines), raw=raw)


def _show_story(ctx: click.Context, store: Store, runs: Sequence[str], *, as_json: bool) -> None:
    with progress_bar("reading") as progress:
        calls: list[HistoryCall | McpCall] = [*read_calls(store, progress).calls]
        every = read_mcp_calls(store)
    if not calls and not every:
        end_without_fixture(ctx, "nothing is recorded here; `cortex-replay record` records calls")
    try:
        chosen = choose_calls([*calls, *every], runs)
    except UnknownRun as error:
        end_without_fixture(ctx, output.escape(str(error)))
    story = tell_story(
        [call for call in chosen if isinstance(call, HistoryCall)],
        [call for call in chosen if isinstance(call, McpCall)],
        every,
    )
    if as_json:
        output.print_json(story.to_dict())
    else:
        output.echo_lines(story_lines(story, terminal_width()))


def _show_mcp_call(store: Store, stored: StoredExchange, *, raw: bool, as_json: bool) -> None:
    content = store.exchange_content(stored)
    if as_json and raw:
        output.print_file(content)
    elif as_json:
        output.print_json_text(content.decode())
    else:
        lines = _mcp_call_lines(answers_to(store, stored), stored, len(content), raw)
        output.echo("\n".join(lines), raw=raw)


def _mcp_call_lines(
    answers: Sequence[McpCall], stored: StoredExchange, size: int, raw: bool
) -> Iterator[str]:
    first = answers[0]
    facts = [
        ("server", first.server),
        ("method", first.method),
        ("key", stored.key),
        ("file", f"{stored.path} ({size:,} bytes)"),
        ("blake3", stored.blake3),
        *([("given to", stored.scope)] if stored.scope else []),
        *([("bindings", ", ".join(first.bindings))] if first.bindings else []),
    ]
    yield from _fact_lines(facts)
    asked = json.dumps(first.parameters, ensure_ascii=False, indent=2)
    yield from _section(first.what, asked if first.parameters else "", raw)
    for answer in answers:
        yield from call_lines(answer, f" {answer.answer} of {len(answers)}" if answers[1:] else "")
        yield from message_lines(answer, raw=raw)


def _fact_lines(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in facts:
        yield f"{click.style(output.escape(name).ljust(13), dim=True)} {output.escape(text)}"


def _link_facts(store: Store, stored: StoredFixture, link: RequestLink | None) -> list[tuple[str, str]]:
    """Where the rest of a request is that does not stand in its file whole."""
    if link is None:
        return []
    if link.continues is None:
        return [(name, f"in the part {digest}, perhaps shared") for name, digest in link.parts.items()]
    parent = next(iter(fixtures_like(store, link.continues, stored.model, stored.scope)), None)
    new = output.count(link.messages, "new message")
    where = "" if parent is None else f" in {parent.path}"
    return [("continues", f"{link.continues}{where}, with {new}")]


def _scopes_of(store: Store, stored: StoredFixture) -> list[tuple[str, str]]:
    """Who gets this file, and who gets another to the same question."""
    key = (stored.model, stored.prompt_hash)
    same = [item for item in store.list(scoped=True) if item[:2] == key]
    holders = [item.scope or "all others" for item in same if item.path == stored.path]
    others = [f"{item.scope or 'all others'}: {item.path}" for item in same if item.path != stored.path]
    if len(same) == 1 and not same[0].scope:
        return []
    return [("given to", name) for name in holders] + [("another for", name) for name in others]


def _lines(
    fixture: Fixture, stored: StoredFixture, places: list[tuple[str, str]], size: int, raw: bool
) -> Iterator[str]:
    meta = fixture.meta or {}
    facts = [
        ("model", stored.model),
        ("prompt hash", stored.prompt_hash),
        ("file", f"{stored.path} ({size:,} bytes)"),
        ("blake3", stored.blake3),
        *places,
        *((name.replace("_", " "), _one_line(value)) for name, value in meta.items()),
    ]
    yield from _fact_lines(facts)
    if fixture.request is None:
        yield ""
        yield "The fixture does not hold its request (crtx-llm writes none)."
    else:
        yield from _request_lines(fixture.request, raw)
    for number, answer in enumerate(fixture.answers, start=1):
        of_several = f" {number} of {len(fixture.answers)}" if len(fixture.answers) > 1 else ""
        yield from _answer_lines(answer, f"answer{of_several}", raw)


def _request_lines(request: LlmRequest, raw: bool) -> Iterator[str]:
    if request.system:
        yield from _section("system", request.system, raw)
    for message in request.messages:
        yield from _message_lines(message, raw)
    plain = request.to_dict()
    settings = {name: value for name, value in plain.items() if name not in ("system", "messages")}
    yield from _section("settings", "\n".join(f"{k} = {_one_line(v)}" for k, v in settings.items()), raw)


def _message_lines(message: LlmMessage, raw: bool) -> Iterator[str]:
    title = message.role.value
    if message.tool_call_id is not None:
        title += f" (answers {message.tool_call_id}{', an error' if message.is_error else ''})"
    yield from _section(title, message.content, raw)
    for part in message.parts:
        yield output.quote(f"part: {_one_line(part)}", raw=raw)
    yield from _call_lines(message.tool_calls, raw)


def _answer_lines(answer: Answer, title: str, raw: bool) -> Iterator[str]:
    if answer.reasoning:
        yield from _section(f"{title}, reasoning", answer.reasoning, raw)
    yield from _section(title, answer.text, raw)
    yield from _call_lines(answer.tool_calls, raw)
    facts = [f"finished: {answer.finish_reason}"] if answer.finish_reason else []
    if answer.usage:
        facts += [f"{name.replace('_', ' ')}: {count}" for name, count in answer.usage.to_dict().items()]
    if answer.stream:
        facts.append(f"streamed in {len(answer.stream)} chunks over {answer.stream[-1].at_ms:g} ms")
    if facts:
        yield click.style(output.escape("; ".join(facts)), dim=True)


def _call_lines(calls: tuple[ToolCall, ...], raw: bool) -> Iterator[str]:
    for call in calls:
        name = f" ({call.id})" if call.id else ""
        yield output.quote(f"call {call.name}{name}: {_one_line(call.arguments)}", raw=raw)


def _section(title: str, text: str, raw: bool) -> Iterator[str]:
    yield ""
    yield click.style(output.escape(title), bold=True)
    if text:
        yield output.quote(text, raw=raw)


def _one_line(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
