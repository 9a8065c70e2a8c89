"""Frameworks that have OpenAI's SDK below them, or none: ``framework_client.py FRAMEWORK``."""

# These are not in the project's own environment.
# mypy: disable-error-code="import-not-found,import-untyped,misc,untyped-decorator"
# mypy: allow-subclassing-any

# ruff: noqa: PLC0415 - one of them is asked for, and not all are installed together

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel
from steps import Outcome, run

MODEL: Final = os.environ["CLIENT_MODEL"]
PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Final[list[Any]] = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "The weather.", "parameters": PARAMETERS},
    }
]
Steps = dict[str, Callable[[], Outcome]]


class Answer(BaseModel):
    answer: int
    ok: bool


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _litellm_steps(ask: Callable[..., Any], pieces: Callable[..., list[Any]]) -> Steps:
    def message(text: str, **more: Any) -> Any:
        return ask(messages=user(text), **more).choices[0].message

    def tool() -> Outcome:
        calls = message("#tool in Paris?", tools=TOOLS).tool_calls
        return {"calls": [[call.function.name, call.function.arguments] for call in calls]}

    return {
        "plain": lambda: {"text": message("Hello").content},
        "stream": lambda: {"pieces": pieces(messages=user("Stream #unicode"))},
        "tool": tool,
        "structured": lambda: {"parsed": json.loads(message("#json", response_format=Answer).content)},
    }


def litellm() -> Steps:
    import litellm

    fixed = {"model": f"openai/{MODEL}", "max_tokens": 16, "temperature": 0}

    def pieces(**body: Any) -> list[Any]:
        return [chunk.choices[0].delta.content for chunk in litellm.completion(**fixed, **body, stream=True)]

    return _litellm_steps(lambda **body: litellm.completion(**fixed, **body), pieces)


def litellm_async() -> Steps:
    """By its transport for aiohttp, to a provider that it asks without an SDK."""
    import litellm

    litellm.suppress_debug_info = True

    fixed = {"model": f"anthropic/{MODEL}", "max_tokens": 16, "temperature": 0}
    loop = asyncio.Runner()

    async def pieces(**body: Any) -> list[Any]:
        answer = await litellm.acompletion(**fixed, **body, stream=True)
        return [chunk.choices[0].delta.content async for chunk in answer]

    steps = _litellm_steps(
        lambda **body: loop.run(litellm.acompletion(**fixed, **body)), lambda **body: loop.run(pieces(**body))
    )
    del steps["structured"]  # it makes a tool of the schema, which the tiny model does not call
    return steps


def instructor() -> Steps:
    import instructor
    from openai import OpenAI

    client = instructor.from_openai(OpenAI(), mode=instructor.Mode.JSON_SCHEMA)
    asked = {"model": MODEL, "max_tokens": 16, "response_model": Answer, "max_retries": 0}

    def stream() -> Outcome:
        parts = client.chat.completions.create_partial(**asked, messages=user("Stream #json"))
        return {"pieces": [part.model_dump() for part in parts]}

    def structured() -> Outcome:
        return {"parsed": client.chat.completions.create(**asked, messages=user("#json")).model_dump()}

    return {"stream": stream, "structured": structured}


def agents() -> Steps:
    from agents import Agent, ModelSettings, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    settings = ModelSettings(max_tokens=16, temperature=0)

    @function_tool
    def get_weather(city: str) -> str:
        return f"18 C, sunny in {city}"

    def answer(text: str, **more: Any) -> Any:
        return Runner.run_sync(Agent("helper", model=MODEL, model_settings=settings, **more), text)

    def stream() -> Outcome:
        async def read() -> list[str]:
            running = Runner.run_streamed(
                Agent("helper", model=MODEL, model_settings=settings), "Stream this"
            )
            events = [event async for event in running.stream_events() if event.type == "raw_response_event"]
            return [event.data.delta for event in events if event.data.type == "response.output_text.delta"]

        return {"pieces": asyncio.get_event_loop().run_until_complete(read())}

    def tool() -> Outcome:
        items = answer("#tool in Paris?", tools=[get_weather]).new_items
        calls = [item.raw_item for item in items if item.type == "tool_call_item"]
        return {"calls": [[call.name, call.arguments] for call in calls]}

    asyncio.set_event_loop(asyncio.new_event_loop())
    return {
        "plain": lambda: {"text": answer("Hello").final_output},
        "stream": stream,
        "tool": tool,
        "structured": lambda: {"parsed": answer("#json", output_type=Answer).final_output.model_dump()},
    }


def llm() -> Steps:
    os.environ["LLM_USER_PATH"] = tempfile.mkdtemp()
    import llm

    # It knows its models by name; another one stands for a question that is not recorded.
    model = llm.get_model("gpt-4o" if MODEL.startswith("other") else "gpt-4o-mini")

    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"18 C, sunny in {city}"

    def tool() -> Outcome:
        response = model.prompt("#tool in Paris?", tools=[get_weather], max_tokens=16)
        return {"calls": [[call.name, call.arguments] for call in response.tool_calls()]}

    return {
        "plain": lambda: {"text": model.prompt("Hello", max_tokens=16, stream=False).text()},
        "stream": lambda: {"pieces": list(model.prompt("Stream #unicode", max_tokens=16))},
        "tool": tool,
        "structured": lambda: {
            "parsed": json.loads(model.prompt("#json", schema=Answer, max_tokens=16).text())
        },
    }


FRAMEWORKS: Final[dict[str, Callable[[], Steps]]] = {
    "litellm": litellm,
    "litellm-async": litellm_async,
    "instructor": instructor,
    "openai-agents": agents,
    "llm": llm,
}


if __name__ == "__main__":
    name = sys.argv.pop(1)
    run({name: FRAMEWORKS[name]()})
