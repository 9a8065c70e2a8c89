"""In a marked test every call to a model is ours, whatever its host; the application under test is not."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.adapters.fake_provider import serving_in_thread, whole
from tests.gateway.upstream import model_server
from tests.pytest_plugin.conftest import record, run_in_process

SECOND_CLIENT = """
import json, socket, threading
from urllib.parse import urlsplit
import httpx, openai, pytest, requests

URL = {url!r}
ASKED = {{"model": "m", "messages": [{{"role": "user", "content": "one"}}]}}

@pytest.mark.llm_replay
def test_second_client():
    with openai.OpenAI(base_url=URL + "/v1", max_retries=0) as client:
        answer = client.chat.completions.create(**ASKED)
    assert answer.choices[0].message.content == "You said: one"
"""


def test_a_second_client_asks_nobody_in_replay(project: pytest.Pytester) -> None:
    """Found by what is asked, in `once` as in replay."""
    with model_server() as server:
        project.makepyfile(SECOND_CLIENT.format(url=server.url))
        recorded = run_in_process(project, "--llm-mode", "once")
        recorded.assert_outcomes(passed=1)
        recorded.stdout.fnmatch_lines(["0 hits, 0 misses, 1 recorded, 1 live*"])
        result = run_in_process(project)
        result.assert_outcomes(passed=1)
        assert len(server.received) == 1
    result.stdout.fnmatch_lines(["1 hit, 0 misses, 0 recorded, 0 live*"])


def test_a_miss_says_how_to_leave_an_application_alone(project: pytest.Pytester) -> None:
    with serving_in_thread(whole(b"{}")) as app:
        host = urlsplit(app.url).netloc
        project.makepyfile(SECOND_CLIENT.format(url=app.url))
        result = run_in_process(project)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"{host} is none of the configured providers*allow_hosts=?'{host}'?*"])
        assert app.received == []


def test_a_refusal_fails_the_test_in_whatever_thread(project: pytest.Pytester) -> None:
    with serving_in_thread(whole(b"{}")) as app:
        host = urlsplit(app.url).netloc
        project.makepyfile(
            SECOND_CLIENT.format(url=app.url)
            + """
def ask():
    try:
        with socket.create_connection((urlsplit(URL).hostname, urlsplit(URL).port)) as connection:
            body = json.dumps(ASKED).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\\r\\nHost: {urlsplit(URL).netloc}\\r\\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\\r\\n\\r\\n".encode() + body)
    except BaseException:
        pass

@pytest.mark.llm_replay(allow_no_calls=True)
def test_thread():
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
"""
        )
        result = run_in_process(project, "-k", "test_thread", "--llm-report", "report.json")
        result.assert_outcomes(failed=1, deselected=1)
        result.stdout.fnmatch_lines(
            [
                f"*live call to {host} was refused*allow_hosts=?'{host}'?*",
                f"refused: 1 x {host}, a call around cortex-replay",
            ]
        )
        assert app.received == []
    assert f'"{host}": 1' in (project.path / "report.json").read_text()


ALLOWED = """
@pytest.mark.llm_replay({arguments})
def test_application():
    for post in (requests.post, httpx.post):
        assert post(URL + "/v1/chat/completions", json=ASKED).status_code == 200
"""


@pytest.mark.parametrize("way", ["marker", "text", "ini"])
def test_the_application_under_test_is_named_by_the_marker_or_the_ini(
    project: pytest.Pytester, way: str
) -> None:
    with serving_in_thread(whole(b"{}")) as app:
        host = urlsplit(app.url).netloc
        arguments = {"marker": f", allow_hosts=[{host!r}]", "text": f", allow_hosts={host!r}", "ini": ""}
        test = ALLOWED.format(arguments=f"allow_no_calls=True{arguments[way]}")
        if way == "ini":
            project.makeini(f"[pytest]\nllm_store = llm\nllm_allow_hosts = elsewhere.example {host}\n")
        project.makepyfile(SECOND_CLIENT.format(url=app.url) + test)
        run_in_process(project, "-k", "test_application").assert_outcomes(passed=1, deselected=1)
        assert len(app.received) == 2


def test_the_test_s_own_gateway_can_be_asked_by_any_client(project: pytest.Pytester) -> None:
    record(project.path / "llm", "one")
    project.makepyfile(
        """
        import httpx, pytest, requests

        @pytest.mark.llm_replay
        def test_gateway(llm_gateway):
            asked = {"model": "m", "messages": [{"role": "user", "content": "one"}]}
            for post in (requests.post, httpx.post):
                answer = post(llm_gateway.url("openai") + "/v1/chat/completions", json=asked)
                assert answer.json()["choices"][0]["message"]["content"] == "You said: one"
        """
    )
    run_in_process(project).assert_outcomes(passed=1)


OTHER_HTTP = """
import pytest, requests

@pytest.mark.llm_replay(http="all")
def test_all():
    assert requests.get({url!r} + "/document").text == "a document"

@pytest.mark.llm_replay(allow_no_calls=True)
def test_models():
    assert requests.get({url!r} + "/document").text == "a document"

@pytest.mark.llm_replay(http="every")
def test_unknown():
    pass
"""


def test_all_http_of_a_test_is_recorded_by_the_marker_or_the_ini(project: pytest.Pytester) -> None:
    with serving_in_thread(whole(b"a document", content_type="text/plain")) as server:
        project.makepyfile(OTHER_HTTP.format(url=server.url))
        options = ("-k", "not unknown", "--llm-mode")
        run_in_process(project, *options, "once").assert_outcomes(passed=2, deselected=1)
        assert len(server.received) == 2
        run_in_process(project, *options, "replay").assert_outcomes(passed=2, deselected=1)
        assert len(server.received) == 3, "one of them is left alone"
    project.makeini("[pytest]\nllm_store = llm\nllm_http = all\n")
    result = run_in_process(project, "--llm-mode", "replay")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*llm_replay: http is 'models' or 'all', not 'every'*"])
