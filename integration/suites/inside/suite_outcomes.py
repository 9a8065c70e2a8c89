"""A plugin for the suites: what came of each test, what it cost, and which questions vcrpy did not compare.

It runs in the suite's own environment, so it imports the standard library and pytest alone. `SUITE_OUTCOMES`
names the file that it writes.
"""

import json
import os
import time

import pytest

_tests = {}
_played = []
_current = ""


def pytest_configure(config):
    """Watch which recorded call vcrpy takes for which call of the test."""
    try:
        from vcr.cassette import Cassette
    except ImportError:
        return
    play = Cassette.play_response

    def play_response(self, request):
        before = dict(self.play_counts)
        response = play(self, request)
        taken = [number for number, count in self.play_counts.items() if count != before.get(number, 0)]
        recorded = self.data[taken[0]][0] if taken else request
        filtered = self._before_record_request(request) or request
        if recorded.body != filtered.body:
            _played.append((_current, recorded, filtered))
        return response

    Cassette.play_response = play_response


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    global _current
    _current = item.nodeid
    marked = any(item.get_closest_marker(name) is not None for name in ("vcr", "llm_replay"))
    _tests[item.nodeid] = {"marked": marked, "outcome": "passed", "reason": "", "details": ""}
    yield


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    entry = _tests[item.nodeid]
    if report.passed or entry["outcome"] == "failed":
        return
    entry["outcome"] = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    if call.excinfo is not None and report.failed:
        entry["reason"] = call.excinfo.exconly(tryshort=True)[:4000]
        entry["when"] = call.when
        entry["details"] = report.longreprtext[-12000:]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    cpu = time.process_time()
    others = {}
    for test, recorded, sent in _played:
        fields = _differences(_value(recorded.body), _value(sent.body))
        if fields:
            call = f"{sent.method} {sent.uri.partition('?')[0]}"
            others.setdefault(test, []).append({"call": call, "fields": fields[:8]})
    with open(os.environ["SUITE_OUTCOMES"], "w", encoding="utf-8") as file:
        json.dump({"cpu": cpu, "tests": _tests, "other_questions": others}, file)


def _value(body):
    if hasattr(body, "read"):
        body = body.read()
    if isinstance(body, (bytes, bytearray)):
        body = bytes(body).decode("utf-8", "replace")
    try:
        return json.loads(body)
    except (TypeError, ValueError):
        return body or ""


def _differences(recorded, sent, path=""):
    """The places where two bodies say something else, with both values."""
    if type(recorded) is type(sent) and isinstance(sent, dict):
        names = [*recorded, *(name for name in sent if name not in recorded)]
        inner = [
            _differences(recorded.get(name, _ABSENT), sent.get(name, _ABSENT), f"{path}.{name}" if path else name)
            for name in names
        ]
        return [difference for found in inner for difference in found]
    if type(recorded) is type(sent) and isinstance(sent, list) and len(recorded) == len(sent):
        inner = [
            _differences(one, other, f"{path}[{number}]")
            for number, (one, other) in enumerate(zip(recorded, sent))
        ]
        return [difference for found in inner for difference in found]
    if recorded == sent and type(recorded) is type(sent):
        return []
    return [{"field": path or "the body", "recorded": _shown(recorded), "sent": _shown(sent)}]


class _Absent:
    def __repr__(self):
        return "absent"


_ABSENT = _Absent()


def _shown(value):
    text = repr(value) if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."
