from __future__ import annotations

import pytest

from cortex_replay import LlmAdapter
from cortex_replay.pytest_plugin import LlmRecording
from examples.pytest_project import agent

pytestmark = pytest.mark.llm_replay

QUESTION = "What is the weather in Paris?"


def test_our_adapter(llm: LlmAdapter) -> None:
    assert "18 C" in agent.with_our_adapter(llm, QUESTION)


def test_the_anthropic_sdk(llm_recording: LlmRecording) -> None:
    assert "18 C" in agent.with_anthropic(QUESTION)
    assert [call.name for call in llm_recording.tool_calls] == ["get_weather"]
    llm_recording.assert_prefix_stable()


def test_pydantic_ai(llm_recording: LlmRecording) -> None:
    assert "18 C" in agent.with_pydantic_ai(QUESTION)
    assert len(llm_recording.calls) == 2


@pytest.mark.llm_faults("429:0.01", "529", "cut", turns=2)
def test_the_openai_sdk() -> None:
    assert "18 C" in agent.with_openai(QUESTION)
