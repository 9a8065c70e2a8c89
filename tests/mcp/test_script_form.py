"""Which scripts a reader plays."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.mcp.script_form import problem_of_script

RESULT: dict[str, Any] = {"at_ms": 9, "result": {}}
NOTIFICATION = {"at_ms": 0, "notification": {"method": "notifications/message", "params": {"level": "info"}}}
REQUEST = {"at_ms": 1, "request": {"method": "roots/list"}}
ANSWER = {"at_ms": 2, "answer": {"to": 1, "result": {"roots": []}}}


def entry(kind: str, **value: Any) -> dict[str, Any]:
    return {"at_ms": 0, kind: value}


@pytest.mark.parametrize(
    ("method", "messages"),
    [
        ("tools/call", [RESULT]),
        ("tools/call", [NOTIFICATION, REQUEST, NOTIFICATION, ANSWER, RESULT, NOTIFICATION, REQUEST]),
        ("tools/call", [REQUEST, REQUEST, RESULT, {"at_ms": 3, "answer": {"to": 2, "error": {"code": 1}}}]),
        ("tools/call", [REQUEST, entry("notification", method="notifications/cancelled", to=1), RESULT]),
        ("tools/call", [{"at_ms": 0, "result": None}]),
        ("tools/call", [{"at_ms": 0, "error": "rubbish"}]),
        ("tools/call", [entry("cancelled", reason="tired")]),
        ("tools/call", [entry("cancelled"), NOTIFICATION]),
        ("tools/call", [{"at_ms": 0, "notification": {"method": "x", "params": [1]}}, RESULT]),
        ("subscriptions/listen", [NOTIFICATION]),
        ("notifications/initialized", [REQUEST, ANSWER]),
        ("notifications/initialized", []),
    ],
)
def test_a_script_that_is_played(method: str, messages: list[Any]) -> None:
    assert problem_of_script({"messages": messages, "meta": {"run": "r"}}, method) is None


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (None, "messages: expected a list"),
        ({}, "messages: expected a list"),
        ([], "messages: expected a result, an error or that it was cancelled"),
        ([NOTIFICATION], "messages: expected a result, an error or that it was cancelled"),
        ([RESULT, RESULT], "messages[1]: a call ends once"),
        ([RESULT, entry("cancelled")], "messages[1]: a call ends once"),
        ([7], "messages[0]: expected at_ms"),
        ([{"result": {}}], "messages[0]: expected at_ms"),
        ([{"at_ms": -1, "result": {}}], "messages[0]: expected at_ms"),
        ([{"at_ms": True, "result": {}}], "messages[0]: expected at_ms"),
        ([{"at_ms": 1.0, "result": {}}], "messages[0]: expected at_ms"),
        ([{"at_ms": 1, "result": {}, "error": {}}], "messages[0]: expected at_ms"),
        ([{"at_ms": 1, "results": {}}], "messages[0]: expected at_ms"),
        ([entry("notification")], "messages[0]: notification: expected a method"),
        ([entry("request", method=7)], "messages[0]: request: expected a method"),
        ([entry("request", method="x", id=1)], "messages[0]: request: expected an object with"),
        ([entry("request", method="x", jsonrpc="1")], "messages[0]: request: expected an object with"),
        ([entry("notification", method="x", id=1)], "messages[0]: notification: expected an object with"),
        ([entry("notification", method="x", to=1)], "messages[0]: notification: expected the number"),
        ([{"at_ms": 0, "notification": "x"}], "messages[0]: notification: expected an object with"),
        ([ANSWER], "messages[0]: answer: expected the number"),
        ([REQUEST, ANSWER, ANSWER], "messages[2]: answer: expected the number"),
        ([REQUEST, entry("answer", to=True, result={})], "messages[1]: answer: expected the number"),
        ([REQUEST, entry("answer", to=[1], result={})], "messages[1]: answer: expected the number"),
        ([REQUEST, entry("answer", to=1)], "messages[1]: answer: expected a result or an error"),
        ([REQUEST, entry("answer", to=1, result=1, error=1)], "messages[1]: answer: expected a result or"),
        ([entry("cancelled", reason=1)], "messages[0]: cancelled: expected a reason in words"),
        ([entry("cancelled", why="x")], "messages[0]: cancelled: expected an object with reason"),
    ],
)
def test_a_script_that_is_not(messages: Any, problem: str) -> None:
    found = problem_of_script({"messages": messages}, "tools/call")

    assert found is not None
    assert found.startswith(problem)


def test_a_notification_has_no_answer() -> None:
    assert problem_of_script({"messages": [RESULT]}, "notifications/x") == (
        "messages: a notification has no answer"
    )


@pytest.mark.parametrize("name", ["status", "body", "body_base64", "events", "frames", "headers"])
def test_what_other_answers_have_is_not_there(name: str) -> None:
    assert problem_of_script({"messages": [RESULT], name: None}, "tools/call") == (
        f"{name}: is not there where there are messages"
    )


def test_notes_are_an_object() -> None:
    assert problem_of_script({"messages": [RESULT], "meta": []}, "tools/call") == "meta: expected an object"
