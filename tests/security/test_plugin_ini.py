"""What the ini of a project says to the plugin counts as much as its configuration, and no more."""

from __future__ import annotations

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY
from tests.pytest_plugin.conftest import Run, provider, run, run_in_process  # noqa: F401 - fixtures

# Asks as an SDK does, which would take longer to import than everything else that happens here.
TEST = """
import os
import httpx
import pytest

@pytest.mark.llm_replay
def test_one():
    question = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    assert httpx.post(url, headers=key, json=question).status_code == 200
"""


@pytest.fixture
def live(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A server and a key for it."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)


def test_a_mode_in_the_ini_does_not_hold_in_ci(
    run: Run,  # noqa: F811
    provider: FakeProvider,  # noqa: F811
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one in a configuration does not: it counted as an option, and the keys of the job were used."""
    pytester.makepyfile(TEST)
    pytester.makeini("[pytest]\nllm_mode = record\n")
    (pytester.path / ".git").mkdir()

    done = run("--llm-mode", "once", live=True)
    assert done.ret == 0
    assert len(provider.received) == 1
    monkeypatch.setenv("CI", "true")

    done = run(live=True)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*model calls (replay)*", "*CI is set*llm_mode*", "1 hit,*"])
    assert len(provider.received) == 1
    assert run("--llm-mode", "record", live=True).ret == 0
    assert len(provider.received) == 2, "whoever runs it can still say so"
    monkeypatch.delenv("CI")
    assert run(live=True).ret == 0
    assert len(provider.received) == 3, "a person's run is as the ini says"


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("where", ["../elsewhere", "{outside}", "llm/../../elsewhere"])
def test_a_store_in_the_ini_stays_in_the_project(
    pytester: pytest.Pytester,
    tmp_path_factory: pytest.TempPathFactory,
    where: str,
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "store"
    pytester.makepyfile(TEST)
    pytester.makeini(f"[pytest]\nllm_store = {where.format(outside=outside)}\n")
    (pytester.path / ".git").mkdir()
    before = sorted(pytester.path.parent.iterdir())

    done = run_in_process(pytester, "--llm-mode", "once")

    assert done.ret != 0
    assert "llm_store: is outside of this project" in done.stdout.str() + done.stderr.str()
    assert sorted(pytester.path.parent.iterdir()) == before
    assert not outside.exists()


@pytest.mark.usefixtures("live")
def test_a_store_in_the_ini_may_be_anywhere_in_the_project(
    pytester: pytest.Pytester,
) -> None:
    """Also beside the folder of the ini, as in a repository of several projects."""
    below = pytester.mkdir("service")
    (below / "pytest.ini").write_text("[pytest]\nllm_store = ../recordings\n")
    (below / "test_one.py").write_text(TEST)
    (pytester.path / ".git").mkdir()

    done = run_in_process(pytester, "--llm-mode", "once", "service")

    assert done.ret == 0
    assert (pytester.path / "recordings" / "INDEX.toml").is_file()
