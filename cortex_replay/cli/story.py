"""The story of a run, and of single calls to MCP servers, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set as AbstractSet
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.questions import question_of, shorten
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.history.mcp_words import arguments_line, message_line, result_line, text_line
from cortex_replay.history.story import McpStep, ModelStep, Story, ToolOutcome, ToolUse

__all__ = ["call_lines", "message_lines", "outcome_lines", "story_lines"]

_WIDTH: Final = 200
"""Of a line that goes to a file or a program."""
_LEAST_WIDTH: Final = 60
_HASH_SHOWN: Final = 12
_WHO_SHOWN: Final = 20
_Line = tuple[str, str]
"""A text that may be cut, and what stands behind it in any case."""
_MOST_READ: Final = 64 * 1024
"""Of a text that is shown in one line."""


def story_lines(story: Story, columns: int | None) -> Iterator[str]:
    """A story, step after step.

    Args:
        story: What is told.
        columns: How wide the terminal is, if it is one.
    """
    width = max(columns or _WIDTH, _LEAST_WIDTH)
    models, servers = story.model_steps, story.mcp_steps
    runs = ", ".join(map(output.escape, story.runs))
    counted = f"{output.count(models, 'model call')}, {output.count(servers, 'call')} to MCP servers"
    yield click.style(f"run {runs}: {counted}", bold=True)
    start = min((step.call.at for step in story.steps if step.call.at is not None), default=0.0)
    names = [f"model {step.number}" for step in models]
    names += [_short(step.call.server, _WHO_SHOWN) for step in servers]
    room = max(map(len, names), default=0)
    told = {id(step.call) for step in servers}
    for step in story.steps:
        is_model = isinstance(step, ModelStep)
        who = f"model {step.number}" if isinstance(step, ModelStep) else _short(step.call.server, _WHO_SHOWN)
        lines = _model_lines(step, told) if isinstance(step, ModelStep) else _mcp_lines(step)
        for number, (text, tail) in enumerate(lines):
            head = (
                f"{_time(step.call.at, start):>10}  {who.ljust(room)}" if number == 0 else " " * (12 + room)
            )
            shown = _short(text, width - len(head) - 2, tail)
            yield f"{head}  {click.style(shown, bold=True) if is_model and number == 0 else shown}"


def outcome_lines(outcomes: Sequence[ToolOutcome]) -> Iterator[str]:
    """What the tool calls of one recording caused; nothing where it has none."""
    if outcomes:
        yield ""
        yield click.style("Tool calls of its answers", bold=True)
    for outcome in outcomes:
        use = outcome.use
        result = "" if use.made is None else f": {result_line(use.made)}"
        yield f"  {_short(f'{_call_text(use)}{_maker(use)}{result}', _WIDTH)}"
        if outcome.came_back is not None:
            yield f"    its result is in the prompt {outcome.came_back.prompt_hash[:_HASH_SHOWN]}"


def _use_lines(use: ToolUse, told: AbstractSet[int]) -> Iterator[_Line]:
    yield f"calls {_call_text(use)}", _maker(use)
    if use.made is not None and id(use.made) not in told:  # it is of another run
        yield f"  {result_line(use.made)}", ""
    if use.result_in is not None:
        yield f"  its result is in the prompt of model {use.result_in}", ""


def _call_text(use: ToolUse) -> str:
    return f"{use.call.name}({arguments_line(use.call.arguments)})"


def _maker(use: ToolUse) -> str:
    """Who got a tool call of a model."""
    if use.made is None:
        return ""
    how = "" if use.is_certain else " (an equal call)"
    return f" → {use.made.server} {use.made.key[:_HASH_SHOWN]}{how}"


def _model_lines(step: ModelStep, told: AbstractSet[int]) -> Iterator[_Line]:
    call = step.call
    yield f"{call.model} {call.prompt_hash[:_HASH_SHOWN]}  {question_of(call.request) or ''}".rstrip(), ""
    if step.sampled_by is not None:
        made = step.sampled_by.made
        yield f"asked for {made.server}, by request {step.sampled_by.request} of {made.what}", ""
    if call.said is not None and call.said.text.strip():
        yield f"says {text_line(call.said.text)}", ""
    for use in step.uses:
        yield from _use_lines(use, told)


def _mcp_lines(step: McpStep) -> Iterator[_Line]:
    yield step.call.what, "" if step.caused_by is None else f"  ← model {step.caused_by}"
    for message in step.call.messages:
        yield f"  {message_line(message)}", ""


def call_lines(call: McpCall, of_several: str = "") -> Iterator[str]:
    """One answer to a call, with all of its messages and when they came."""
    yield ""
    yield click.style(f"answer{of_several}", bold=True)
    facts = [("run", call.run)]
    if call.at is not None:
        with suppress(ValueError, OverflowError):  # a hostile recording names any time
            moment = datetime.fromtimestamp(call.at, UTC)
            facts.append(("asked at", moment.isoformat(timespec="milliseconds")))
    if call.answered_ms is not None:
        facts.append(("took", f"{call.answered_ms:,} ms"))
    if (cause := call.cause) is not None:
        of = f" ({cause.id})" if cause.id else ""
        place = f"answer {cause.answer}, tool call {cause.tool_call}{of}"
        facts.append(("caused by", f"{cause.model} {cause.prompt_hash[:16]}, {place}"))
    for name, text in facts:
        yield f"{click.style(name.ljust(13), dim=True)} {output.escape(text)}"


def message_lines(call: McpCall, *, raw: bool) -> Iterator[str]:
    """The messages of a call, each with all that it says."""
    for message in call.messages:
        kind, value = next(((name, item) for name, item in message.items() if name != "at_ms"), ("", None))
        said = dict(value) if isinstance(value, dict) else {}
        method, to = said.pop("method", None), said.pop("to", None)
        of = f" to request {to}" if to is not None else f" {method}" if isinstance(method, str) else ""
        yield click.style(output.escape(f"{message.get('at_ms')} ms  {kind}{of}"), dim=True)
        if said:
            yield output.quote(json.dumps(said, ensure_ascii=False, indent=2), raw=raw)


def _short(text: str, width: int, tail: str = "") -> str:
    """A text in so many columns, a short tail always with it. Secrets first: half of one would not be known
    for one."""
    end = shorten(output.escape(output.redact(tail)), width // 2)
    return shorten(output.escape(output.redact(text[:_MOST_READ])), max(width - len(end), 1)) + end


def _time(at: float | None, start: float) -> str:
    if at is None:
        return "?"
    minutes, seconds = divmod(max(at - start, 0.0), 60)
    return f"{int(minutes)}:{seconds:06.3f}"
