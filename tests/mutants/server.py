"""Runs tests in a copy of the tree, each time in a fork of this process, which has loaded pytest already.

It is run as a program by the Python of the copy, with the copy as its working folder. A line of JSON comes in
for each run, ``{"tests": […], "stop": true, "limit": 300}``, and one goes out:
``{"code": 1, "failed": […], "cpu": 1.5}``. ``code`` is pytest's own, or null if the run took too long.
What pytest prints goes to ``$TMPDIR.log``.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

_FIRST = ("asyncio", "blake3", "click", "httpx", "hypothesis", "jsonschema_rs", "orjson", "pytest", "regex")
_PLUGINS = ("_pytest.pytester", "_hypothesis_pytestplugin", "anyio.pytest_plugin", "xdist.plugin", "uvicorn")
_OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins are loaded before pytest starts
)
_PR_SET_CHILD_SUBREAPER = 36


class _Failures:
    """A plugin that notes which tests fail."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed:
            os.write(self._descriptor, f"{json.dumps(report.nodeid)}\n".encode())


class _TooLong(Exception):
    pass


def _too_long(*_: object) -> NoReturn:
    raise _TooLong


def _ended(*_: object) -> NoReturn:
    raise SystemExit(1)


def _run_tests(tests: list[str], stop: bool, descriptor: int) -> NoReturn:
    """In the fork: runs the tests, and ends with pytest's code."""
    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    log = os.open(f"{os.environ['TMPDIR']}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    code = 3
    try:
        import pytest  # noqa: PLC0415 - it is loaded already, in the process that forked

        arguments = [*_OPTIONS, *(["-x"] if stop else []), *tests]
        code = int(pytest.main(arguments, plugins=[_Failures(descriptor)]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _descendants() -> list[int]:
    """What the last run has left; orphans come to this process."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def _end_leftovers() -> None:
    while left := _descendants():
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        _run_tests(question["tests"], question["stop"], writing)
    os.close(writing)
    code: int | None = None
    cpu = 0.0
    signal.setitimer(signal.ITIMER_REAL, question["limit"])
    try:
        _, status, usage = os.wait4(child, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        code, cpu = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    except _TooLong:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    _end_leftovers()
    with os.fdopen(reading) as notes:
        failed = [json.loads(line) for line in notes if line.endswith("\n")]
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    Path(os.environ["TMPDIR"]).mkdir(exist_ok=True)
    return {"code": code, "failed": failed, "cpu": cpu}


def main() -> None:
    sys.path[0] = os.getcwd()  # noqa: PTH109 - as ``python -m pytest`` has it, not the folder of this file
    for name in (*_FIRST, *_PLUGINS):
        importlib.import_module(name)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, _too_long)
    answers = os.fdopen(os.dup(1), "w")  # a test that prints where it should not does not end up among them
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, _ended)
    try:
        for line in sys.stdin:
            answers.write(json.dumps(_answer(json.loads(line))) + "\n")
            answers.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        _end_leftovers()


if __name__ == "__main__":
    main()
