"""The one door to the terminal: results on stdout, talk on stderr.

Whatever a command prints passes :func:`echo` or :func:`print_json`. They cut out what this process knows to
be secret and what looks like it, spell out what could steer a terminal, and take from a line its power over
a CI runner. Callers escape what others wrote all the same, because only they know which line breaks are
their own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from cortex_replay.errors import Finding, FixtureIntegrityFailed, LlmError, NoFixture
from cortex_replay.printable import RUNNER_COMMAND, UNPRINTABLE, defuse_commands, escape_controls

if TYPE_CHECKING:
    from cortex_replay.redact.redactor import Redactor

__all__ = [
    "AnswerPrinter",
    "clean_message",
    "count",
    "echo",
    "echo_lines",
    "escape",
    "escape_lines",
    "is_terminal",
    "print_address",
    "print_error",
    "print_file",
    "print_findings",
    "print_json",
    "print_json_text",
    "quote",
    "redact",
    "silence_stdout",
    "start",
    "talk",
    "tolerate_broken_pipe",
]

_AT_ONCE: Final = 500
"""So many lines are looked through together: one by one takes five times as long."""
_OUR_STYLE: Final = re.compile("(\x1b\\[(?:0|1|2|22|31)m)")
"""What click writes for bold, dim and red, and for the end of these."""
_BLANK: Final = re.compile(r"\s")
_BEGUN_COMMAND: Final = re.compile(r"#{1,2}[A-Za-z]{0,16}\Z")
"""What the next piece could make a command to a CI runner of."""
_LONGEST_WORD: Final = 8192
_LOOK_BACK: Final = 4096
_redactors: tuple[int, Redactor, Redactor] | None = None


def start() -> None:
    """A command begins: secrets are those of the environment as it is now."""
    global _redactors  # noqa: PLW0603 - what the process knows
    _redactors = None


def redact(text: str) -> str:
    """The text without secrets."""
    return _redactor(raw=False).text(text)[0]


def _redactor(*, raw: bool) -> Redactor:
    """What cuts secrets out; out of a raw text only those that are known by value."""
    # A command that prints nothing needs none of it.
    from cortex_replay.redact.known_values import KNOWN  # noqa: PLC0415
    from cortex_replay.redact.process import count_secrets, process_redactor  # noqa: PLC0415

    global _redactors  # noqa: PLW0603
    if _redactors is None or _redactors[0] != count_secrets():
        redactor = process_redactor()
        _redactors = count_secrets(), redactor, redactor.with_rules([KNOWN])
    return _redactors[2] if raw else _redactors[1]


def _disarm(text: str) -> str:
    """The text as it may be shown, with our own styles in it."""
    parts = _OUR_STYLE.split(text)
    parts[::2] = map(escape_lines, parts[::2])
    return defuse_commands("".join(parts))


def echo(text: str = "", *, err: bool = False, raw: bool = False) -> None:
    """Print one or more lines.

    Args:
        text: What is shown. Our own styles may stand in it.
        err: Whether it is talk.
        raw: Whether the user wants it as it is; only values that are known to be secret are cut out then.
    """
    text = _redactor(raw=raw).text(text)[0]
    click.echo(text if raw else _disarm(text), err=err)


def print_address(text: str) -> None:
    """Where a server of ours is, with the token that opens it: whoever starts one is to have that."""
    click.echo(_disarm(text))


def echo_lines(lines: Iterable[str]) -> None:
    """Print many lines."""
    rest = iter(lines)
    while block := list(islice(rest, _AT_ONCE)):
        echo("\n".join(block))


def clean_message(message: str) -> str:
    """A message that click prints, such as one that quotes an argument."""
    return defuse_commands(escape_lines(redact(message)))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is watching; a stream that was closed before we started is ``None``."""
    return stream is not None and stream.isatty()


def escape(text: str) -> str:
    """One line of text as it may be shown on a terminal: what could steer it is spelled out."""
    return escape_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_lines(text: str) -> str:
    """Text of several lines as it may be shown on a terminal."""
    return escape_controls(text)


def quote(text: str, *, raw: bool = False) -> str:
    """Text of several lines behind a bar, so that no line of it can pass for a line of ours
    (or for a command to a CI runner, which are recognised at the start of a line)."""
    if raw:
        return text
    return "\n".join(f"| {line}" for line in escape_lines(text).split("\n"))


