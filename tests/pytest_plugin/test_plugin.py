"""The plugin as a test author has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cortex_replay import Fixture, Store
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY
from tests.pytest_plugin.conftest import Run
from tests.sampling import sample

SDKS = """
import asyncio, threading
import anthropic, openai, ollama, pytest

BEFORE = openai.OpenAI(max_retries=0)  # made before any test

def ask(text):
    with anthropic.Anthropic(max_retries=0) as client:
        asked = [{"role": "user", "content": text}]
        message = client.messages.create(model="m", max_tokens=9, messages=asked)
    return message.content[0].text

@pytest.mark.llm_replay
def test_plain():
    assert ask("one") == "You said: one"

@pytest.mark.llm_replay
def test_streamed():
    with anthropic.Anthropic(max_retries=0) as client:
        asked = [{"role": "user", "content": "two words"}]
        with client.messages.stream(model="m", max_tokens=9, messages=asked) as s:
            assert "".join(s.text_stream) == "You said: two words"

@pytest.mark.llm_replay
def test_a_client_made_before_in_another_thread():
    got = []
    def work():
        answer = BEFORE.chat.completions.create(model="m", messages=[{"role": "user", "content": "three"}])
        got.append(answer.choices[0].message.content)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert got == ["You said: three"]

@pytest.mark.llm_replay
def test_async():
    async def work():
        async with openai.AsyncOpenAI(max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "four"}], stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
    assert asyncio.run(work()) == "You said: four"

@pytest.mark.llm_replay
def test_ollama():
    assert ollama.chat("m", [{"role": "user", "content": "five"}]).message.content == "You said: five"

@pytest.mark.llm_replay
def test_the_same_question_again():
    assert ask("one") == "You said: one"
"""

ASK = """
import os
import httpx, pytest

def ask(text):
    base = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    key = {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
    answer = httpx.post(base + "/v1/messages", json=body, headers=key)
    return answer.raise_for_status().json()["content"][0]["text"]
"""


def test_unmodified_sdks_are_recorded_and_replayed(
    run: Run, pytester: pytest.Pytester, provider: FakeProvider
) -> None:
    pytester.makepyfile(SDKS)
    recorded = run("--llm-mode", "once", live=True)
    recorded.assert_outcomes(passed=6)
    calls = len(provider.received)
    replayed = run()
    replayed.assert_outcomes(passed=6)

    assert calls == len(provider.received) == 5, "two tests share one fixture"
    replayed.stdout.fnmatch_lines(["*model calls (replay)*", "6 hits, 0 misses, 0 recorded, 0 live*"])
    store = Store.open(pytester.path / "llm")
    assert len(store) == 5
    assert REAL_KEY.encode() not in b"".join(p.read_bytes() for p in pytester.path.rglob("*") if p.is_file())
    assert not store.abandoned().sessions


def test_nothing_stays_patched_and_nothing_else_is_touched(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import http.server, socket, threading
        import httpx, httpx2, pytest

        ORIGINALS = [
            httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request,
            httpx2.HTTPTransport.handle_request, httpx2.AsyncHTTPTransport.handle_async_request,
            socket.getaddrinfo,
        ]

        def now():
            return [
                httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request,
                httpx2.HTTPTransport.handle_request, httpx2.AsyncHTTPTransport.handle_async_request,
                socket.getaddrinfo,
            ]

        @pytest.mark.llm_replay(allow_no_calls=True)
        def test_inside():
            assert all(a is not b for a, b in zip(now(), ORIGINALS))
            server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
            threading.Thread(target=server.handle_request, daemon=True).start()
            assert httpx.get(f"http://127.0.0.1:{server.server_address[1]}/").status_code == 200
            server.server_close()

        def test_outside():
            assert now() == ORIGINALS
        """
    )
    Store.create(pytester.path / "llm")
    run().assert_outcomes(passed=2)


