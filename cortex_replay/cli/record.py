"""``cortex-replay record``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.record_prompt import prompt_options, record_prompt

__all__ = ["record_command"]

_OF_A_COMMAND = ("upstreams", "fail_on", "report", "pass_env")
_OF_BOTH = ("store", "mode", "timeout_ms", "budget_calls", "budget_tokens", "record_failures", "as_json")


@click.command(
    "record",
    cls=options.ExampleCommand,
    epilog="""Examples:

  cortex-replay record --provider scripted --model demo --prompt "What is the weather in Paris?"
  cortex-replay record --provider claude --model claude-sonnet-4-5 --system "Be brief." --prompt "Hi."
  git diff | cortex-replay record --provider ollama --model NAME:TAG@sha256:... --system "Review this."
  cortex-replay record -- npm test             whatever a command asks, in any language
  cortex-replay record --upstream openai=http://127.0.0.1:8080/v1 --mode record -- pytest

`cortex-replay batch` records many requests; `cortex-replay refresh` asks again what is recorded.

Exit status:
  0  recorded, or recorded already
  1  a call failed, or the budget is spent
  2  wrong usage, or a request that cannot be sent
  4  with a command: what --fail-on says
  5  the store is not what its index says
""",
)
@options.store_option
@prompt_options
@options.adapter_options
@options.mode_option
@options.record_failures_option
@click.option(
    "--upstream", "upstreams", multiple=True, metavar="NAME=URL", help="With a command: a provider's server."
)
@options.fail_on_option
@options.report_option
@options.pass_env_option
@options.raw_option
@click.option("--batch", "file", type=options.InputFile(), hidden=True)
@click.option("--refresh", "is_refresh", is_flag=True, hidden=True)
@click.option("--check", is_flag=True, hidden=True)
@click.option("--jobs", type=click.IntRange(1, 1000), hidden=True)
@options.json_option
@click.pass_context
def record_command(ctx: click.Context, /, store: Path | None, as_json: bool, **given: Any) -> None:
    """Ask a real model and record what it answers.

    What is recorded is redacted first, and committed at the end. Give a prompt, or a command behind -- whose
    SDKs are to be recorded. If that fails, its status is ours. Variables that hold secrets are withheld from
    it: the gateway has the keys, and SDKs get dummies.
    """
    if command := options.command_after_dashes(ctx):
        _refuse_with_command(ctx)
        from cortex_replay.cli.command_run import run_command  # noqa: PLC0415 - a server, for this alone

        status = run_command(
            command,
            options.store_root(ctx, store),
            given["mode"],
            given,
            default="once",
            fail_on=given["fail_on"],
            report=given["report"],
            as_json=as_json,
        )
        options.settle(ctx, status)
        ctx.exit(status)
    _forward_former_options(ctx)
    record_prompt(options.store_root(ctx, store), given, as_json=as_json)


def _refuse_with_command(ctx: click.Context) -> None:
    """Refuse what says something about one prompt."""
    for option in ctx.command.params:
        is_given = ctx.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
        if is_given and option.name not in (*_OF_A_COMMAND, *_OF_BOTH):
            raise click.UsageError(f"{option.opts[0]} does not go with a command behind --")


def _forward_former_options(ctx: click.Context) -> None:
    """Let ``record --batch`` and ``record --refresh`` be the commands that they have become."""
    given = {**ctx.params, "pattern": ctx.params["model"]}
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
    ctx.invoke(command, **{str(option.name): given[str(option.name)] for option in command.params})
