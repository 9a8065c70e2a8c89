"""The SDK ``anthropic``."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from anthropic import Anthropic, AsyncAnthropic
from pydantic import BaseModel
from steps import Outcome, run

COMMON: Final[dict[str, Any]] = {"model": os.environ["CLIENT_MODEL"], "max_tokens": 16}
WEATHER: Final[dict[str, Any]] = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
client: Final[Any] = Anthropic()


class Answer(BaseModel):
    answer: int
    ok: bool


def user(content: Any) -> Any:
    return {"role": "user", "content": content}


def told(message: Any) -> Outcome:
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "thinking": "".join(block.thinking for block in message.content if block.type == "thinking"),
        "calls": [[block.name, block.input] for block in message.content if block.type == "tool_use"],
        "finish": message.stop_reason,
        "tokens": message.usage.output_tokens,
    }


def plain() -> Outcome:
    return told(client.messages.create(**COMMON, system="Be brief.", messages=[user("Hello")]))


def think() -> Outcome:
    return told(client.messages.create(**COMMON, messages=[user("#think")]))


def stream() -> Outcome:
    with client.messages.stream(**COMMON, messages=[user("Stream this")]) as events:
        chunks = list(events.text_stream)
        return told(events.get_final_message()) | {"chunks": len(chunks)}


def raw_stream() -> Outcome:
    deltas = [
        event.delta.text
        for event in client.messages.create(**COMMON, messages=[user("Raw #unicode")], stream=True)
        if event.type == "content_block_delta"
    ]
    return {"text": "".join(deltas), "chunks": len(deltas)}


def tool() -> Outcome:
    return told(client.messages.create(**COMMON, tools=[WEATHER], messages=[user("#tool in Paris?")]))


def tool_stream() -> Outcome:
    question = [user("#tool in Paris, streamed?")]
    with client.messages.stream(**COMMON, tools=[WEATHER], messages=question) as events:
        return told(events.get_final_message())


def tool_result() -> Outcome:
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 C, sunny"}
    history = [user("Weather in Paris?"), {"role": "assistant", "content": [call]}, user([result])]
    return told(client.messages.create(**COMMON, tools=[WEATHER], messages=history))


def structured() -> Outcome:
    message = client.messages.parse(**COMMON, messages=[user("#json")], output_format=Answer)
    return told(message) | {"parsed": message.parsed_output.model_dump()}


def turns() -> Outcome:
    messages = [user("Good morning")]
    first = client.messages.create(**COMMON, messages=messages)
    messages += [{"role": "assistant", "content": first.content}, user("And now?")]
    return told(client.messages.create(**COMMON, messages=messages))


def concurrent() -> Outcome:
    async def ask() -> list[Outcome]:
        many: Any
        async with AsyncAnthropic() as many:
            questions = ["One", "#unicode", "#json", "#think"]
            calls = (many.messages.create(**COMMON, messages=[user(text)]) for text in questions)
            return [told(message) for message in await asyncio.gather(*calls)]

    return {"answers": asyncio.run(ask())}


def async_stream() -> Outcome:
    async def ask() -> Outcome:
        async with (
            AsyncAnthropic() as one,
            one.messages.stream(**COMMON, messages=[user("Stream this too")]) as events,
        ):
            chunks = [text async for text in events.text_stream]
            return told(await events.get_final_message()) | {"chunks": len(chunks)}

    return asyncio.run(ask())


def count() -> Outcome:
    counted = client.messages.count_tokens(model=COMMON["model"], messages=[user("Hello")])
    return {"input_tokens": counted.input_tokens}


def models() -> Outcome:
    return {"models": [model.id for model in client.models.list()]}


if __name__ == "__main__":
    steps = (
        plain,
        think,
        stream,
        raw_stream,
        tool,
        tool_stream,
        tool_result,
        structured,
        turns,
        concurrent,
        async_stream,
        models,
        count,  # the last one: Ollama has no such endpoint
    )
    run({"anthropic": {step.__name__: step for step in steps}})
