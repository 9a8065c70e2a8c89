"""No key in the environment: what stands for one, for whom, and what never leaves."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.config import Settings, key_for
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.providers import DUMMY_KEY, PROVIDERS
from cortex_replay.pytest_plugin.dummy_keys import DummyKeys
from cortex_replay.remote.bucket import Bucket
from cortex_replay.sharing.push import plan_push
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.forms import convert_index
from tests.gateway.upstream import model_server
from tests.pytest_plugin.conftest import record, run_in_process

VARIABLES = [name for row in PROVIDERS.values() if row.is_wanted({}) for name in row.sdk_key_variables]


def test_every_sdk_starts_and_the_user_s_keys_are_left_alone() -> None:
    environment = {"OPENAI_API_KEY": "mine", "ANTHROPIC_API_KEY": "", "GEMINI_API_KEY": "mine"}
    before = dict(environment)
    with DummyKeys([("ACME_API_KEY",)], environment).give():
        assert environment["OPENAI_API_KEY"] == environment["GEMINI_API_KEY"] == "mine"
        assert "GOOGLE_API_KEY" not in environment  # which its SDK would prefer
        for name in ("ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "CO_API_KEY", "GROQ_API_KEY", "ACME_API_KEY"):
            assert environment[name] == DUMMY_KEY
    assert environment == before


def test_the_keys_of_azure_are_there_only_for_who_uses_it() -> None:
    """OpenAI's SDK refuses to choose between two services that both have a key."""
    nobody: dict[str, str] = {}
    somebody = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}
    with DummyKeys(environment=nobody).give(), DummyKeys(environment=somebody).give():
        assert "AZURE_OPENAI_API_KEY" not in nobody
        assert somebody["AZURE_OPENAI_API_KEY"] == DUMMY_KEY


def test_a_profile_of_the_user_s_is_not_covered_by_dummies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A test may ask other services of Amazon's, with credentials that are in a file."""
    environment = {"AWS_PROFILE": "work"}
    with DummyKeys(environment=environment).give():
        assert "AWS_ACCESS_KEY_ID" not in environment
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").touch()
    environment = {}
    with DummyKeys(environment=environment).give():
        assert "AWS_ACCESS_KEY_ID" not in environment


def test_what_a_test_sets_itself_is_not_taken_back() -> None:
    environment: dict[str, str] = {}
    keys = DummyKeys(environment=environment)
    with keys.give():
        assert set(environment) == set(VARIABLES)
        with keys.withhold(VARIABLES):
            assert environment == {}
            environment["OPENAI_API_KEY"] = "set meanwhile"
        assert environment["OPENAI_API_KEY"] == "set meanwhile"
    assert environment == {"OPENAI_API_KEY": "set meanwhile"}


def test_a_dummy_is_taken_for_no_key() -> None:
    """Neither by a provider's own server nor by one that a variable names."""
    environment = {"OPENAI_API_KEY": DUMMY_KEY, "CORTEX_OPENAI_API_KEY": f" {DUMMY_KEY} "}
    assert key_for(Settings().providers["openai"], environment) is None
    for server in ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}):
        upstream = Upstreams(Settings(), environment | server)["openai"]
        assert upstream.key(environment | server) is None
    assert key_for(Settings().providers["openai"], {**environment, "OPENAI_API_KEY": "mine"}) == "mine"


def test_marked_tests_and_clients_made_while_tests_are_collected_find_dummies(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        app="import anthropic, openai\nCLIENTS = [openai.OpenAI(), anthropic.Anthropic()]",
        conftest="import app",
        test_a="import app\ndef test_not_marked():\n    assert all(client.api_key for client in app.CLIENTS)",
        test_b=f"""
        import os, pytest, app

        @pytest.mark.llm_replay(allow_no_calls=True)
        def test_marked():
            assert [client.api_key for client in app.CLIENTS] == [{DUMMY_KEY!r}] * 2
            assert all(os.environ[name] == {DUMMY_KEY!r} for name in {VARIABLES!r})
        """,
    )
    run_in_process(project).assert_outcomes(passed=2)
    assert not any(name in os.environ for name in VARIABLES)


CHECKS = """
import os, pytest
HAS_KEY = bool(os.environ.get("OPENAI_API_KEY"))

@pytest.mark.skipif(not HAS_KEY, reason="no key")
def test_live():
    raise AssertionError("there is no key")
"""


