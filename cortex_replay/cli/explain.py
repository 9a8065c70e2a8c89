"""``cortex-replay explain``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import complete_fixture, find_fixture
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.story import outcome_lines
from cortex_replay.config import load_settings
from cortex_replay.history.cache_rules import cache_provider
from cortex_replay.history.calls import read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.story import ToolOutcome, tool_uses
from cortex_replay.history.tool_costs import ToolEdit, tool_edits
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.costs import Cost, Tariff
from cortex_replay.prompt.explain import (
    CacheHit,
    Explanation,
    PromptComparison,
    compare,
    explain,
)
from cortex_replay.prompt.parts import goes_on, parts_of
from cortex_replay.store import Store, StoredFixture
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["explain_command"]

_MOST_FIXTURES = 2


@command(
    "explain",
    epilog="""Examples:

  cortex-replay explain 3f2a91                 one prompt: its parts, their sizes, what is cached
  cortex-replay explain 3f2a91 77aa01          what changed, and where the shared prefix ends
  cortex-replay explain 3f2a91 --json | jq .parts

Exit status:
  0  the prompt is explained
  1  the store could not be opened, or the fixture does not hold its request
  2  wrong usage, or several fixtures fit
  3  no fixture fits
  5  the store is not what its index says
""",
)
@click.argument(
    "fixtures", nargs=-1, required=True, metavar="FIXTURE [FIXTURE]", shell_complete=complete_fixture
)
@store_option
@click.option("--model", help="Only this model, where several have the same prompt.")
@json_option
@click.pass_context
def explain_command(
    ctx: click.Context, fixtures: tuple[str, ...], store: Path | None, model: str | None, as_json: bool
) -> None:
    """Explain a recorded prompt: its parts, their sizes, what each provider would cache.

    FIXTURE is the start of a prompt hash, or the path of a file as INDEX.toml has it. With two, you
    see what changed from the first to the second, and what the second would still find in the cache.

    Where the recording has the provider's count, the parts share it; otherwise sizes are estimates, at
    four bytes a token. The cost of an edit is in money if you set prices for the model, else in input
    tokens.

    Where it offers tools of MCP servers that describe them otherwise by now, you see what the new words
    cost the cache.

    Where its answers call tools, you see which calls to MCP servers that caused, and which later prompt has
    the results.
    """
    if len(fixtures) > _MOST_FIXTURES:
        raise click.UsageError(f"explain takes one fixture or two, not {len(fixtures)}")
    opened = Store.open(store_root(ctx, store), verify="on-read")
    found = [find_fixture(ctx, opened, wanted, model) for wanted in fixtures]
    prompts = [_prompt(opened, stored) for stored in found]
    settings = load_settings(Path(), os.environ).settings
    tariff = Tariff.for_models({stored.model for stored in found}, settings.prices, settings.currency)
    compared = _compare(prompts, tariff) if prompts[1:] else None
    if not as_json:
        lines = (
            chain(
                _explanation_lines(prompts[0], tariff),
                _tool_edit_lines(_tool_edits(opened, prompts[0], tariff)),
                outcome_lines(_tool_outcomes(opened, found[0])),
            )
            if compared is None
            else _comparison_lines(compared, prompts, tariff)
        )
        for line in lines:
            output.echo(line)
        return
    values = [
        {
            **prompt.to_dict(tariff),
            "tool_edits": [edit.to_dict() for edit in _tool_edits(opened, prompt, tariff)],
            "tool_calls": [outcome.to_dict() for outcome in _tool_outcomes(opened, prompt.stored)],
        }
        for prompt in prompts
    ]
    if compared is None:
        output.print_json(values[0])
    else:
        output.print_json({"first": values[0], "second": values[1], "comparison": compared.to_dict()})


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A recorded prompt, and what is known of its call."""

    stored: StoredFixture
    request: LlmRequest
    usage: TokenUsage | None
    provider: Provider | None
    """Whose cache it met."""

    def explain(self, tariff: Tariff) -> Explanation:
        return explain(self.request, self.usage, self.provider, tariff)

    def to_dict(self, tariff: Tariff) -> dict[str, Any]:
        place = {"path": self.stored.path, "prompt_hash": self.stored.prompt_hash}
        return {**place, "provider": self.provider, **self.explain(tariff).to_dict()}


