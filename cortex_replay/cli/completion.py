"""``cortex-replay completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from cortex_replay.cli import output
from cortex_replay.cli.options import command

__all__ = ["completion_command"]


@command(
    "completion",
    epilog="""Examples:

  eval "$(cortex-replay completion bash)"                 in ~/.bashrc
  eval "$(cortex-replay completion zsh)"                  in ~/.zshrc
  cortex-replay completion fish | source                  in config.fish

Exit status:
  0  the script is printed
  2  wrong usage
""",
)
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and fixtures in a shell."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    output.echo(
        kind(ctx.find_root().command, {}, "cortex-replay", "_CORTEX_REPLAY_COMPLETE").source(), raw=True
    )
