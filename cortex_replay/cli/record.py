"""``cortex-replay record``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.runs import open_recording
from cortex_replay.errors import InvalidRequest
from cortex_replay.run import Run
from cortex_replay.store import StoredFixture
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import LlmRequest, LlmResponse

__all__ = ["record_command"]

_OF_A_COMMAND = (
    *("upstreams", "fail_on", "report", "pass_env", "every_answer", "no_key", "proxy", "model_hosts"),
    *("again", "mcp_config", "no_mcp"),
)
_OF_BOTH = ("store", "mode", "timeout_ms", "budget_calls", "budget_tokens", "record_failures", "as_json")
_SETTINGS = (
    "provider",
    "model",
    "mode",
    "budget_calls",
    "budget_tokens",
    "timeout_ms",
    "base_url",
    "requests_per_minute",
    "script",
)


@options.command(
    "record",
    epilog="""Examples:

  cortex-replay record --provider scripted --model demo --prompt "What is the weather in Paris?"
  cortex-replay record --provider claude --model claude-haiku-5-5 --system "Be brief." --prompt "Hi."
  git diff | cortex-replay record --provider ollama --model NAME:TAG@sha256:... --system "Review this."
  cortex-replay record -- npm test             whatever a command asks, in any language
  cortex-replay record --upstream openai=http://127.0.0.1:8080/v1 --mode record -- pytest
  cortex-replay record --proxy -- ./agent      its client reads no base URL
  cortex-replay record -- claude -p "fix it"   the MCP servers of its configuration, too
  cortex-replay record --again 3 -- ./agent    three runs: which calls are not the same?

`cortex-replay batch` records many requests; `cortex-replay refresh` asks again what is recorded.

Exit status:
  0  recorded, or recorded already
  1  a call failed, or the budget is spent
  2  wrong usage, a request that cannot be sent, or no key for a command; it was not run
  4  with a command: what --fail-on says
  5  the store is not what its index says