def _tool_outcomes(store: Store, stored: StoredFixture) -> list[ToolOutcome]:
    """What the tool calls of its answers caused; the whole store is read for it."""
    answers = store.get(stored.model, stored.prompt_hash).answers
    if not any(answer.tool_calls for answer in answers):
        return []
    return tool_uses(read_calls(store).calls, read_mcp_calls(store), stored.path)


def _compare(prompts: Sequence[_Prompt], tariff: Tariff) -> PromptComparison:
    first, second = prompts
    return compare(first.request, second.request, (first.usage, second.usage), first.provider, tariff)


def _prompt(store: Store, stored: StoredFixture) -> _Prompt:
    fixture = store.get(stored.model, stored.prompt_hash)
    if fixture.request is None:
        raise click.ClickException(
            f"{output.escape(stored.path)} does not hold its request (crtx-llm writes none), "
            "so there is nothing to explain"
        )
    request = restore_breakpoints(fixture.request, fixture.meta)
    provider = cache_provider(stored.model, fixture.meta or {})
    if provider is None and any(part.cache.is_cached for part in parts_of(request).parts):
        provider = "anthropic"  # nobody else reads markers
    return _Prompt(stored, request, fixture.answers[0].usage, provider)


def _tool_edits(store: Store, prompt: _Prompt, tariff: Tariff) -> list[ToolEdit]:
    """The tools of MCP that the prompt describes otherwise than their servers were last recorded to."""
    if not prompt.request.tools:
        return []
    calls = read_mcp_calls(store)
    return list(tool_edits(store, prompt.request, prompt.provider, prompt.usage, tariff, calls))


def _tool_edit_lines(edits: Sequence[ToolEdit]) -> Iterator[str]:
    if not edits:
        return
    yield ""
    yield click.style("Tools that their servers describe otherwise, as they were recorded last", bold=True)
    for edit in edits:
        yield output.escape(f"  {edit.tool} of {edit.server}: {edit.text}")
        if edit.cost is not None:
            yield output.escape(f"    {edit.cost}")
    if any(edit.cost is not None for edit in edits):
        yield "Tools stand in front of a prompt: nothing behind one that changed is found in the cache."


def _explanation_lines(prompt: _Prompt, tariff: Tariff) -> Iterator[str]:
    explained = prompt.explain(tariff)
    yield _title(prompt.stored)
    yield ""
    heads = ["part", "tokens", "up to here", "bytes", "breakpoint"]
    rows = [
        [
            part.name,
            f"{part.tokens:,}",
            f"{part.up_to_here:,}",
            f"{part.bytes:,}",
            part.breakpoint.value if part.breakpoint.is_cached else "",
        ]
        for part in explained.parts
    ]
    edits = [part.edit for part in explained.parts]
    if any(edits):
        heads += ["an edit costs", "per thousand"]
        rows = [
            [*row, *(["", ""] if edit is None else [_amount(edit.per_call), _amount(edit.per_thousand)])]
            for row, edit in zip(rows, edits, strict=True)
        ]
    yield from _table(heads, rows)
    yield ""
    yield _size_line(explained)
    if goes_on(prompt.request):
        yield "It goes on from what the provider held; `cortex-replay cache` puts that in front of it."
    if any(edits):
        yield f"What an edit costs is in {_unit(tariff)}: what was cached from there on is paid again."
        yield from _assumed_lines(prompt, tariff)
    yield ""
    yield click.style("The same prompt again would find in the cache", bold=True)
    yield from _cache_lines(explained.cached)
    usage = explained.usage
    if usage is not None and (usage.cached_tokens is not None or usage.cache_write_tokens is not None):
        read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        yield f"The recorded call read {read:,} tokens from the cache and wrote {written:,}."
        has_breakpoints = any(part.breakpoint.is_cached for part in explained.parts)
        if (read or written) and prompt.provider == "anthropic" and not has_breakpoints:
            yield "Where its breakpoints stood was not recorded. Record it again to see what the cache does."