def test_a_prompt_edit_is_explained(run: Run, pytester: pytest.Pytester) -> None:
    """In the failure and in the summary, though the SDK wraps it."""
    source = """
import openai, pytest

@pytest.mark.llm_replay
def test_plain():
    asked = [{"role": "user", "content": "one"}]
    assert openai.OpenAI(max_retries=0).chat.completions.create(model="m", messages=asked)
"""
    pytester.makepyfile(source)
    run("--llm-mode", "once", live=True).assert_outcomes(passed=1)
    pytester.makepyfile(source.replace('"one"', '"won"'))
    result = run("--llm-report", "report.json")

    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert text.count("To record it") >= 2
    assert "--llm-mode once" in text
    assert "one" in text
    report = json.loads((pytester.path / "report.json").read_text())
    assert len(report["misses"]) == 1
    assert (len(report["used"]), report["missed"]) == (0, 1)


def test_a_marked_test_that_asks_nobody_fails(run: Run, pytester: pytest.Pytester) -> None:
    Store.create(pytester.path / "llm")
    pytester.makepyfile(
        """
        import socket, pytest

        @pytest.mark.llm_replay
        def test_silent(): pass

        @pytest.mark.llm_replay(allow_no_calls=True)
        def test_silent_by_choice(): pass

        @pytest.mark.llm_replay
        def test_around():
            try:
                socket.create_connection(("api.openai.com", 443))
            except Exception:
                pass

        def test_not_marked(): pass
        """
    )
    result = run()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["*made no model call that was intercepted*", "*live call to api.openai.com was refused*"]
    )


def test_the_ini_lets_marked_tests_ask_nobody(run: Run, pytester: pytest.Pytester) -> None:
    """As vcrpy does; a marker still decides for its own test."""
    Store.create(pytester.path / "llm")
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.llm_replay

        def test_silent(): pass

        @pytest.mark.llm_replay(allow_no_calls=False)
        def test_that_should_ask(): pass
        """
    )
    result = run("-o", "llm_allow_no_calls=true")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_that_should_ask*"])


def test_only_what_passed_is_kept(run: Run, pytester: pytest.Pytester) -> None:
    """Unless it is asked for; and what a test that passed has used, too."""
    pytester.makepyfile(
        ASK
        + """
@pytest.mark.llm_replay
def test_a_fails():
    ask("shared"); ask("mine"); assert False

@pytest.mark.llm_replay
def test_b_passes():
    ask("shared")
"""
    )
    run("--llm-mode", "once", live=True).assert_outcomes(passed=1, failed=1)
    store = Store.open(pytester.path / "llm")
    texts = {store.get(i.model, i.prompt_hash).answers[0].text for i in store.list()}
    assert texts == {"You said: shared"}
    run("--llm-mode", "once", "--llm-keep-failed", live=True)
    assert len(Store.open(pytester.path / "llm")) == 2


def test_fixtures_for_tests(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", **{"cortex-replay": '[providers.scripted]\nkind = "scripted"\n'})
    pytester.makepyfile(
        """
        import subprocess, sys, pytest, openai
        from cortex_replay import LlmRequest

        pytestmark = pytest.mark.llm_replay

        def test_adapter(llm, llm_recording, llm_store):
            answer = llm.sync.complete(LlmRequest("m", "", "Good morning!", 0.0, 64))
            assert answer.text
            assert [call.text for call in llm_recording.calls] == [answer.text]
            assert llm_recording.requests[0].messages[0].content == "Good morning!"
            assert str(llm_store.root).endswith("llm")

        def test_recording(llm_recording):
            with openai.OpenAI() as client:
                tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
                talk = [{"role": "user", "content": "look"}]
                client.chat.completions.create(model="m", messages=talk, tools=tools)
                talk += [{"role": "assistant", "content": "I did."}, {"role": "user", "content": "And?"}]
                client.chat.completions.create(model="m", messages=talk, tools=tools)
            assert [call.name for call in llm_recording.tool_calls] == ["look", "look"]
            assert llm_recording.tokens == 32
            llm_recording.assert_prefix_stable()

        def test_subprocess(llm_gateway):
            program = "import json, os, urllib.request as r; body = {'model': 'm', 'messages': "
            program += "[{'role': 'user', 'content': 'from outside'}]}; url = os.environ['OPENAI_BASE_URL']; "
            program += "head = {'content-type': 'application/json'}; body = json.dumps(body).encode(); "
            program += "done = r.urlopen(r.Request(url + '/chat/completions', body, head)); "
            program += "print(json.load(done)['choices'][0]['message']['content'])"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            assert done.stdout == "You said: from outside\\n", done.stderr
        """
    )
    options = ["-o", "llm_replay=true"]
    pytester.makeconftest("import os\nos.environ.setdefault('CORTEX_REPLAY_PROVIDER', 'scripted')\n")
    run("--llm-mode", "once", *options, live=True).assert_outcomes(passed=3)
    run(*options).assert_outcomes(passed=3)


@pytest.mark.parametrize("options", sample([["-n", "2"], ["-n", "2", "--dist", "loadscope"]], 1), ids=str)
def test_workers_record_as_one(
    run: Run, pytester: pytest.Pytester, provider: FakeProvider, options: list[str]
) -> None:
    """And, apart from meta and times, the bytes that one process records; whatever the order."""
    pytester.makepyfile(
        ASK
        + """
