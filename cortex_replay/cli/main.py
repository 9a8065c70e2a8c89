"""The program: global options, and what every command begins with."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import click

import cortex_replay
from cortex_replay.cli.group import CommandGroup
from cortex_replay.cli.options import note_version

__all__ = ["main"]


@click.group(
    cls=CommandGroup,
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
  cortex-replay view --open              look at all of it in a browser
  cortex-replay diff main                what changed since main, behaviour first

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
    note_version(ctx, cortex_replay.__version__)
    if consents:  # where whoever needs a key looks for it
        from cortex_replay.config.trust import TRUST_VARIABLE  # noqa: PLC0415 - the settings are large

        os.environ[TRUST_VARIABLE] = ",".join([os.environ.get(TRUST_VARIABLE, ""), *consents])
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal that cannot spell a character still gets the rest
            stream.reconfigure(errors="backslashreplace")