def _comparison_lines(
    compared: PromptComparison, prompts: Sequence[_Prompt], tariff: Tariff
) -> Iterator[str]:
    yield f"first   {_title(prompts[0].stored)}"
    yield f"second  {_title(prompts[1].stored)}"
    yield ""
    rows = [
        (
            change.name,
            "" if change.change == "added" else f"{change.tokens_before:,}",
            "" if change.change == "removed" else f"{change.tokens_after:,}",
            change.change,
        )
        for change in compared.parts
    ]
    yield from _table(("part", "first", "second", "change"), rows)
    for name, before, after in compared.settings:
        yield f"{output.escape(name)}: {_value(before)} became {_value(after)}"
    yield ""
    where = (
        "everything in the first"
        if compared.first_change is None
        else f"it ends in or before {output.escape(compared.first_change)}"
    )
    count = f"{compared.shared_parts:,} whole part" + ("" if compared.shared_parts == 1 else "s")
    yield f"Shared prefix: {count}, about {compared.shared_tokens:,} tokens; {where}."
    if compared.diff:
        yield ""
        yield output.quote(compared.diff)
    if compared.edit is not None:
        yield output.escape(str(compared.edit))
        yield from _assumed_lines(prompts[0], tariff)
    if compared.looks_like:
        yield f"What changed looks like {compared.looks_like}. Put it behind everything that is to be cached."
    yield ""
    yield click.style("After the first, the second would find in the cache", bold=True)
    yield from _cache_lines(compared.cached)


def _title(stored: StoredFixture) -> str:
    return f"{output.escape(stored.model)}  {stored.prompt_hash[:16]}  {output.escape(stored.path)}"


def _amount(cost: Cost) -> str:
    return f"{round(cost.value):,}" if cost.unit == "tokens" else f"{float(cost.value):,.4f}"


def _assumed_lines(prompt: _Prompt, tariff: Tariff) -> Iterator[str]:
    """Which prices the user did not give."""
    if prompt.provider is None:
        return
    names = list(tariff.rates(prompt.provider, prompt.stored.model).assumed)
    if names:
        listed = " and ".join([*[", ".join(names[:-1])] * bool(names[1:]), *names[-1:]])
        yield f"The prices of {listed} are not configured; they follow from input, by the provider's factors."


def _unit(tariff: Tariff) -> str:
    if tariff.unit == "tokens":
        return "input tokens"
    return output.escape(tariff.currency) if tariff.currency else "the currency of your prices"


def _size_line(explained: Explanation) -> str:
    if explained.is_counted:
        return f"{explained.tokens:,} tokens by the provider's count; the parts share it in proportion."
    return f"About {explained.tokens:,} tokens, estimated: one for every four bytes."


def _cache_lines(cached: Iterable[CacheHit]) -> Iterator[str]:
    for entry in cached:
        yield f"  {entry.provider:<10} {entry.tokens:>9,} tokens  {output.escape(entry.why)}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of text on the left and of numbers on the right."""
    shown = [[output.escape(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(heads), *shown]) for i in range(len(heads))]
    is_number = [head not in ("part", "breakpoint", "change") for head in heads]
    for i, row in enumerate([list(heads), *shown]):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        line = "  ".join(cells).rstrip()
        yield click.style(line, dim=True) if i == 0 else line


def _value(value: object) -> str:
    return output.escape(json.dumps(value, ensure_ascii=False))
