"""Tests that are recorded by several machines: one call per answer, and each test has what it got."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.sharing.collect import plan_collection
from tests.adapters.fake_provider import FakeProvider
from tests.fleets import SEAL, MemoryBucket, enter_fleet
from tests.gateway.upstream import REAL_KEY
from tests.pytest_plugin.conftest import run_in_process

SUITE = """
import httpx, os, pytest

def ask(question):
    body = {"model": "m", "messages": [{"role": "user", "content": question}]}
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    answer = httpx.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]

@pytest.mark.llm_replay
def test_near():
    assert ask("Of all?") and ask("Of one?")

@pytest.mark.llm_replay
def test_there():
    assert ask("Of all?")

@pytest.mark.llm_replay
def test_failure():
    ask("Of the failed one?")
    assert False

@pytest.mark.llm_replay
def test_going():
    from cortex_replay.remote.bucket import Bucket
    gone = Bucket.open("").is_gone
    ask("Of all?")
    gone.append(True)

@pytest.mark.llm_replay
def test_after():
    ask("Of one?")
"""


@pytest.fixture
def bucket(project: pytest.Pytester, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
    project.makepyfile(test_m=SUITE)
    return enter_fleet(monkeypatch)


def test_two_machines_record_one_suite(
    project: pytest.Pytester, provider: FakeProvider, bucket: MemoryBucket, tmp_path: Path
) -> None:
    """One test on each: the answer that both need is asked for once, and is kept for both."""
    options = ("-p", "no:randomly", "--llm-mode", "once", "--llm-store")
    run_in_process(project, *options, "one", "-k", "near or failure").assert_outcomes(passed=1, failed=1)
    assert len(provider.received) == 3
    run_in_process(project, *options, "two", "-k", "there").assert_outcomes(passed=1)
    assert len(provider.received) == 3

    store = Store.open_or_create(tmp_path / "all")
    found = plan_collection(store, bucket, SEAL)
    assert (found.answers, found.run.withdrawn, len(found.run.workers)) == (3, 1, 2)
    assert found.is_whole
    found.apply(store)
    assert len(store) == 2
    assert store.scopes == {"test_m.py::test_there"}
    replay = ("--llm-store", str(tmp_path / "all"), "--llm-mode", "replay")
    run_in_process(project, *replay, "-k", "near or there").assert_outcomes(passed=2)


def test_a_bucket_that_goes_away_fails_the_run(project: pytest.Pytester, bucket: MemoryBucket) -> None:
    """With a reason; and what was recorded is in the store."""
    options = ("-p", "no:randomly", "--llm-mode", "once", "--llm-store")
    result = run_in_process(project, *options, "one", "-k", "going or after")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["error: *s3://team/agents cannot be asked*"])
    assert len(Store.open(project.path / "one")) == 1

    result = run_in_process(project, *options, "two", "-k", "there")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["error: *s3://team/agents cannot be asked*"])
