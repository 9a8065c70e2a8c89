"""The command group: loads a command when it is used, and turns errors into exit statuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.catalogue import RUNNERS, SECTIONS, SUMMARIES, module_of
from cortex_replay.cli.options import ExampleCommand, split_command, status_of, wants_json
from cortex_replay.errors import LlmError
from cortex_replay.progress import Progress, show_fetches

__all__ = ["CommandGroup"]

_WORTH_A_BAR: Final = 20


class CommandGroup(click.Group):
    """Turns our errors into one line on stderr and the exit status of their class."""

    format_epilog = ExampleCommand.format_epilog

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, split_command(ctx, args, RUNNERS))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of click
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of click
        """Load one command: most of them need little, and none needs what the others do."""
        if cmd_name not in SUMMARIES:
            return None
        name = f"{cmd_name.replace('-', '_')}_command"
        command: click.Command = getattr(import_module(module_of(cmd_name)), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named, or say which one may be meant."""
        if args[0] not in SUMMARIES and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}.{_suggestion(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - of click
        """Write the sections, with whole sentences; no command is loaded for it."""
        width = max(map(len, SUMMARIES))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete commands from the catalogue, and options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - a shell asks for it, nobody else

        found = [
            CompletionItem(name, help=text) for name, text in SUMMARIES.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        output.start()
        show_fetches(_fetch_bar)
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


def _fetch_bar() -> AbstractContextManager[Progress | None]:
    from cortex_replay.cli.progress import progress_bar  # noqa: PLC0415 - few commands fetch anything

    return progress_bar("fetching", worth_it=_WORTH_A_BAR)


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only who mistypes needs it

    close = get_close_matches(name, SUMMARIES)
    if not close:
        return ""
    return f" Did you mean {' or '.join(map(repr, close))}?"


_HELP: Final[Any] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""None before click 8.2, which a project may be held to."""


@contextmanager
def _clean_usage_errors() -> Iterator[None]:
    """Errors of usage quote arguments, and an argument may hold anything, a key among it."""
    try:
        yield
    except _HELP:
        raise  # it shows the help, all of which is ours
    except click.ClickException as error:
        message = output.clean_message(error.format_message())
        clean = click.ClickException(message)
        if isinstance(error, click.UsageError):
            clean = click.UsageError(message, error.ctx)
        raise clean from None
