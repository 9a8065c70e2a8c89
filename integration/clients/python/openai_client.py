"""The SDK ``openai``: chat completions and responses."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from steps import Outcome, run

MODEL: Final = os.environ["CLIENT_MODEL"]
CHAT: Final[dict[str, Any]] = {"model": MODEL, "max_completion_tokens": 16, "temperature": 0.0}
RESPONSES: Final[dict[str, Any]] = {"model": MODEL, "max_output_tokens": 16, "temperature": 0.0}
FUNCTION: Final[dict[str, Any]] = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL: Final = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
CHAT_TOOLS: Final[list[Any]] = [{"type": "function", "function": FUNCTION}]
RESPONSES_TOOLS: Final[list[Any]] = [{"type": "function", "strict": False, **FUNCTION}]
QUESTIONS: Final = ("One", "#unicode", "#json", "#dice")
client: Final[Any] = OpenAI()


class Answer(BaseModel):
    answer: int
    ok: bool


def user(content: str) -> Any:
    return {"role": "user", "content": content}


def told(completion: Any) -> Outcome:
    (choice,) = completion.choices
    calls = choice.message.tool_calls or []
    return {
        "text": choice.message.content,
        "calls": [[call.function.name, call.function.arguments] for call in calls],
        "finish": choice.finish_reason,
        "tokens": completion.usage.completion_tokens,
    }


def chat_plain() -> Outcome:
    messages = [{"role": "system", "content": "Be brief."}, user("Hello")]
    return told(client.chat.completions.create(**CHAT, messages=messages))


def chat_stream() -> Outcome:
    answer = client.chat.completions.create(
        **CHAT, messages=[user("Stream #unicode")], stream=True, stream_options={"include_usage": True}
    )
    pieces, finish, tokens = [], None, None
    for chunk in answer:
        for choice in chunk.choices:
            pieces += [choice.delta.content] if choice.delta.content else []
            finish = choice.finish_reason or finish
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
    return {"text": "".join(pieces), "chunks": len(pieces), "finish": finish, "tokens": tokens}


def chat_tool() -> Outcome:
    question = [user("#tool in Paris?")]
    return told(client.chat.completions.create(**CHAT, tools=CHAT_TOOLS, messages=question))


def chat_tool_stream() -> Outcome:
    question = [user("#tool in Paris, streamed?")]
    options = {"include_usage": True}
    with client.chat.completions.stream(
        **CHAT, tools=CHAT_TOOLS, messages=question, stream_options=options
    ) as events:
        return told(events.get_final_completion())


def chat_tool_result() -> Outcome:
    history = [
        user("Weather in Paris?"),
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "18 C, sunny"},
    ]
    return told(client.chat.completions.create(**CHAT, tools=CHAT_TOOLS, messages=history))


def chat_structured() -> Outcome:
    completion = client.chat.completions.parse(
        **CHAT, messages=[user("#json")], response_format=Answer, reasoning_effort="none"
    )
    return told(completion) | {"parsed": completion.choices[0].message.parsed.model_dump()}


def chat_turns() -> Outcome:
    messages = [user("Good morning")]
    first = client.chat.completions.create(**CHAT, messages=messages)
    messages += [first.choices[0].message, user("And now?")]
    return told(client.chat.completions.create(**CHAT, messages=messages))


def chat_concurrent() -> Outcome:
    async def ask() -> list[Outcome]:
        async with AsyncOpenAI() as many:
            calls = (many.chat.completions.create(**CHAT, messages=[user(text)]) for text in QUESTIONS)
            return [told(completion) for completion in await asyncio.gather(*calls)]

    return {"answers": asyncio.run(ask())}


def models() -> Outcome:
    return {"models": [model.id for model in client.models.list()]}


def responded(response: Any) -> Outcome:
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "text": response.output_text,
        "calls": [[call.name, call.arguments] for call in calls],
        "finish": response.status,
        "tokens": response.usage.output_tokens,
    }


def responses_plain() -> Outcome:
    return responded(client.responses.create(**RESPONSES, instructions="Be brief.", input="Hello"))


def responses_stream() -> Outcome:
    # Not the helper responses.stream(): it needs the content_index that llama.cpp leaves out.
    events = list(client.responses.create(**RESPONSES, input="Stream this", stream=True))
    chunks = [event.delta for event in events if event.type == "response.output_text.delta"]
    return responded(events[-1].response) | {"chunks": len(chunks)}


def responses_tool() -> Outcome:
    return responded(client.responses.create(**RESPONSES, tools=RESPONSES_TOOLS, input="#tool in Paris?"))


def responses_tool_stream() -> Outcome:
    question = "#tool in Paris, streamed?"
    *_, last = client.responses.create(**RESPONSES, tools=RESPONSES_TOOLS, input=question, stream=True)
    return responded(last.response)


def responses_tool_result() -> Outcome:
    history: list[Any] = [
        user("Weather in Paris?"),
        {"type": "function_call", "call_id": "call_1", **CALL},
        {"type": "function_call_output", "call_id": "call_1", "output": "18 C, sunny"},
    ]
    return responded(client.responses.create(**RESPONSES, tools=RESPONSES_TOOLS, input=history))


def responses_structured() -> Outcome:
    response = client.responses.parse(
        **RESPONSES, input="#json", text_format=Answer, reasoning={"effort": "none"}
    )
    return responded(response) | {"parsed": response.output_parsed.model_dump()}


def responses_turns() -> Outcome:
    history = [user("Good morning")]
    first = client.responses.create(**RESPONSES, input=history)
    history += [*first.output, user("And now?")]
    return responded(client.responses.create(**RESPONSES, input=history))


def responses_concurrent() -> Outcome:
    async def ask() -> list[Outcome]:
        async with AsyncOpenAI() as many:
            calls = (many.responses.create(**RESPONSES, input=text) for text in QUESTIONS)
            return [responded(response) for response in await asyncio.gather(*calls)]

    return {"answers": asyncio.run(ask())}


if __name__ == "__main__":
    run(
        {
            "openai-chat": {
                "plain": chat_plain,
                "stream": chat_stream,
                "tool": chat_tool,
                "tool_stream": chat_tool_stream,
                "tool_result": chat_tool_result,
                "structured": chat_structured,
                "turns": chat_turns,
                "concurrent": chat_concurrent,
                "models": models,
            },
            "openai-responses": {
                "plain": responses_plain,
                "stream": responses_stream,
                "tool": responses_tool,
                "tool_stream": responses_tool_stream,
                "tool_result": responses_tool_result,
                "structured": responses_structured,
                "turns": responses_turns,
                "concurrent": responses_concurrent,
            },
        }
    )
