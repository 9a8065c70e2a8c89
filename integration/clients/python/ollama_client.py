"""The SDK ``ollama``: chat and generate."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

import ollama
from pydantic import BaseModel
from steps import Outcome, run

COMMON: Final[dict[str, Any]] = {
    "model": os.environ["CLIENT_MODEL"],
    "options": {"temperature": 0.0, "num_predict": 16},
}
QUESTIONS: Final = ("One", "#unicode", "#json", "#dice")


class Answer(BaseModel):
    answer: int
    ok: bool


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 C, sunny in {city}"


def user(content: str) -> Any:
    return {"role": "user", "content": content}


def told(answer: Any) -> Outcome:
    calls = answer.message.tool_calls or []
    return {
        "text": answer.message.content,
        "thinking": answer.message.thinking,
        "calls": [[call.function.name, dict(call.function.arguments)] for call in calls],
        "finish": answer.done_reason,
        "tokens": answer.eval_count,
    }


def plain() -> Outcome:
    messages = [{"role": "system", "content": "Be brief."}, user("Hello")]
    return told(ollama.chat(**COMMON, messages=messages))


def stream() -> Outcome:
    chunks = list(ollama.chat(**COMMON, messages=[user("Stream #unicode")], stream=True))
    pieces = [chunk.message.content for chunk in chunks if chunk.message.content]
    return told(chunks[-1]) | {"text": "".join(pieces), "chunks": len(pieces)}


def think() -> Outcome:
    return told(ollama.chat(**COMMON, messages=[user("#think")], think=True))


def tool() -> Outcome:
    return told(ollama.chat(**COMMON, messages=[user("#tool in Paris?")], tools=[get_weather]))


def tool_stream() -> Outcome:
    question = [user("#tool in Paris, streamed?")]
    chunks = list(ollama.chat(**COMMON, messages=question, tools=[get_weather], stream=True))
    (called,) = [chunk for chunk in chunks if chunk.message.tool_calls] or chunks[:1]
    return told(chunks[-1]) | {"calls": told(called)["calls"]}


def tool_result() -> Outcome:
    call = {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
    history = [
        user("Weather in Paris?"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "get_weather", "content": "18 C, sunny"},
    ]
    return told(ollama.chat(**COMMON, messages=history, tools=[get_weather]))


def structured() -> Outcome:
    schema = Answer.model_json_schema()
    answer = ollama.chat(**COMMON, messages=[user("#json")], format=schema, think=False)
    return told(answer) | {"parsed": Answer.model_validate_json(answer.message.content).model_dump()}


def turns() -> Outcome:
    messages = [user("Good morning")]
    first = ollama.chat(**COMMON, messages=messages)
    messages += [first.message, user("And now?")]
    return told(ollama.chat(**COMMON, messages=messages))


def concurrent() -> Outcome:
    async def ask() -> list[Outcome]:
        many = ollama.AsyncClient()
        calls = (many.chat(**COMMON, messages=[user(text)]) for text in QUESTIONS)
        return [told(answer) for answer in await asyncio.gather(*calls)]

    return {"answers": asyncio.run(ask())}


def generate() -> Outcome:
    answer = ollama.generate(**COMMON, prompt="Hello", system="Be brief.")
    return {"text": answer.response, "finish": answer.done_reason, "tokens": answer.eval_count}


def generate_stream() -> Outcome:
    chunks = list(ollama.generate(**COMMON, prompt="Stream this", stream=True))
    pieces = [chunk.response for chunk in chunks if chunk.response]
    return {"text": "".join(pieces), "chunks": len(pieces), "finish": chunks[-1].done_reason}


def models() -> Outcome:
    return {"models": [model.model for model in ollama.list().models]}


def show() -> Outcome:
    return {"capabilities": ollama.show(COMMON["model"]).capabilities}


if __name__ == "__main__":
    steps = (
        plain,
        stream,
        think,
        tool,
        tool_stream,
        tool_result,
        structured,
        turns,
        concurrent,
        generate,
        generate_stream,
        models,
        show,
    )
    run({"ollama": {step.__name__: step for step in steps}})
