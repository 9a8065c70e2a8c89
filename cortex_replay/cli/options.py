"""What commands share: the store option, ``--json``, and help that ends with exit statuses."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from cortex_replay.cli.catalogue import RUNNERS

__all__ = [
    "DRIFT",
    "ExampleCommand",
    "InputFile",
    "RunnerCommand",
    "adapter_options",
    "check_proxy_options",
    "command",
    "command_after_dashes",
    "every_answer_option",
    "fail_on_option",
    "fault_option",
    "jobs_option",
    "json_option",
    "mcp_options",
    "mode_option",
    "note_version",
    "option_group",
    "pace_option",
    "pass_env_option",
    "proxy_options",
    "raw_option",
    "record_failures_option",
    "recorded_upstream_option",
    "report_option",
    "settle",
    "split_command",
    "status_of",
    "store_option",
    "store_root",
    "version_of",
    "wants_json",
]

DRIFT = 4
"""The exit status of a check that found something else than what is wanted."""

_JSON = "cortex_replay.json"
_STATUS = "cortex_replay.status"
_COMMAND = "cortex_replay.command"
_VERSION = "cortex_replay.version"
_F = TypeVar("_F", bound=Callable[..., Any])


class ExampleCommand(click.Command):
    """A command whose usage names the command that it runs, and whose epilog keeps its lines."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add what click does not know of: the command behind the dashes."""
        return [*super().collect_usage_pieces(ctx), *filter(None, [RUNNERS.get(self.name or "")])]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Print the epilog verbatim: examples and tables must not be re-wrapped."""
        if self.epilog:
            formatter.write_paragraph()
            for line in self.epilog.rstrip().split("\n"):
                formatter.write(f"{line}\n")


class RunnerCommand(ExampleCommand):
    """A command that runs one of the user's, which stands behind ``--``."""

    allow_extra_args = True
    allow_interspersed_args = False  # what follows the first word is the user's, options and all

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Where an argument of ours comes first, options may follow it.
        ctx.allow_interspersed_args = any(isinstance(one, click.Argument) for one in self.params)
        given = list(args)
        super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise click.UsageError(_where_dashes_go(ctx, given, self.name or ""))
        return ctx.args


def _where_dashes_go(ctx: click.Context, given: list[str], name: str) -> str:
    """What to type instead of a command without ``--`` before it."""
    rest = ctx.args
    behind = command_after_dashes(ctx)
    meant = [*rest, *(["--", *behind] if behind else [])]
    store = ctx.find_root().params.get("store")
    before = [*(["--store", str(store)] if store else []), *given[: len(given) - len(rest)]]
    hint = f"the command goes behind --: {shlex.join(['cortex-replay', name, *before, '--', *meant])}"
    asks = any(option.name == "prompt" for option in ctx.command.params)
    return f"{hint} (a question goes behind --prompt)" if asks else hint


def command(
    name: str, *, epilog: str, runs_command: bool = False, cls: type[ExampleCommand] | None = None
) -> Callable[[Callable[..., None]], ExampleCommand]:
    """A command with examples and exit statuses below its help."""
    return click.command(name, cls=cls or (RunnerCommand if runs_command else ExampleCommand), epilog=epilog)


