"""A small agent with a weakness: it asks once, and believes whatever comes.

``cortex-replay sweep -- python -m examples.fragile_agent`` finds it out; ``steady_agent`` is the mended one.
"""

from __future__ import annotations

import json
import os
from typing import Any

import openai

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


def get_weather(city: str) -> str:
    return f"18 C and sunny in {city}"


def main() -> None:
    client = openai.OpenAI(max_retries=0)
    model = os.environ.get("AGENT_MODEL", "gpt-6-luna")
    messages: list[Any] = [{"role": "user", "content": "Weather in Paris?"}]
    answer = client.chat.completions.create(
        model=model, messages=messages, tools=TOOLS, max_completion_tokens=1024
    )
    message = answer.choices[0].message
    messages.append(message.to_dict())
    calls: Any = message.tool_calls or []
    for call in calls:
        arguments = json.loads(call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": get_weather(arguments["city"])})
    stream: Any = client.chat.completions.create(
        model=model, messages=messages, tools=TOOLS, max_completion_tokens=1024, stream=True
    )
    print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))


if __name__ == "__main__":
    main()
