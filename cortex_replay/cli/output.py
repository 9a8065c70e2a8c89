"""Printing: results on stdout, talk on stderr, and nothing that a model said unescaped."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TextIO

import click

from cortex_replay.errors import Finding, FixtureIntegrityFailed, LlmError, NoFixture
from cortex_replay.store.check import Progress
from cortex_replay.store.paths import UNPRINTABLE

__all__ = [
    "counted",
    "escaped",
    "escaped_lines",
    "even_if_nobody_reads",
    "is_terminal",
    "print_error",
    "print_findings",
    "print_json",
    "progress_bar",
    "quoted",
    "silence_stdout",
    "talk",
]

_WORTH_A_BAR = 2000


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is watching; a stream that was closed before we started is ``None``."""
    return stream is not None and stream.isatty()


def escaped(text: str) -> str:
    """One line of text as it may be shown on a terminal: what could steer it is spelled out."""
    return escaped_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def _spelled_out(match: re.Match[str]) -> str:
    if match[0] in "\n\t":
        return match[0]
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def escaped_lines(text: str) -> str:
    """Text of several lines as it may be shown on a terminal."""
    text = UNPRINTABLE.sub(_spelled_out, text)
    return text.replace("##[", "#\\x23[")  # a command to some CI runners, wherever it stands


def quoted(text: str, *, raw: bool = False) -> str:
    """Text of several lines behind a bar, so that no line of it can pass for a line of ours
    (or for a command to a CI runner, which are recognised at the start of a line)."""
    if raw:
        return text
    return "\n".join(f"| {line}" for line in escaped_lines(text).split("\n"))


def counted(things: Sized, name: str) -> str:
    """How many there are, in words that fit the number."""
    return f"{len(things)} {name}" if len(things) == 1 else f"{len(things)} {name}s"


@contextmanager
def even_if_nobody_reads() -> Iterator[None]:
    """Print a plan that is to be carried out in any case: a reader that left changes nothing."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()


def silence_stdout() -> None:
    """Nobody reads any more, or nothing more can be written: what is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def talk(text: str) -> None:
    """Something for a person only."""
    click.echo(text, err=True)


def print_json(value: Any) -> None:
    """The result, for a program."""
    click.echo(json.dumps(value, indent=2))


def print_findings(findings: Iterable[Finding], *, err: bool = False) -> None:
    """Each finding on a line of its own, with its hint below."""
    for finding in findings:
        path = click.style(escaped(finding.path), bold=True)
        code = click.style(f"[{finding.code}]", fg="red")
        click.echo(f"{path}: {escaped(finding.reason)} {code}", err=err)
        if finding.hint:
            click.echo(f"    hint: {escaped(finding.hint)}", err=err)


def print_error(error: LlmError, *, as_json: bool) -> None:
    """An error that ended the command."""
    findings = error.issues if isinstance(error, FixtureIntegrityFailed) else ()
    if as_json:
        message = {
            "error": type(error).__name__,
            "message": str(error),
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(message), err=True)
    elif isinstance(error, NoFixture) and error.explanation:
        talk(quoted(error.explanation))
        talk(f"error: {escaped(str(error))}")
    elif findings:
        print_findings(findings, err=True)
        talk("error: the store is not what its index says; nothing was read from it")
    else:
        talk("\n".join(["error: " + line for line in map(escaped, str(error).split("\n"))]))


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """A bar on stderr for long work, when a person is watching."""
    if not is_terminal(sys.stderr):
        yield None
        return
    bar: Any = None

    def advance(done: int, total: int) -> None:
        nonlocal bar
        if total < _WORTH_A_BAR:
            return
        if bar is None:
            bar = click.progressbar(length=total, label=label, file=sys.stderr)
        bar.update(done - bar.pos)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.render_finish()
