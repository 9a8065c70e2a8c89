"""The suite for all adapters, over a script that says what the tiny model says."""

from __future__ import annotations

import pytest

from cortex_replay import LlmRequest, LlmRole, Upstream
from cortex_replay.testing import Reply, Rule, ScriptedAdapter
from tests.adapters.conformance import HELLO, WEATHER, AdapterConformance, BasicConformance, Subject


def tiny(request: LlmRequest) -> Reply:
    """What ``tests/servers/tiny_model.py`` describes, with the limits that a server applies."""
    prompt = " ".join([request.system, *(message.content for message in request.messages)])
    tools = (
        [] if request.tool_choice == "none" else [tool for tool in request.tools if isinstance(tool, dict)]
    )
    if any(tool.get("input_schema") == {"type": 5} for tool in tools):
        raise Upstream(400, "there is no such type")
    if "#tool" in prompt and tools and request.messages[-1].role is not LlmRole.TOOL:
        return Reply(call={"name": "get_weather", "arguments": {"city": "Paris"}})
    words = (request.max_tokens or 3000) // 2
    texts = {
        "#tool": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        "#json": '{"answer": 42, "ok": true}',
        "#unicode": "Café yes 🙂日",
        "#think": "The answer is 42.",
        "#forever": " ".join(["tick tock"] * words),
        "#dice": "You rolled six!" if is_thrown(request) else "You rolled one!",
    }
    text = next((text for marker, text in texts.items() if marker in prompt), HELLO)
    if request.messages[-1].role is LlmRole.TOOL:
        text = WEATHER
    for stop in request.stop:
        text = text.partition(stop)[0]
    return Reply(
        say=text,
        think="Let me check that" if "#think" in prompt else None,
        finish_reason="length" if "#forever" in prompt else "stop",
    )


def is_thrown(request: LlmRequest) -> bool:
    return request.temperature == 1.0 and request.top_p == 1.0 and request.top_k is None


class TestFunction(AdapterConformance):
    @pytest.fixture
    def subject(self) -> Subject:
        return Subject(adapter=ScriptedAdapter(tiny), adapter_id="scripted")


class TestRules(BasicConformance):
    @pytest.fixture
    def subject(self) -> Subject:
        return Subject(adapter=ScriptedAdapter([Rule(say=HELLO)]), adapter_id="scripted")