""",
    runs_command=True,
)
@options.store_option
@click.option("--model", metavar="NAME", help="The model.")
@click.option("--system", default="", metavar="TEXT", help="The system prompt.")
@click.option("--prompt", metavar="TEXT", help="The user's message. Without it, standard input is read.")
@click.option("--prompt-file", type=options.InputFile(), help="A file with the user's message.")
@click.option("--temperature", type=float, help="Left to the provider unless given.")
@click.option("--max-tokens", type=int, default=1024, show_default=True, help="Of the answer.")
@click.option("--json-schema", type=options.InputFile(), help="A file with the schema of the answer.")
@options.adapter_options
@options.mode_option
@options.record_failures_option
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="NAME=URL",
    help="With a command: a provider's server, or mcp:NAME=URL.",
)
@options.proxy_options
@options.every_answer_option
@options.fail_on_option
@options.report_option
@options.pass_env_option
@options.mcp_options
@click.option("--no-key", is_flag=True, help="With a command: run it without a key; it brings its own.")
@click.option(
    "--again",
    type=click.IntRange(2, 100),
    metavar="N",
    help="With a command: run it N times in all, and say which of its calls vary, and in what.",
)
@options.raw_option
@click.option("--batch", "file", type=options.InputFile(), hidden=True)
@click.option("--refresh", "is_refresh", is_flag=True, hidden=True)
@click.option("--check", is_flag=True, hidden=True)
@click.option("--strict", is_flag=True, hidden=True)
@click.option("--jobs", type=click.IntRange(1, 1000), hidden=True)
@options.json_option
@click.pass_context
def record_command(ctx: click.Context, /, store: Path | None, **given: Any) -> None:
    """Ask a real model and record what it answers.

    What is recorded is redacted first, and committed at the end. Give a prompt, or a command behind -- whose
    SDKs are to be recorded. If that fails, its status is ours. Variables that hold secrets are withheld from
    it: the gateway has the keys, and SDKs get dummies.
    """
    if command := options.command_after_dashes(ctx):
        _refuse_with_command(ctx)
        options.check_proxy_options(given)
        ctx.exit(_record_command(command, options.store_root(ctx, store), given))
    if given["proxy"] or given["model_hosts"]:
        raise click.UsageError("--proxy goes with a command behind --")
    if given["mcp_config"] or given["no_mcp"]:
        raise click.UsageError("--mcp-config and --no-mcp go with a command behind --")
    if given["again"]:
        raise click.UsageError("--again goes with a command behind --")
    _forward_former_options(ctx)
    _record_prompt(options.store_root(ctx, store), given)


def _record_command(command: Sequence[str], root: Path, given: Mapping[str, Any]) -> int:
    # A server, for this alone.
    if given["again"] is None:
        from cortex_replay.cli.command_run import run_command  # noqa: PLC0415

        return run_command(command, root, given, default="once")
    if given["fail_on"]:
        raise click.UsageError("--fail-on does not go with --again: the second run may go another way")
    from cortex_replay.cli.again import run_again  # noqa: PLC0415

    return run_again(command, root, given, given["again"])


def _refuse_with_command(ctx: click.Context) -> None:
    """Refuse what says something about one prompt."""
    for option in ctx.command.params:
        is_given = ctx.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
        if is_given and option.name not in (*_OF_A_COMMAND, *_OF_BOTH):
            raise click.UsageError(f"{option.opts[0]} does not go with a command behind --")


def _forward_former_options(ctx: click.Context) -> None:
    """Let ``record --batch`` and ``record --refresh`` be the commands that they have become."""
    given = {**ctx.params, "pattern": ctx.params["model"], "scope": None}
    ways = [given[name] is not None for name in ("prompt", "prompt_file", "file")]
    if sum([*ways, given["is_refresh"]]) > 1:
        raise click.UsageError("give one of --prompt, --prompt-file and a command behind --")
    if given["check"] and not given["is_refresh"]:
        raise click.UsageError("--check goes with cortex-replay refresh")
    if given["file"] is not None:
        from cortex_replay.cli.batch import batch_command as command  # noqa: PLC0415

        output.talk("warning: record --batch is now: cortex-replay batch FILE")
    elif given["is_refresh"]:
        from cortex_replay.cli.refresh import refresh_command as command  # noqa: PLC0415

        output.talk("warning: record --refresh is now: cortex-replay refresh")
    else:
        return
    names = (str(option.name) for option in command.params)
    ctx.invoke(command, **{name: given[name] for name in names if name in given})


def _record_prompt(root: Path, given: Mapping[str, Any]) -> None:
    """Ask one prompt, print the answer as it comes, and record it."""
    text = given["prompt"] if given["prompt"] is not None else _read(given["prompt_file"])
    flags = {name: given[name] for name in _SETTINGS}
    run = open_recording(root, flags, record_failures=given["record_failures"], makes_store=True)
    if run.settings.model is None:
        raise click.UsageError("name a model with --model")
    request = LlmRequest(
        model=run.settings.model,
        system=given["system"],
        messages=text,
        temperature=given["temperature"],
        max_tokens=given["max_tokens"],
        json_schema=_schema(given["json_schema"]),
        timeout_ms=run.settings.timeout_ms,
    )
    asyncio.run(_record(run, request, as_json=given["as_json"], raw=given["raw"]))


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
    key = run.open_scope().look_up(request).key
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
    stored = next((item for item in run.store.list() if (item.model, item.prompt_hash) == key), None)
    if stored is None:  # another worker of the run has recorded it
        stored = StoredFixture(*key, "", "")
    is_new = bool(summary.added)
    if as_json and response is not None:
        output.print_json(_as_json(response, stored._asdict(), is_new=is_new) | {"money": run.ledger.money()})
        return
    what = "recorded" if is_new else "recorded already"
    where = stored.path or "by another worker of this run"
    output.talk(f"{what}: {output.escape(where)}{_details(response, run.ledger.cost_facts())}")


def _details(response: LlmResponse | None, costs: list[str]) -> str:
    if response is None:
        return ""
    facts = [f"calls {output.escape(call.name)}" for call in response.tool_calls]
    if response.usage is not None:
        facts.append(f"{response.usage.prompt_tokens} + {response.usage.completion_tokens} tokens")
    facts += map(output.escape, costs)
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