class InputFile(click.File):
    """A file to read, or - for standard input."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed", param, ctx)
        return super().convert(value, param, ctx)


store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Root of the store, where INDEX.toml stands.  [default: as configured, or this folder]",
)


def _note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    # Whoever prints an error that ends the command must know it too.
    ctx.find_root().meta[_JSON] = value
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, callback=_note_json, help="Print the result as JSON, for programs."
)


def option_group(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """One decorator for several options."""
    return lambda function: reduce(lambda inner, option: option(inner), reversed(options), function)


adapter_options = option_group(
    click.option(
        "--provider", metavar="NAME", help="Who is asked: claude, ollama, openai, scripted, echo, …"
    ),
    click.option("--budget-calls", type=click.IntRange(0), help="Stop before more calls than this."),
    click.option("--budget-tokens", type=click.IntRange(0), help="Stop before more tokens than this."),
    click.option("--timeout-ms", type=click.IntRange(1), help="What one call may take.  [default: 30000]"),
    click.option("--base-url", metavar="URL", help="The provider's server."),
    click.option(
        "--requests-per-minute",
        type=click.IntRange(1, 100_000),
        help="Ask the provider no more often than this.",
    ),
    click.option("--script", type=click.Path(path_type=Path), help="Rules for the scripted provider."),
)
"""The options of commands that ask a provider themselves: each is the name of a setting."""
jobs_option = click.option("--jobs", type=click.IntRange(1, 1000), help="Calls at once.  [default: 4]")
mode_option = click.option(
    "--mode", type=click.Choice(["once", "record"]), help="once: only what is missing.  [default: once]"
)
record_failures_option = click.option(
    "--record-failures", is_flag=True, help="Record errors of the provider as answers, too."
)
every_answer_option = click.option(
    "--every-answer",
    is_flag=True,
    default=None,
    help="Record each answer where a question comes again, not only the first. Calls in a scope always do.",
)
fail_on_option = click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(["miss", "unused", "live"]),
    help="Fail on a miss (as replay does), unused recordings, live calls. Repeatable.",
)
report_option = click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what happened to this file, as JSON; prune --unused-from reads it.",
)
fault_option = click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Let something go wrong: 429@2, cut:3@always, tool-error@1 (docs/faults.md). Repeatable.",
)
pace_option = click.option(
    "--pace",
    default="instant",
    show_default=True,
    metavar="PACE",
    help="Of replayed streams: instant, recorded, or a factor on the recorded times.",
)
raw_option = click.option(
    "--raw", is_flag=True, help="Print answers as they are, control characters and all."
)


proxy_options = option_group(
    click.option(
        "--proxy",
        is_flag=True,
        help="Reach clients that read no base URL, too: by an HTTPS proxy that speaks for hosts of models.",
    ),
    click.option(
        "--model-host",
        "model_hosts",
        multiple=True,
        metavar="HOST",
        help="With --proxy: a further host of models, such as *.llm.example.com. Repeatable.",
    ),
)


def check_proxy_options(given: Mapping[str, Any]) -> None:
    """Refuse options that would do nothing."""
    if given["model_hosts"] and not given["proxy"]:
        raise click.UsageError("--model-host goes with --proxy")
    if given.get("allow_hosts") and given.get("no_guard"):
        raise click.UsageError("--allow-host does not go with --no-guard, which lets all hosts be reached")


def _check_names(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise click.BadParameter("give the name of a variable, without a value")
    return names


recorded_upstream_option = click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="NAME=URL",
    help="A provider that was recorded with this option. It is not asked. Repeatable.",
)
pass_env_option = click.option(
    "--pass-env",
    multiple=True,
    metavar="NAME",
    callback=_check_names,
    help="Hand this variable to the command, although it holds a secret; else it is withheld. Repeatable.",
)


mcp_options = option_group(
    click.option(
        "--mcp-config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="With a command: a file that names its MCP servers, if it is not one that its agent reads.",
    ),
    click.option("--no-mcp", is_flag=True, help="With a command: leave its MCP servers as they are."),
)


def note_version(ctx: click.Context, version: str) -> None:
    """Let commands know the version: only the program itself imports the package's root."""
    ctx.find_root().meta[_VERSION] = version


def version_of(ctx: click.Context) -> str:
    """The version of the program that runs."""
    return str(ctx.find_root().meta.get(_VERSION, ""))


def wants_json(ctx: click.Context) -> bool:
    """Whether the command that runs was asked for JSON."""
    return bool(ctx.find_root().meta.get(_JSON))


def split_command(ctx: click.Context, args: list[str], runners: Collection[str]) -> list[str]:
    """The arguments before ``--``. What stands behind it is a command to be run, if ours is one that runs
    commands; click itself would drop the ``--`` and take the rest for its own."""
    if "--" not in args:
        return args
    end = args.index("--")
    if _subcommand(args[:end]) not in runners:
        return args
    ctx.meta[_COMMAND] = args[end + 1 :]
    return args[:end]


def _subcommand(args: list[str]) -> str | None:
    """The first word that is neither an option of the group nor the value of one."""
    words = iter(args)
    for word in words:
        if word in ("--store", "--trust"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def command_after_dashes(ctx: click.Context) -> list[str]:
    """The command that stands behind ``--``, or nothing."""
    command: list[str] = ctx.find_root().meta.get(_COMMAND, [])
    return command


def settle(ctx: click.Context, status: int) -> None:
    """Decide the exit status before anything is printed: a reader that leaves early changes nothing."""
    ctx.find_root().meta[_STATUS] = status


def status_of(ctx: click.Context) -> int:
    """The status that was decided, or 0."""
    return int(ctx.find_root().meta.get(_STATUS, 0))


def store_root(ctx: click.Context, *named: Path | None) -> Path:
    """The one store that was named: by an argument, after the command, before it, or in the settings."""
    given = {path for path in (*named, ctx.find_root().params.get("store")) if path is not None}
    if not given:
        from cortex_replay.config import load_settings  # noqa: PLC0415 - a command whose store is named needs none

        given = {load_settings(Path(), os.environ).settings.store}
    if len(given) > 1:
        raise click.UsageError(f"two stores are named: {' and '.join(sorted(map(str, given)))}")
    return given.pop()
