"""Old recordings are answers like others."""

from __future__ import annotations

import pytest

from cortex_replay import Answer, Fixture, FixtureKey, Store
from cortex_replay.types import JsonValue
from cortex_replay.wire import WIRES
from tests.gateway.upstream import REAL_KEY, model_server
from tests.pytest_plugin.conftest import run_in_process


@pytest.mark.parametrize("mode", ["replay", "once"])
def test_an_old_recording_asks_nobody(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Also where what is missing would be asked, and somebody would answer."""
    request = WIRES["openai-chat"].lift({"model": "m", "messages": [{"role": "user", "content": "one"}]})
    store = Store.open(project.path / "llm")
    key = FixtureKey("m", request.prompt_hash())
    answers = (Answer("It is old.", finish_reason="stop"),)
    meta: dict[str, JsonValue] = {"recorded_at": "2021-05-01T00:00:00Z"}
    store.add(Fixture(key, answers, request, meta))
    store.commit()
    project.makefile(".toml", **{"cortex-replay": 'max_age = "1h"\n'})
    project.makepyfile(
        """
        import openai, pytest

        @pytest.mark.llm_replay
        def test_it():
            message = {"role": "user", "content": "one"}
            made = openai.OpenAI(max_retries=0).chat.completions.create(model="m", messages=[message])
            assert made.choices[0].message.content == "It is old."
        """
    )
    with model_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
        result = run_in_process(project, "--llm-mode", mode)
    result.assert_outcomes(passed=1)
    assert server.received == []
