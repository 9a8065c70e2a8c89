"""The agents of ``pydantic-ai``, on Anthropic's and both of OpenAI's APIs."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, Final

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from steps import Outcome, run

APIS: Final = {"anthropic": "anthropic", "openai-chat": "openai-chat", "openai-responses": "openai"}
SETTINGS: Final[Any] = {"max_tokens": 16, "openai_send_reasoning_ids": True}


class Answer(BaseModel):
    answer: int
    ok: bool


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 C, sunny in {city}"


def agent(provider: str, **options: Any) -> Any:
    model = f"{provider}:{os.environ['CLIENT_MODEL']}"
    return Agent(model, instructions="Be brief.", model_settings=SETTINGS, **options)


def told(result: Any) -> Outcome:
    parts = [part for message in result.new_messages() for part in message.parts]
    return {
        "text": "".join(part.content for part in parts if isinstance(part, TextPart)),
        "calls": [[part.tool_name, part.args_as_dict()] for part in parts if isinstance(part, ToolCallPart)],
        "finish": result.all_messages()[-1].finish_reason,
        "tokens": result.usage.output_tokens,
    }


def plain(provider: str) -> Outcome:
    return told(agent(provider).run_sync("Hello"))


def stream(provider: str) -> Outcome:
    async def ask() -> Outcome:
        async with agent(provider).run_stream("Stream this") as result:
            chunks = [text async for text in result.stream_text(delta=True, debounce_by=None)]
            return told(result) | {"text": "".join(chunks), "chunks": len(chunks)}

    return asyncio.run(ask())


def tool(provider: str) -> Outcome:
    """The agent calls the tool and sends the result by itself, if the model asks for it."""
    return told(agent(provider, tools=[get_weather]).run_sync("#tool in Paris?"))


def tool_result(provider: str) -> Outcome:
    history = [
        ModelRequest(parts=[UserPromptPart("Weather in Paris?")]),
        ModelResponse(parts=[ToolCallPart("get_weather", {"city": "Paris"}, "call_1")]),
        ModelRequest(parts=[ToolReturnPart("get_weather", "18 C, sunny", "call_1")]),
    ]
    return told(agent(provider, tools=[get_weather]).run_sync("Well?", message_history=history))


def structured(provider: str) -> Outcome:
    # Of Claude it allows a schema only to the models that it knows.
    output = PromptedOutput if provider == "anthropic" else NativeOutput
    settings = {"openai_reasoning_effort": "none"}
    result = agent(provider, output_type=output(Answer)).run_sync("#json", model_settings=settings)
    return told(result) | {"parsed": result.output.model_dump()}


def turns(provider: str) -> Outcome:
    one = agent(provider)
    first = one.run_sync("Good morning")
    return told(one.run_sync("And now?", message_history=first.all_messages()))


def concurrent(provider: str) -> Outcome:
    async def ask() -> list[Outcome]:
        one = agent(provider)
        calls = (one.run(text) for text in ("One", "#unicode", "#json", "Four"))
        return [told(result) for result in await asyncio.gather(*calls)]

    return {"answers": asyncio.run(ask())}


if __name__ == "__main__":
    steps = (plain, stream, tool, tool_result, structured, turns, concurrent)
    run({api: {step.__name__: partial(step, name) for step in steps} for api, name in APIS.items()})
