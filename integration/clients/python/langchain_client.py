"""The chat models of ``langchain-anthropic``, ``langchain-openai`` and ``langchain-ollama``."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from steps import Outcome, run

MODEL: Final = os.environ["CLIENT_MODEL"]
MODELS: Final[dict[str, Callable[..., Any]]] = {
    "anthropic": partial(ChatAnthropic, model_name=MODEL, max_tokens_to_sample=16),
    "openai-chat": partial(ChatOpenAI, model=MODEL, max_completion_tokens=16, temperature=0),
    "openai-responses": partial(ChatOpenAI, model=MODEL, max_completion_tokens=16, use_responses_api=True),
    "ollama": partial(ChatOllama, model=MODEL, num_predict=16, temperature=0),
}
# Ollama cannot think and keep to a schema at once, so that it must be told not to.
NO_THINKING: Final[dict[str, dict[str, Any]]] = {
    "openai-chat": {"reasoning_effort": "none"},
    "openai-responses": {"reasoning": {"effort": "none"}},
    "ollama": {"reasoning": False},
}

# One for all: langchain-openai keeps its connections, and those belong to a loop.
LOOP: Final = asyncio.Runner()


class Answer(BaseModel):
    answer: int
    ok: bool


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 C, sunny in {city}"


def told(message: Any) -> Outcome:
    metadata = message.response_metadata
    reasons = (metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason", "status"))
    return {
        "text": message.text,
        "calls": [[call["name"], call["args"]] for call in message.tool_calls],
        "finish": next((reason for reason in reasons if reason), None),
        "tokens": (message.usage_metadata or {}).get("output_tokens"),
    }


def plain(api: str) -> Outcome:
    return told(MODELS[api]().invoke([SystemMessage("Be brief."), HumanMessage("Hello")]))


def stream(api: str) -> Outcome:
    chunks = list(MODELS[api]().stream("Stream this"))
    return told(sum(chunks[1:], chunks[0])) | {"chunks": sum(bool(chunk.text) for chunk in chunks)}


def tool(api: str) -> Outcome:
    model = MODELS[api]().bind_tools([get_weather])
    messages = [HumanMessage("#tool in Paris?")]
    first = model.invoke(messages)
    results = [ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
    return {"answers": [told(first), told(model.invoke([*messages, first, *results]))]}


def tool_result(api: str) -> Outcome:
    history = [
        HumanMessage("Weather in Paris?"),
        AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}]),
        ToolMessage("18 C, sunny", tool_call_id="call_1"),
    ]
    return told(MODELS[api]().bind_tools([get_weather]).invoke(history))


def structured(api: str) -> Outcome:
    model = MODELS[api](**NO_THINKING.get(api, {}))
    answer = model.with_structured_output(Answer, method="json_schema").invoke("#json")
    return {"parsed": answer.model_dump()}


def turns(api: str) -> Outcome:
    model = MODELS[api]()
    messages = [HumanMessage("Good morning")]
    messages += [model.invoke(messages), HumanMessage("And now?")]
    return told(model.invoke(messages))


def concurrent(api: str) -> Outcome:
    questions = ["One", "#unicode", "#json", "Four"]
    return {"answers": [told(message) for message in LOOP.run(MODELS[api]().abatch(questions))]}


if __name__ == "__main__":
    steps = (plain, stream, tool, tool_result, structured, turns, concurrent)
    run({api: {step.__name__: partial(step, api) for step in steps} for api in MODELS})