def count(things: Sized | int, name: str) -> str:
    """How many there are, in words that fit the number."""
    number = things if isinstance(things, int) else len(things)
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


@contextmanager
def tolerate_broken_pipe() -> Iterator[None]:
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
    echo(text, err=True)


def print_json(value: Any, *, err: bool = False, indent: int | None = 2) -> None:
    """The result, for a program: all in ASCII, so that nothing in it steers a terminal."""
    print_json_text(json.dumps(value, indent=indent), err=err)


def print_file(content: bytes) -> None:
    """A recorded file, byte for byte, for who wants it raw."""
    click.echo(content, nl=False)


def print_json_text(text: str, *, err: bool = False) -> None:
    """JSON as somebody else wrote it."""
    text = RUNNER_COMMAND.sub(r"\\u0023#", UNPRINTABLE.sub(_as_json, redact(text)))
    click.echo(text, nl=not text.endswith("\n"), err=err)


def _as_json(match: re.Match[str]) -> str:
    return match[0] if match[0] in "\n\r\t" else json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f")


def print_findings(findings: Iterable[Finding], *, err: bool = False) -> None:
    """Each finding on a line of its own. Of those that differ in the path only, the first says the reason if
    there is a hint below the last: a bucket that does not answer has one reason for 10,000 files."""
    for (found, reason, hint), alike in groupby(findings, attrgetter("code", "reason", "hint")):
        code = click.style(f"[{found}]", fg="red")
        for place, finding in enumerate(alike):
            path = click.style(escape(finding.path), bold=True)
            echo(f"{path}: {'the same' if place and hint else escape(reason)} {code}", err=err)
        if hint:
            echo(f"    hint: {escape(hint)}", err=err)


def print_error(error: LlmError, *, as_json: bool) -> None:
    """An error that ended the command."""
    findings = error.issues if isinstance(error, FixtureIntegrityFailed) else ()
    if as_json:
        message = {
            "error": type(error).__name__,
            "message": str(error),
            "findings": [asdict(finding) for finding in findings],
        }
        print_json(message, err=True, indent=None)
    elif isinstance(error, NoFixture) and error.explanation:
        talk(quote(error.explanation))
        talk(f"error: {escape(str(error))}")
    elif findings:
        print_findings(findings, err=True)
        talk("error: the store is not what its index says; nothing was read from it")
    else:
        talk("\n".join(["error: " + line for line in map(escape, str(error).split("\n"))]))


class AnswerPrinter:
    """Prints an answer as it comes, behind a bar, so that no line of it can pass for one of ours.

    A key may come in pieces, so the last word waits until it is whole, and so does what may be the start of a
    value with blanks in it. What was printed is looked at again with what follows, as far back as a key is
    long.
    """

    def __init__(self, *, raw: bool, is_silent: bool) -> None:
        self._is_raw = raw
        self._is_silent = is_silent
        self._has_begun = False
        self._before = ""
        self._waiting = ""

    def print(self, text: str) -> None:
        """The next piece."""
        self._waiting += text
        ready = _BLANK.search(self._waiting[::-1])
        if ready is None and len(self._waiting) < _LONGEST_WORD:
            return
        begun = _BEGUN_COMMAND.search(self._waiting)
        cut = len(self._waiting) - (ready.start() if ready else _LOOK_BACK)
        if ready is None and begun is not None:
            cut = min(cut, begun.start())
        if not self._is_silent:
            cut = _redactor(raw=self._is_raw).safe_end(self._waiting, cut)
        self._show(self._waiting[:cut], self._waiting[cut:])
        self._waiting = self._waiting[cut:]

    def end(self) -> None:
        """There is no more."""
        self._show(self._waiting)
        self._waiting = ""
        if self._has_begun:
            self._write("\n")

    def _show(self, text: str, following: str = "") -> None:
        if self._is_silent or not text:
            return
        shown = _redactor(raw=self._is_raw).pieces([self._before, text, following])[0][1]
        self._before = (self._before + text)[-_LOOK_BACK:]
        if not self._is_raw:
            shown = escape_lines(shown).replace("\n", "\n| ")
            shown = shown if self._has_begun else f"| {shown}"
        self._has_begun = True
        self._write(shown)

    def _write(self, text: str) -> None:
        """Print, and record on when nobody reads any more."""
        try:
            # Not by click, which would drop what is meant to be raw.
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            silence_stdout()
            self._is_silent = True
