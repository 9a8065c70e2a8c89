"""Scopes over HTTP: each gets what it recorded, and recording one leaves the others alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import ResponseParse, Store
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import scope_name
from cortex_replay.run import Run
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Script, serving_in_thread, stream, whole
from tests.engine.http.harness import ask, body_of, request_for, run_over
from tests.gateway.upstream import REAL_KEY

CLAUDE, CHAT = DIALECTS[:2]
HELLO = request_for("Say hello.")
MESSAGES, COMPLETIONS = "/anthropic/v1/messages", "/openai/v1/chat/completions"
RUN = "/openai/v1/threads/t/runs/r"
ASKED = body_of("anthropic-messages", HELLO)
CHATTED = body_of("openai-chat", HELLO)


def answers(*texts: str) -> list[Script]:
    return [whole(CLAUDE.answer(text)) for text in texts]


def statuses(*texts: str) -> list[Script]:
    return [whole(b'{"status":"%s"}' % text.encode()) for text in texts]


def record(root: Path, scope: str, *texts: str, mode: str = "once", count: int | None = None) -> Run:
    with serving_in_thread(*answers(*texts)) as provider, run_over(root, mode, provider.url) as run:
        assert say(run, scope, len(texts) if count is None else count) == [*texts]
        assert len(provider.received) == len(texts)
    return run


def say(run: Run, scope: str, count: int = 1) -> list[str]:
    got = [ask(run, "POST", MESSAGES, ASKED, scope=scope) for _ in range(count)]
    return [str(one.json["content"][0]["text"]) for one in got]


def poll(run: Run, scope: str, count: int = 1) -> list[Any]:
    got = [ask(run, "GET", RUN, scope=scope) for _ in range(count)]
    return [one.json.get("status", one.status) for one in got]


def files(root: Path) -> int:
    return len(list((root / "fixtures").rglob("*.json")))


class TestCompletions:
    def test_two_tests_that_ask_the_same_keep_their_own_answers(self, tmp_path: Path) -> None:
        record(tmp_path, "a", "six")
        record(tmp_path, "b", "two", mode="record")
        with run_over(tmp_path) as run:
            assert [say(run, scope, 2) for scope in ("a", "b", "c", "")] == [
                ["six"] * 2,
                ["two"] * 2,
                ["six"] * 2,
                ["six"] * 2,
            ]

    def test_to_record_one_again_leaves_the_other_as_it_is(self, tmp_path: Path) -> None:
        """Also if the other never asked, and was only given what was there."""
        record(tmp_path, "a", "six")
        with run_over(tmp_path, "once", "http://127.0.0.1:1") as run:
            assert say(run, "b") == ["six"]
        assert files(tmp_path) == 1, "nothing was copied"
        record(tmp_path, "a", "one", mode="record")
        with run_over(tmp_path) as run:
            assert [say(run, scope) for scope in ("a", "b", "c")] == [["one"], ["six"], ["one"]]

    def test_calls_without_a_scope_leave_those_in_one_alone(self, tmp_path: Path) -> None:
        record(tmp_path, "a", "six")
        record(tmp_path, "", "two", mode="record")
        with run_over(tmp_path) as run:
            assert [say(run, scope) for scope in ("a", "", "b")] == [["six"], ["two"], ["two"]]

    def test_one_run_asks_once_for_all_scopes(self, tmp_path: Path) -> None:
        """And each has its own row, to one file."""
        with (
            serving_in_thread(*answers("six")) as provider,
            run_over(tmp_path, "record", provider.url) as run,
        ):
            assert say(run, "a") == say(run, "b") == ["six"]
            assert len(provider.received) == 1
        assert files(tmp_path) == 1
        record(tmp_path, "a", "one", mode="record")
        with run_over(tmp_path) as run:
            assert (say(run, "a"), say(run, "b")) == (["one"], ["six"])

    def test_a_scope_goes_on_from_what_it_was_given(self, tmp_path: Path) -> None:
        """Its sequence is the one that it has seen, and what it asked besides; the other's is as it was."""
        record(tmp_path, "a", "six", "two")
        with serving_in_thread(*answers("five")) as provider, run_over(tmp_path, "once", provider.url) as run:
            assert say(run, "b", 3) == ["six", "two", "five"]
            assert len(provider.received) == 1
        with run_over(tmp_path) as run:
            assert (say(run, "a", 2), say(run, "b", 3)) == (["six", "two"], ["six", "two", "five"])
            assert ask(run, "POST", MESSAGES, ASKED, scope="a").status == 424

    def test_one_that_asks_anew_goes_on_from_its_own_only(self, tmp_path: Path) -> None:
        record(tmp_path, "a", "six", "two")
        record(tmp_path, "b", "five", mode="record")
        with run_over(tmp_path) as run:
            assert (say(run, "a", 2), say(run, "b", 2)) == (["six", "two"], ["five"] * 2)

    def test_a_failure_is_in_the_sequence_of_its_scope(self, tmp_path: Path) -> None:
        record(tmp_path, "a", "six")
        busy = whole(b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}', 529)
        with (
            serving_in_thread(busy, *answers("six")) as provider,
            run_over(tmp_path, "record", provider.url, record_failures=True) as run,
        ):
            got = [ask(run, "POST", MESSAGES, ASKED, scope="b").status for _ in range(2)]
            assert got == [529, 200]
        with run_over(tmp_path) as run:
            assert say(run, "a", 2) == ["six"] * 2
            assert [ask(run, "POST", MESSAGES, ASKED, scope="b").status for _ in range(3)] == [529, 200, 200]
        with (
            serving_in_thread(*answers("two")) as provider,
            run_over(tmp_path, "record", provider.url) as run,
        ):
            say(run, "b")
        with run_over(tmp_path) as run:
            assert say(run, "b", 2) == ["two"] * 2, "the error is gone with the answer in its place"

    def test_no_secret_becomes_the_name_of_a_scope(self, tmp_path: Path) -> None:
        with serving_in_thread(*answers("six")) as provider, run_over(tmp_path, "once", provider.url) as run:
            assert say(run, f"test[{REAL_KEY}]") == ["six"]
            assert run.ledger.recorded == 0
            assert run.ledger.refused
        record(tmp_path, "a", "six")
        with run_over(tmp_path, "once") as run:
            say(run, f"test[{REAL_KEY}]")
        for path in tmp_path.rglob("*"):
            assert path.is_dir() or REAL_KEY.encode() not in path.read_bytes()

    def test_any_name_can_be_written(self, tmp_path: Path) -> None:
        name = 'a\x1b[2J"\\' + "é" * 600
        record(tmp_path, "a", "one")
        record(tmp_path, scope_name(name), "six", mode="record")
        with run_over(tmp_path) as run:
            assert (say(run, scope_name(name)), say(run, "a")) == (["six"], ["one"])


