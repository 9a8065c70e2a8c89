"""``cortex-replay explain``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import complete_fixture, find_fixture
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.prompt.explain import (
    CacheHit,
    Explanation,
    PromptComparison,
    compare,
    explain,
)
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

    FIXTURE is the start of a prompt hash, or the path of a file as INDEX.toml has it. With two, what
    changed from the first to the second, and what the second would still find in the cache.

    Sizes are the provider's own where the recording has its count, shared out among the parts;
    elsewhere a token is taken for four bytes.
    """
    if len(fixtures) > _MOST_FIXTURES:
        raise click.UsageError(f"explain takes one fixture or two, not {len(fixtures)}")
    opened = Store.open(store_root(ctx, store), verify="on-read")
    found = [find_fixture(ctx, opened, wanted, model) for wanted in fixtures]
    prompts = [_prompt(opened, stored) for stored in found]
    explained = [explain(request, usage) for request, usage in prompts]
    compared = compare(prompts[0][0], prompts[1][0], (prompts[0][1], prompts[1][1])) if prompts[1:] else None
    if as_json:
        values = [_json_of(explanation, stored) for explanation, stored in zip(explained, found, strict=True)]
        if compared is None:
            output.print_json(values[0])
        else:
            output.print_json({"first": values[0], "second": values[1], "comparison": asdict(compared)})
        return
    lines = (
        _explanation_lines(explained[0], found[0]) if compared is None else _comparison_lines(compared, found)
    )
    for line in lines:
        output.echo(line)


def _prompt(store: Store, stored: StoredFixture) -> tuple[LlmRequest, TokenUsage | None]:
    fixture = store.get(stored.model, stored.prompt_hash)
    if fixture.request is None:
        raise click.ClickException(
            f"{output.escape(stored.path)} does not hold its request (crtx-llm writes none), "
            "so there is nothing to explain"
        )
    return restore_breakpoints(fixture.request, fixture.meta), fixture.answers[0].usage


def _json_of(explanation: Explanation, stored: StoredFixture) -> dict[str, Any]:
    place = {"path": stored.path, "prompt_hash": stored.prompt_hash}
    return {**place, **asdict(explanation), "usage": explanation.usage and explanation.usage.to_dict()}


def _explanation_lines(explained: Explanation, stored: StoredFixture) -> Iterator[str]:
    yield _title(stored)
    yield ""
    rows = [
        (
            part.name,
            f"{part.tokens:,}",
            f"{part.up_to_here:,}",
            f"{part.bytes:,}",
            part.breakpoint.value if part.breakpoint.is_cached else "",
        )
        for part in explained.parts
    ]
    yield from _table(("part", "tokens", "up to here", "bytes", "breakpoint"), rows)
    yield ""
    yield _size_line(explained)
    yield ""
    yield click.style("The same prompt again would find in the cache", bold=True)
    yield from _cache_lines(explained.cached)
    usage = explained.usage
    if usage is not None and (usage.cached_tokens is not None or usage.cache_write_tokens is not None):
        read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        yield f"The recorded call read {read:,} tokens from the cache and wrote {written:,}."


def _comparison_lines(compared: PromptComparison, found: Sequence[StoredFixture]) -> Iterator[str]:
    yield f"first   {_title(found[0])}"
    yield f"second  {_title(found[1])}"
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
    if compared.looks_like:
        yield f"What changed looks like {compared.looks_like}. Put it behind everything that is to be cached."
    yield ""
    yield click.style("After the first, the second would find in the cache", bold=True)
    yield from _cache_lines(compared.cached)


def _title(stored: StoredFixture) -> str:
    return f"{output.escape(stored.model)}  {stored.prompt_hash[:16]}  {output.escape(stored.path)}"


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
    is_number = [head in ("tokens", "up to here", "bytes", "first", "second") for head in heads]
    for i, row in enumerate([list(heads), *shown]):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        line = "  ".join(cells).rstrip()
        yield click.style(line, dim=True) if i == 0 else line


def _value(value: object) -> str:
    return output.escape(json.dumps(value, ensure_ascii=False))
