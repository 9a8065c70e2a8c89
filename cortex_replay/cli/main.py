"""The command group: global options, and errors as exit statuses."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import cortex_replay
from cortex_replay.cli import output
from cortex_replay.cli.options import ExampleCommand, split_command, status_of, wants_json
from cortex_replay.config.trust import TRUST_VARIABLE
from cortex_replay.errors import LlmError

__all__ = ["main"]

_COMMANDS = (
    "batch",
    "completion",
    "config",
    "explain",
    "export",
    "import",
    "index",
    "init",
    "list",
    "merge-driver",
    "prune",
    "record",
    "refresh",
    "rekey",
    "replay",
    "scan",
    "serve",
    "show",
    "sweep",
    "trust",
    "verify",
)

_MODULES = {"import": "import_cassettes"}
"""Where a command's own name is no name of a module."""
_RUNNERS = ("record", "replay", "sweep")
"""Those that run a command of the user's."""


class _Group(click.Group):
    """Turns our errors into one line on stderr and the exit status of their class."""

    format_epilog = ExampleCommand.format_epilog

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, split_command(ctx, args, _RUNNERS))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of click
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of click
        """Load one command: most of them need little, and none needs what the others do."""
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = _MODULES.get(name, name)
        command: click.Command = getattr(import_module(f"cortex_replay.cli.{module}"), f"{name}_command")
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        output.start()
        with _clean_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _clean_usage_errors():
                return super().invoke(ctx)
        except LlmError as error:
            output.print_error(error, as_json=wants_json(ctx))
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            # The reader (`| head`) has seen enough. Nothing more can be said on stdout.
            output.silence_stdout()
            ctx.exit(status_of(ctx))
        except OSError as error:
            output.talk(f"error: {output.escape(str(error))}")
            output.silence_stdout()
            ctx.exit(status_of(ctx) or 1)


@contextmanager
def _clean_usage_errors() -> Iterator[None]:
    """Errors of usage quote arguments, and an argument may hold anything, a key among it."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # it shows the help, all of which is ours
    except click.ClickException as error:
        message = output.clean_message(error.format_message())
        clean = click.ClickException(message)
        if isinstance(error, click.UsageError):
            clean = click.UsageError(message, error.ctx)
        raise clean from None


@click.group(
    cls=_Group,
    epilog="""Examples:

  cortex-replay init                     a store in this folder, with a first test
  cortex-replay record --provider scripted --model demo --prompt Hi
  cortex-replay record -- npm test       record what a test suite asks, whatever it is written in
  cortex-replay replay -- npm test       run it again without a key or a network
  cortex-replay verify                   check it
  cortex-replay verify tests/llm --json  check another one, for a program
  cortex-replay list --model 'claude-*'  what is recorded
  cortex-replay show 3f2a91              one recording: prompt, answer, usage
  cortex-replay explain 3f2a91           its prompt in parts, and what providers cache of it

Exit status: 0 fine, 1 failure, 2 wrong usage, 3 no fixture, 4 drift, 5 integrity.
""",
)
@click.version_option(cortex_replay.__version__, prog_name="cortex-replay")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Root of the store, where INDEX.toml stands. Also accepted after the command.",
)
@click.option(
    "--trust",
    "consents",
    multiple=True,
    metavar="SERVER=VARIABLE",
    help="For this run, let the key in a variable go to a server that the project names. Repeatable.",
)
@click.pass_context
def main(ctx: click.Context, store: Path | None, consents: tuple[str, ...]) -> None:  # noqa: ARG001 - read by the commands
    """Record real model calls once; replay them forever."""
    if consents:  # where whoever needs a key looks for it
        os.environ[TRUST_VARIABLE] = ",".join([os.environ.get(TRUST_VARIABLE, ""), *consents])
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal that cannot spell a character still gets the rest
            stream.reconfigure(errors="backslashreplace")
