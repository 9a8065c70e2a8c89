"""The mended agent: every step is tried again, whole, until it brings something that can be used."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import openai

from examples.fragile_agent import TOOLS, get_weather

TRIES = 3


def steadily(step: Callable[[], Any]) -> Any:
    """What a step brings, as soon as it brings something."""
    for tries in range(1, TRIES + 1):
        try:
            return step()
        except (openai.OpenAIError, json.JSONDecodeError, KeyError, TypeError, ValueError):
            if tries == TRIES:
                raise
            time.sleep(0.01)
    return None


def main() -> None:
    client = openai.OpenAI(max_retries=0)
    model = os.environ.get("AGENT_MODEL", "gpt-6-luna")
    messages: list[Any] = [{"role": "user", "content": "Weather in Paris?"}]
    asked: dict[str, Any] = {"model": model, "tools": TOOLS, "max_completion_tokens": 1024}

    def call_tools() -> list[Any]:
        answer = client.chat.completions.create(messages=messages, **asked)
        message = answer.choices[0].message
        results = [
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": get_weather(json.loads(call.function.arguments)["city"]),
            }
            for call in message.tool_calls or []
            if call.type == "function"
        ]
        return [message.to_dict(), *results]

    def tell() -> str:
        words = []
        finished = False
        for chunk in client.chat.completions.create(messages=messages, stream=True, **asked):
            for choice in chunk.choices:
                words.append(choice.delta.content or "")
                finished = finished or choice.finish_reason is not None
        if not finished:  # the SDK takes a stream that was cut off for a whole one
            raise ValueError("the stream ended too early")
        return "".join(words)

    messages += steadily(call_tools)
    print(steadily(tell))


if __name__ == "__main__":
    main()
