"""``cortex-replay record --batch``."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO, Final

from cortex_replay.cli import output
from cortex_replay.cli.recording import Session, tell_of_yielded
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.run.batch import BatchReport, Job, read_jobs, run_batch

__all__ = ["record_batch"]

_REDRAW_S: Final = 0.1
_SHOWN_FAILURES: Final = 20
_INTERRUPTED: Final = 130


async def record_batch(session: Session, file: BinaryIO, *, as_json: bool) -> int:
    """Record every request of a file; gives the exit status of the worst.

    What was answered is committed in any case, also when somebody presses Ctrl-C.
    """
    jobs = read_jobs(file, session.settings.timeout_ms)
    recorders = _recorders(session, jobs)
    progress = _Progress(session)
    report = BatchReport(len(jobs))
    is_interrupted = False
    async with contextlib.AsyncExitStack() as stack:
        for recorder in recorders.values():
            await stack.enter_async_context(recorder)
        try:
            await run_batch(report, jobs, recorders, session.settings.jobs, progress.show)
        except asyncio.CancelledError:
            is_interrupted = True
        finally:
            progress.end()
            summary = session.store.commit()
    if as_json:
        output.print_json(_as_json(session, report, summary.added))
    else:
        _print(session, report, len(summary.added), is_interrupted=is_interrupted)
        tell_of_yielded(summary)
    return _INTERRUPTED if is_interrupted else report.exit_code


def _recorders(session: Session, jobs: Sequence[Job]) -> dict[str | None, RecordingAdapter]:
    """A recorder per provider that is named; a name that there is not ends it before the first call."""
    return {name: session.recorder(name) for name in {job.provider for job in jobs}}


class _Progress:
    """A line on stderr that is drawn over and over, when a person is watching."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._started = self._drawn = time.monotonic()
        self._is_shown = output.is_terminal(sys.stderr)
        self._width = 0

    def show(self, report: BatchReport) -> None:
        now = time.monotonic()
        if not self._is_shown or now - self._drawn < _REDRAW_S:
            return
        self._drawn = now
        done = report.done + len(report.failures)
        rate = done / max(now - self._started, 0.001)
        line = f"{done}/{report.jobs}  {rate:.0f}/s  {self._session.meter.tokens:,} tokens"
        if report.failures:
            line += f"  {len(report.failures)} failed"
        output.redraw(line, self._width)
        self._width = len(line)

    def end(self) -> None:
        if self._width:
            output.redraw("", self._width)
            output.redraw("", 0)


def _print(session: Session, report: BatchReport, added: int, *, is_interrupted: bool) -> None:
    for line, error in sorted(report.failures, key=lambda failure: failure[0])[:_SHOWN_FAILURES]:
        output.talk(f"line {line}: {output.escaped(str(error))}")
    if len(report.failures) > _SHOWN_FAILURES:
        output.talk(f"and {len(report.failures) - _SHOWN_FAILURES} more failed")
    output.echo(
        f"{report.done} of {output.counted(range(report.jobs), 'request')} answered, "
        f"{session.meter.calls} asked for, {session.meter.tokens:,} tokens, "
        f"{output.counted(range(added), 'new fixture')}"
    )
    if report.unasked:
        output.talk(f"the budget is spent: {output.counted(range(report.unasked), 'request')} left")
    if is_interrupted:
        output.talk("interrupted; what was answered is committed, and the same command goes on from here")


def _as_json(session: Session, report: BatchReport, added: Sequence[str]) -> dict[str, object]:
    return {
        "requests": report.jobs,
        "answered": report.done,
        "calls": session.meter.calls,
        "tokens": session.meter.tokens,
        "left": report.unasked,
        "added": list(added),
        "failures": [
            {"line": line, "error": type(error).__name__, "message": str(error)}
            for line, error in report.failures
        ],
    }
