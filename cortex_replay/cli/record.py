"""``cortex-replay record``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import (
    ExampleCommand,
    command_behind,
    json_option,
    pass_env_option,
    settle,
    store_option,
    the_store,
)
from cortex_replay.errors import InvalidRequest
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import LlmRequest, LlmResponse

if TYPE_CHECKING:
    from cortex_replay.cli.recording import Session

__all__ = ["record_command"]

_DEFAULT_MAX_TOKENS = 1024
_OF_A_PROMPT = (
    "provider",
    "model",
    "system",
    "prompt",
    "prompt_file",
    "temperature",
    "max_tokens",
    "json_schema",
    "raw",
)


@click.command(
    "record",
    cls=ExampleCommand,
    epilog="""Examples:

  cortex-replay record --provider scripted --model demo --prompt "What is the weather in Paris?"
  cortex-replay record --provider claude --model claude-sonnet-4-5 --system "Be brief." --prompt "Hi."
  git diff | cortex-replay record --provider ollama --model NAME:TAG@sha256:... --system "Review this."
  cortex-replay record --provider claude --batch requests.jsonl --jobs 8 --budget-calls 500
  cortex-replay record --refresh --check       has a model changed its mind? (exit 4)
  cortex-replay record -- npm test             whatever a command asks, in any language
  cortex-replay record --upstream openai=http://127.0.0.1:8080/v1 --mode record -- pytest

A line of a batch is a request as JSON, with an optional provider:
  {"model": "m", "system": "", "messages": "Hi.", "temperature": 0, "max_tokens": 64, "provider": "ollama"}

Exit status:
  0  recorded, or recorded already
  1  a call failed, or the budget is spent
  2  wrong usage, or a request that cannot be sent
  4  --refresh --check found an answer that differs; with a command, what --fail-on says
  5  the store is not what its index says