@pytest.mark.llm_replay
@pytest.mark.parametrize("i", range(8))
def test_many(i):
    ask("shared by all"); ask(f"own {i}")
    assert i != 5
"""
    )
    recorded = run("--llm-mode", "once", *options, live=True)
    recorded.assert_outcomes(passed=7, failed=1)
    asked = [call.json["messages"][0]["content"] for call in provider.received]
    assert asked.count("shared by all") == 1, "one asks, the others are given its answer"
    store = Store.open(pytester.path / "llm")
    assert len(store) == 1 + 7
    metas = [store.get(stored.model, stored.prompt_hash).meta or {} for stored in store.list()]
    assert len({meta["run"] for meta in metas}) == 1, "and it is one run"
    assert not store.abandoned().sessions
    without_failure = ("--deselect", "test_workers_record_as_one.py::test_many[5]")
    replayed = run(*options, *without_failure)
    replayed.assert_outcomes(passed=7)
    replayed.stdout.fnmatch_lines(["14 hits, 0 misses*"])
    alone = run(*without_failure)
    alone.stdout.fnmatch_lines(["14 hits, 0 misses*"])
    by_workers = without_meta(store.root)
    shutil.rmtree(store.root)
    run("--llm-mode", "once", *without_failure, live=True).assert_outcomes(passed=7)
    assert without_meta(store.root) == by_workers


def without_meta(root: Path) -> dict[str, object]:
    """The documents of a store, each by the hash of its prompt."""
    found: dict[str, object] = {}
    for path in sorted((root / "fixtures").rglob("*.json")):
        document = json.loads(path.read_text())
        del document["meta"]
        found[document["request_match"]["prompt_hash"]] = document
    return found


def test_unused_fixtures(run: Run, pytester: pytest.Pytester) -> None:
    """Those of tests that did not run are not judged."""
    source = ASK + (
        "@pytest.mark.llm_replay\ndef test_a():\n    ask('a')\n\n"
        "@pytest.mark.llm_replay\ndef test_b():\n    ask('b')\n"
    )
    pytester.makepyfile(source)
    run("--llm-mode", "once", live=True).assert_outcomes(passed=2)
    run("--llm-fail-unused").stdout.fnmatch_lines(["*0 of 2 fixtures unused"])
    partial = run("-k", "test_a", "--llm-fail-unused")
    assert partial.ret == 0
    partial.stdout.fnmatch_lines(["*0 of 2 fixtures unused, 1 not judged (not all tests ran)"])
    pytester.makepyfile(source.replace("ask('b')", "ask('a')"))
    run().stdout.fnmatch_lines(["*1 of 2 fixtures unused", "unused: fixtures/m/*"])
    failing = run("--llm-fail-unused", "--llm-report", "report.json")
    assert failing.ret == 1
    report = json.loads((pytester.path / "report.json").read_text())
    assert (len(report["used"]), len(report["unused"])) == (1, 1)


def test_a_family_of_faults(run: Run, pytester: pytest.Pytester) -> None:
    """Each call fails once in each way; the SDK tries again, or the test does not pass."""
    pytester.makepyfile(
        """
        import openai, pytest

        def ask(retries):
            with openai.OpenAI(max_retries=retries) as client:
                asked = [{"role": "user", "content": "hi"}]
                answer = client.chat.completions.create(model="m", messages=asked)
            return answer.choices[0].message.content

        @pytest.mark.llm_faults
        def test_steady():
            assert ask(2)

        @pytest.mark.llm_faults("429:0.01", "timeout")
        def test_fragile():
            assert ask(0)
        """
    )
    run("--llm-mode", "once", live=True).assert_outcomes(passed=2)
    result = run("-v")
    result.assert_outcomes(passed=6 + 1, failed=2)
    result.stdout.fnmatch_lines(["*test_steady?recorded? PASSED*", "*test_steady?429:0.01@1? PASSED*"])


def test_wrong_options(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass")
    assert run("--llm-mode", "sometimes").ret == 4
    pytester.makefile(".toml", **{"cortex-replay": "nonsense = 1\n"})
    pytester.makepyfile("import pytest\n@pytest.mark.llm_replay\ndef test_a(): pass")
    result = run()
    assert result.ret != 0
    assert "nonsense" in result.stdout.str() + result.stderr.str()


def test_a_missing_store_is_told(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.llm_replay\ndef test_a(): pass")
    result = run()
    assert result.ret == 1
    assert "llm" in result.stdout.str()


def test_an_empty_run_loads_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test_a():\n    assert 'cortex_replay.store' not in sys.modules")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_entry_point_is_there() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'cortex_replay = "cortex_replay.pytest_plugin"' in text


def test_a_test_s_own_normalisers(run: Run, pytester: pytest.Pytester) -> None:
    """A prompt with an id in it is the same prompt."""
    pytester.makepyfile(
        ASK
        + """
