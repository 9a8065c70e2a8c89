"""``cortex-replay record`` of one prompt."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import InputFile, option_group
from cortex_replay.cli.recording import open_recording
from cortex_replay.errors import InvalidRequest
from cortex_replay.run import Run
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import LlmRequest, LlmResponse

__all__ = ["prompt_options", "record_prompt"]

_SETTINGS = ("provider", "model", "mode", "budget_calls", "budget_tokens", "timeout_ms", "base_url", "script")

prompt_options = option_group(
    click.option("--model", metavar="NAME", help="The model."),
    click.option("--system", default="", metavar="TEXT", help="The system prompt."),
    click.option("--prompt", metavar="TEXT", help="The user's message. Without it, standard input is read."),
    click.option("--prompt-file", type=InputFile(), help="A file with the user's message."),
    click.option("--temperature", type=float, help="Left to the provider unless given."),
    click.option("--max-tokens", type=int, default=1024, show_default=True, help="Of the answer."),
    click.option("--json-schema", type=InputFile(), help="A file with the schema of the answer."),
)


def record_prompt(root: Path, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Ask one prompt, print the answer as it comes, and record it.

    Args:
        root: Of the store.
        options: Those of ``prompt_options``, and the settings.
        as_json: Whether the result is printed for a program.
    """
    text = options["prompt"] if options["prompt"] is not None else _read(options["prompt_file"])
    flags = {name: options[name] for name in _SETTINGS}
    run = open_recording(root, flags, record_failures=options["record_failures"], makes_store=True)
    if run.settings.model is None:
        raise click.UsageError("name a model with --model")
    request = LlmRequest(
        model=run.settings.model,
        system=options["system"],
        messages=text,
        temperature=options["temperature"],
        max_tokens=options["max_tokens"],
        json_schema=_schema(options["json_schema"]),
        timeout_ms=run.settings.timeout_ms,
    )
    asyncio.run(_record(run, request, as_json=as_json, raw=options["raw"]))


def _read(file: BinaryIO | None) -> str:
    """The prompt from a file, or from standard input if something is there."""
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("give one of --prompt, --prompt-file and a command behind --")
    source: BinaryIO = sys.stdin.buffer if file is None else file
    data = source.read()
    if not data.strip():
        raise click.UsageError("no prompt: give one of --prompt, --prompt-file and a command behind --")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("the prompt is not UTF-8") from None


def _schema(file: BinaryIO | None) -> Any:
    if file is None:
        return None
    try:
        return loads(file.read())
    except JsonError as error:
        raise InvalidRequest("json_schema", str(error)) from None


async def _record(run: Run, request: LlmRequest, *, as_json: bool, raw: bool) -> None:
    key = run.store.key(request)
    response: LlmResponse | None = None
    printer = output.AnswerPrinter(raw=raw, is_silent=as_json)
    async with run.adapter(None) as recorder:
        try:
            async for chunk in recorder.stream(request):
                printer.print(chunk.delta)
                response = chunk.response or response
        finally:
            printer.end()
            summary = run.commit()  # a recorded failure, too
    stored = next(item for item in run.store.list() if (item.model, item.prompt_hash) == key)
    is_new = bool(summary.added)
    if as_json and response is not None:
        output.print_json(_as_json(response, stored._asdict(), is_new=is_new))
        return
    what = "recorded" if is_new else "recorded already"
    output.talk(f"{what}: {output.escape(stored.path)}{_details(response)}")


def _details(response: LlmResponse | None) -> str:
    if response is None:
        return ""
    facts = [f"calls {output.escape(call.name)}" for call in response.tool_calls]
    if response.usage is not None:
        facts.append(f"{response.usage.prompt_tokens} + {response.usage.completion_tokens} tokens")
    facts.append(output.escape(response.finish_reason or "stop"))
    return f" ({', '.join(facts)})"


def _as_json(response: LlmResponse, stored: dict[str, str], *, is_new: bool) -> dict[str, object]:
    return {
        "recorded": is_new,
        **stored,
        "text": response.text,
        "parsed_json": response.parsed_json,
        "tool_calls": [call.to_dict() for call in response.tool_calls],
        "finish_reason": response.finish_reason,
        "answered_by": response.model,
        "usage": None if response.usage is None else response.usage.to_dict(),
    }