class TestExchanges:
    def test_a_poll_is_answered_as_it_went_on(self, tmp_path: Path) -> None:
        scripts = statuses("queued", "running", "done")
        with serving_in_thread(*scripts) as provider, run_over(tmp_path, "once", provider.url) as run:
            assert poll(run, "a", 3) == ["queued", "running", "done"]
            assert len(provider.received) == 3
        with run_over(tmp_path) as run:
            assert poll(run, "a", 4) == ["queued", "running", "done", 424]
            assert "every answer" in run.ledger.misses[0].explanation
            assert poll(run, "b", 3) == ["queued", "running", "done"]
            assert poll(run, "", 2) == ["queued"] * 2, "their order is chance, so there is one answer"

    def test_equal_answers_are_one(self, tmp_path: Path) -> None:
        with (
            serving_in_thread(*statuses("done", "done")) as provider,
            run_over(tmp_path, "once", provider.url) as run,
        ):
            assert poll(run, "a", 2) == ["done"] * 2
        with run_over(tmp_path) as run:
            assert poll(run, "a", 5) == ["done"] * 5

    def test_each_scope_has_its_own(self, tmp_path: Path) -> None:
        for scope, texts in (("a", ["queued", "done"]), ("b", ["failed"])):
            with (
                serving_in_thread(*statuses(*texts)) as provider,
                run_over(tmp_path, "record", provider.url) as run,
            ):
                assert poll(run, scope, len(texts)) == texts
        with run_over(tmp_path, "once") as run:
            assert (poll(run, "a", 2), poll(run, "b", 2), poll(run, "c", 2)) == (
                ["queued", "done"],
                ["failed"] * 2,
                ["queued", "done"],
            )
        with (
            serving_in_thread(*statuses("new")) as provider,
            run_over(tmp_path, "record", provider.url) as run,
        ):
            assert poll(run, "a") == ["new"]
        with run_over(tmp_path) as run:
            assert poll(run, "a", 2) == ["new", "done"]
            assert poll(run, "c", 2) == ["queued", "done"], "it was given that before"
            assert poll(run, "b") == ["failed"]

    def test_one_run_asks_once_for_all_scopes(self, tmp_path: Path) -> None:
        with (
            serving_in_thread(*statuses("queued", "done")) as provider,
            run_over(tmp_path, "once", provider.url) as run,
        ):
            assert poll(run, "a", 2) == poll(run, "b", 2) == ["queued", "done"]
            assert poll(run, "", 2) == ["queued"] * 2
            assert len(provider.received) == 2
        assert files(tmp_path) == 1
        assert Store.open(tmp_path).scopes == {"b"}

    def test_an_error_is_an_answer_where_errors_are_recorded(self, tmp_path: Path) -> None:
        scripts = [whole(b'{"status":"busy"}', 503), *statuses("done")]
        with (
            serving_in_thread(*scripts) as provider,
            run_over(tmp_path, "once", provider.url, record_failures=True) as run,
        ):
            assert poll(run, "a", 2) == ["busy", "done"]
        with run_over(tmp_path) as run:
            assert poll(run, "a", 2) == ["busy", "done"]