def test_whoever_looks_for_a_key_is_not_deceived(project: pytest.Pytester) -> None:
    """Tests that need a real key are skipped as ever: by a module, a conftest, a hook or a fixture."""
    project.makepyfile(
        test_module=CHECKS,
        conftest="""
        import os, pytest
        HAS_KEY = bool(os.environ.get("OPENAI_API_KEY"))

        def pytest_collection_modifyitems(items):
            for item in items:
                if "hook" in item.name and not os.environ.get("ANTHROPIC_API_KEY"):
                    item.add_marker(pytest.mark.skip(reason="no key"))
        """,
        test_others="""
        import os, pytest
        from conftest import HAS_KEY

        @pytest.mark.skipif(not HAS_KEY, reason="no key")
        def test_by_conftest(): raise AssertionError

        def test_by_hook(): raise AssertionError

        def test_by_itself():
            if "GEMINI_API_KEY" not in os.environ:
                pytest.skip("no key")
            raise AssertionError
        """,
    )
    run_in_process(project).assert_outcomes(skipped=4)


def test_a_module_that_looks_and_cannot_do_without_gets_its_dummy(project: pytest.Pytester) -> None:
    project.makepyfile(
        CHECKS.replace('.get("OPENAI_API_KEY")', '["OPENAI_API_KEY"]')
        + "@pytest.mark.llm_replay(allow_no_calls=True)\ndef test_marked(): pass\n"
    )
    run_in_process(project, "-k", "marked").assert_outcomes(passed=1, deselected=1)


def test_a_project_that_does_not_use_us_has_no_dummies(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    pytester.makepyfile("import os\nKEY = os.environ.get('OPENAI_API_KEY')\ndef test_a(): assert KEY is None")
    run_in_process(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize("mode", ["record", "live"])
def test_where_everything_is_asked_there_are_no_dummies(project: pytest.Pytester, mode: str) -> None:
    project.makepyfile(
        f"""
        import os, pytest
        COLLECTED = [name for name in {VARIABLES!r} if name in os.environ]

        @pytest.mark.llm_replay
        def test_marked():
            assert COLLECTED == [name for name in {VARIABLES!r} if name in os.environ] == []
        """
    )
    run_in_process(project, "--llm-mode", mode).assert_outcomes(passed=1)


ONCE = """
import openai, pytest

@pytest.mark.llm_replay
@pytest.mark.parametrize("text", ["one", "two"])
def test_ask(text):
    with openai.OpenAI(max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    assert answer.choices[0].message.content == f"You said: {text}"
"""


def test_once_replays_without_a_key_and_never_sends_a_dummy(project: pytest.Pytester) -> None:
    record(project.path / "llm", "one")
    project.makepyfile(ONCE)
    result = run_in_process(project, "--llm-mode", "once")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*OPENAI_API_KEY: is not set*openai*without a key. Nothing was sent*"])


def test_a_server_that_needs_no_key_is_recorded_without_one(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(ONCE)
    with model_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        run_in_process(project, "--llm-mode", "once").assert_outcomes(passed=2)
    assert all("authorization" not in call.headers for call in server.received)
    assert len(server.received) == len(Store.open(project.path / "llm")) == 2


def test_the_adapter_of_a_provider_without_its_key_replays_in_once(project: pytest.Pytester) -> None:
    record(project.path / "llm", "one")
    project.makefile(".toml", **{"cortex-replay": 'provider = "claude"\n'})
    project.makepyfile(
        """
        import pytest
        from cortex_replay import LlmRequest

        @pytest.mark.llm_replay
        @pytest.mark.parametrize("text", ["one", "two"])
        def test_adapter(llm, text):
            assert llm.sync.complete(LlmRequest("m", "", text, None, None)).text == "You said: one"
        """
    )
    result = run_in_process(project, "--llm-mode", "once")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*set CORTEX_CLAUDE_API_KEY or ANTHROPIC_API_KEY*"])


@pytest.mark.parametrize("form", ["single", "sharded"])
def test_a_bucket_is_opened_with_the_keys_that_a_gateway_hides(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Those of Amazon are for models, too, so the programs of a test get dummies in their place."""
    record(project.path / "llm", "hi")
    project.mkdir("bucket")
    project.makepyprojecttoml(f'[tool.cortex-replay.remote]\nurl = "file://{project.path}/bucket"\n')
    monkeypatch.setenv("CORTEX_REPLAY_CACHE", str(project.path / "cache"))
    plan_push(SharedStore.open(project.path / "llm")).apply()
    convert_index(DirectorySource(project.path / "llm"), is_sharded=form == "sharded")
    rmtree(project.path / "llm/fixtures")
    seen: list[str | None] = []
    opened = Bucket.open

    def open_bucket(url: str, *arguments: Any) -> Bucket:
        seen.append(os.environ.get("AWS_ACCESS_KEY_ID"))
        return opened(url, *arguments)

    monkeypatch.setattr(Bucket, "open", open_bucket)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "that of the user")
    project.makepyfile(
        """
        import os, httpx, pytest

        @pytest.mark.llm_replay
        def test_gateway(llm_gateway):
            assert os.environ["AWS_ACCESS_KEY_ID"] != "that of the user"
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            answer = httpx.post(llm_gateway.url("openai") + "/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
        """
    )

    run_in_process(project).assert_outcomes(passed=1)

    assert seen == ["that of the user"]
