"""A plugin for the suites: what came of each test, what it cost, and what vcrpy played for what was asked.

It runs in the suite's own environment, so it imports the standard library, pytest and vcrpy alone.
`SUITE_OUTCOMES` names the file that it writes.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

_LIMIT_S: Final = 120
"""A test that polls waits forever for an answer that never changes."""
_MOST_OF_A_REASON: Final = 4_000
_MOST_OF_A_REPORT: Final = 12_000


class Outcomes:
    """What is known of a run so far."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.played: list[tuple[str, Any, Any]] = []
        """Of each call that did not send the body that was recorded: the test, and both requests."""
        self.current = ""

    def watch(self, cassette: Any) -> None:
        """See which recorded call vcrpy takes for which call of a test. They are compared after the run."""
        play = cassette.play_response

        def play_response(its: Any, request: Any) -> Any:
            before = dict(its.play_counts)
            response = play(its, request)
            taken = [number for number, count in its.play_counts.items() if count != before.get(number, 0)]
            recorded = its.data[taken[0]][0] if taken else request
            sent = its._before_record_request(request) or request  # noqa: SLF001 - as the cassette compares it
            if recorded.body != sent.body:
                self.played.append((self.current, recorded, sent))
            return response

        cassette.play_response = play_response

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        self.current = item.nodeid
        is_marked = any(item.get_closest_marker(name) is not None for name in ("vcr", "llm_replay"))
        self.tests[item.nodeid] = {"marked": is_marked, "outcome": "passed", "reason": "", "details": ""}
        signal.alarm(_LIMIT_S)
        yield
        signal.alarm(0)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, None]:
        report = (yield).get_result()
        test = self.tests[item.nodeid]
        if report.passed or test["outcome"] == "failed":
            return
        test["outcome"] = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if call.excinfo is not None and report.failed:
            test["reason"] = call.excinfo.exconly(tryshort=True)[:_MOST_OF_A_REASON]
            test["details"] = report.longreprtext[-_MOST_OF_A_REPORT:]

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        cpu = time.process_time()
        played = [
            {
                "test": test,
                "method": sent.method,
                "uri": sent.uri,
                "recorded": _text(recorded.body),
                "sent": _text(sent.body),
            }
            for test, recorded, sent in self.played
        ]
        document = {"cpu": cpu, "tests": self.tests, "played": played}
        Path(os.environ["SUITE_OUTCOMES"]).write_text(json.dumps(document), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    outcomes = Outcomes()
    signal.signal(signal.SIGALRM, _give_up)
    try:
        from vcr.cassette import Cassette  # noqa: PLC0415 - not there once a suite has moved over
    except ImportError:
        pass
    else:
        outcomes.watch(Cassette)
    config.pluginmanager.register(outcomes)


def _give_up(*_: object) -> None:
    raise TimeoutError(f"the test took longer than {_LIMIT_S} s")


def _text(body: Any) -> str:
    if hasattr(body, "read"):
        body = body.read()
    if isinstance(body, bytes | bytearray):
        body = bytes(body).decode("utf-8", "replace")
    return body if isinstance(body, str) else ""