NO_COMPLETIONS = {
    "no message": (COMPLETIONS, CHATTED, b'{"id":"x","choices":[{"finish_reason":"content_filter"}]}'),
    "no choice": (COMPLETIONS, CHATTED, b'{"id":"x","choices":[]}'),
    "an error": (COMPLETIONS, CHATTED, b'{"error":{"message":"filtered","code":"content_filter"}}'),
    "no JSON": (COMPLETIONS, CHATTED, b"<html>Please wait</html>"),
    "queued": (
        "/openai/v1/responses",
        body_of("openai-responses", HELLO),
        b'{"id":"r","status":"queued","output":[]}',
    ),
}


class TestNoCompletion:
    @pytest.mark.parametrize("case", NO_COMPLETIONS)
    def test_it_is_recorded_as_it_came(self, tmp_path: Path, case: str) -> None:
        """Whoever recorded it wanted it; and it stands in the order of the calls."""
        path, body, said = NO_COMPLETIONS[case]
        good = whole(CHAT.answer("six"))
        scripts = [whole(said), good] if path == COMPLETIONS else [whole(said)]
        with serving_in_thread(*scripts) as provider, run_over(tmp_path, "once", provider.url) as run:
            live = [ask(run, "POST", path, body, scope="a").body for _ in scripts]
            assert run.ledger.recorded == len(scripts)
        with run_over(tmp_path) as run:
            replayed = [ask(run, "POST", path, body, scope="a").body for _ in scripts]

        assert replayed == live
        assert live[0] == said

    def test_a_stream_that_says_something_else_too(self, tmp_path: Path) -> None:
        events = [b'data: {"error":{"message":"filtered"}}\n\n', b"data: [DONE]\n\n"]
        streamed = body_of("openai-chat", HELLO, stream=True)
        with serving_in_thread(stream(events)) as provider, run_over(tmp_path, "once", provider.url) as run:
            live = ask(run, "POST", COMPLETIONS, streamed)
        with run_over(tmp_path) as run:
            replayed = ask(run, "POST", COMPLETIONS, streamed, scope="a")
            other = ask(run, "POST", MESSAGES, ASKED, scope="b")

        assert (replayed.status, replayed.body) == (200, b"".join(events)) == (live.status, live.body)
        assert other.status == 502
        assert "no completion" in other.json["error"]["message"]

    def test_an_adapter_says_what_is_wrong_with_it(self, tmp_path: Path) -> None:
        path, body, said = NO_COMPLETIONS["no choice"]
        with serving_in_thread(whole(said)) as provider, run_over(tmp_path, "once", provider.url) as run:
            ask(run, "POST", path, body)
        with run_over(tmp_path) as run, pytest.raises(ResponseParse, match="there is no choice"):
            asyncio.run(ScopeAdapter(run.open_scope()).complete(HELLO))