""",
)
@store_option
@click.option("--provider", metavar="NAME", help="Who is asked: claude, ollama, openai, scripted, echo, …")
@click.option("--model", metavar="NAME", help="The model; with --refresh, only fixtures of this one.")
@click.option("--system", default="", metavar="TEXT", help="The system prompt.")
@click.option("--prompt", metavar="TEXT", help="The user's message. Without it, standard input is read.")
@click.option("--prompt-file", type=click.File("rb"), help="A file with the user's message.")
@click.option("--temperature", type=float, help="Left to the provider unless given.")
@click.option("--max-tokens", type=int, default=_DEFAULT_MAX_TOKENS, show_default=True, help="Of the answer.")
@click.option("--json-schema", type=click.File("rb"), help="A file with the schema of the answer.")
@click.option("--batch", type=click.File("rb"), metavar="FILE", help="Many requests, one JSON object a line.")
@click.option(
    "--refresh", "is_refresh", is_flag=True, help="Ask again what is recorded, and show what changed."
)
@click.option("--check", is_flag=True, help="With --refresh: only report, and write nothing.")
@click.option(
    "--mode", type=click.Choice(["once", "record"]), help="once: only what is missing.  [default: once]"
)
@click.option("--jobs", type=click.IntRange(1, 1000), help="Calls at once.  [default: 4]")
@click.option("--budget-calls", type=click.IntRange(0), help="Stop before more calls than this.")
@click.option("--budget-tokens", type=click.IntRange(0), help="Stop before more tokens than this.")
@click.option("--timeout-ms", type=click.IntRange(1), help="What one call may take.  [default: 30000]")
@click.option("--base-url", metavar="URL", help="The provider's server.")
@click.option("--script", type=click.Path(path_type=Path), help="Rules for the scripted provider.")
@click.option("--record-failures", is_flag=True, help="Record errors of the provider as answers, too.")
@click.option(
    "--upstream", "upstreams", multiple=True, metavar="NAME=URL", help="With a command: a provider's server."
)
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(["miss", "unused", "live"]),
    help="With a command: fail on unused fixtures or live calls, too.",
)
@click.option("--report", type=click.Path(path_type=Path), help="With a command: what happened, as JSON.")
@pass_env_option
@click.option("--raw", is_flag=True, help="Print the answer as it is, control characters and all.")
@json_option
@click.pass_context
def record_command(
    ctx: click.Context,
    store: Path | None,
    provider: str | None,
    model: str | None,
    system: str,
    prompt: str | None,
    prompt_file: BinaryIO | None,
    temperature: float | None,
    max_tokens: int,
    json_schema: BinaryIO | None,
    batch: BinaryIO | None,
    is_refresh: bool,
    check: bool,
    mode: str | None,
    jobs: int | None,
    budget_calls: int | None,
    budget_tokens: int | None,
    timeout_ms: int | None,
    base_url: str | None,
    script: Path | None,
    record_failures: bool,
    upstreams: tuple[str, ...],
    fail_on: tuple[str, ...],
    report: Path | None,
    pass_env: tuple[str, ...],
    raw: bool,
    as_json: bool,
) -> None:
    """Ask a real model and record what it answers.

    What is recorded is redacted first, and committed at the end. Give one of a prompt, --batch, --refresh,
    and a command behind -- whose SDKs are to be recorded. If that fails, its status is ours. Variables that
    hold secrets are withheld from it: the gateway has the keys, and SDKs get dummies.
    """
    if command := command_behind(ctx):
        _refuse_beside_command(ctx)
        from cortex_replay.cli.command_run import run_behind  # noqa: PLC0415 - a server, for this alone

        behind: dict[str, Any] = {
            "upstreams": upstreams,
            "timeout_ms": timeout_ms,
            "budget_calls": budget_calls,
            "budget_tokens": budget_tokens,
            "record_failures": record_failures,
            "pass_env": pass_env,
        }
        status = run_behind(
            command,
            the_store(ctx, store),
            mode,  # type: ignore[arg-type]
            behind,
            default="once",
            fail_on=fail_on,
            report=report,
            as_json=as_json,
        )
        settle(ctx, status)
        ctx.exit(status)
    ways = [prompt is not None, prompt_file is not None, batch is not None, is_refresh]
    if sum(ways) > 1:
        raise click.UsageError("give one of --prompt, --prompt-file, --batch and --refresh")
    if check and not is_refresh:
        raise click.UsageError("--check goes with --refresh")
    flags = {
        "provider": provider,
        "model": None if is_refresh else model,
        "mode": mode,
        "jobs": jobs,
        "budget_calls": budget_calls,
        "budget_tokens": budget_tokens,
        "timeout_ms": timeout_ms,
        "base_url": base_url,
        "script": script,
    }
    text = None if sum(ways) and prompt_file is None else _read(prompt_file)
    text = prompt if prompt is not None else text
    from cortex_replay.cli.record_batch import record_batch  # noqa: PLC0415 - the other commands need none of it
    from cortex_replay.cli.record_refresh import refresh  # noqa: PLC0415
    from cortex_replay.cli.recording import open_session  # noqa: PLC0415

    session = open_session(
        the_store(ctx, store), flags, record_failures=record_failures, makes_store=not is_refresh
    )
    if batch is not None:
        status = asyncio.run(record_batch(session, batch, as_json=as_json))
    elif is_refresh:
        status = asyncio.run(refresh(ctx, session, provider, model, check=check, as_json=as_json, raw=raw))
    else:
        request = LlmRequest(
            model=_model(session),
            system=system,
            messages=text or "",
            temperature=temperature,
            max_tokens=max_tokens,
            json_schema=_schema(json_schema),
            timeout_ms=session.settings.timeout_ms,
        )
        asyncio.run(_record_one(session, request, as_json=as_json, raw=raw))
        status = 0
    settle(ctx, status)
    ctx.exit(status)


def _refuse_beside_command(ctx: click.Context) -> None:
    """Refuse what says something about one prompt."""
    for name in (*_OF_A_PROMPT, "batch", "is_refresh", "check", "jobs", "base_url", "script"):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = next(p.opts[0] for p in ctx.command.params if p.name == name)
            raise click.UsageError(f"{option} does not go with a command behind --")


def _read(file: BinaryIO | None) -> str:
    """The prompt from a file, or from standard input if something is there."""
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("give one of --prompt, --prompt-file, --batch and --refresh")
    source: BinaryIO = sys.stdin.buffer if file is None else file
    data = source.read()
    if not data.strip():
        raise click.UsageError("no prompt: give one of --prompt, --prompt-file, --batch and --refresh")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("the prompt is not UTF-8") from None


def _model(session: Session) -> str:
    if session.settings.model is None:
        raise click.UsageError("name a model with --model")
    return session.settings.model


def _schema(file: BinaryIO | None) -> Any:
    if file is None:
        return None
    try:
        return loads(file.read())
    except JsonError as error:
        raise InvalidRequest("json_schema", str(error)) from None


async def _record_one(session: Session, request: LlmRequest, *, as_json: bool, raw: bool) -> None:
    key = session.store.key(request)
    response: LlmResponse | None = None
    printer = output.AnswerPrinter(raw=raw, is_silent=as_json)
    async with session.recorder(None) as recorder:
        try:
            async for chunk in recorder.stream(request):
                printer.print(chunk.delta)
                response = chunk.response or response
        finally:
            printer.end()
            summary = await recorder.commit()  # a recorded failure, too
    stored = next(item for item in session.store.list() if (item.model, item.prompt_hash) == key)
    is_new = bool(summary.added)
    if as_json and response is not None:
        output.print_json(_as_json(response, stored._asdict(), is_new=is_new))
        return
    what = "recorded" if is_new else "recorded already"
    output.talk(f"{what}: {output.escaped(stored.path)}{_details(response)}")


def _details(response: LlmResponse | None) -> str:
    if response is None:
        return ""
    facts = [f"calls {output.escaped(call.name)}" for call in response.tool_calls]
    if response.usage is not None:
        facts.append(f"{response.usage.prompt_tokens} + {response.usage.completion_tokens} tokens")
    facts.append(output.escaped(response.finish_reason or "stop"))
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