import uuid

@pytest.mark.llm_replay(normalisers=["builtin:uuid"])
def test_with_an_id():
    assert ask(f"Job {uuid.uuid4()}, please.")
"""
    )
    run("--llm-mode", "once", live=True).assert_outcomes(passed=1)
    run().assert_outcomes(passed=1)
    store = Store.open(pytester.path / "llm")
    (item,) = store.list()
    meta = store.get(item.model, item.prompt_hash).meta
    assert meta is not None
    assert meta["normalisers"]


RERUN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(3):  # as a plugin does that runs a test again
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
REVERSED = "def pytest_collection_modifyitems(items): items.reverse()"


@pytest.mark.parametrize(
    ("hooks", "options"), sample([(RERUN, []), (REVERSED, []), (REVERSED, ["-n", "2"]), ("", [])], 2)
)
def test_each_attempt_counts_from_the_start(
    run: Run, pytester: pytest.Pytester, hooks: str, options: list[str]
) -> None:
    """Whatever the order, and however often: the first call of a test gets the first answer."""
    request = WIRES["anthropic-messages"].lift(
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Again?"}]}
    )
    store = Store.create(pytester.path / "llm")
    store.add(Fixture.of(request, "first", "second"))
    store.commit()
    pytester.makeconftest(hooks)
    pytester.makepyfile(
        ASK
        + """
@pytest.mark.llm_replay
@pytest.mark.parametrize("i", ["a/b", "a b", "a::b", "\u00fc", ""])
def test_twice(i):
    assert [ask("Again?"), ask("Again?")] == ["first", "second"]
"""
    )
    run(*options).assert_outcomes(passed=5)
