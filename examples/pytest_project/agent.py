"""A small agent that uses a tool, in four styles: our adapter, pydantic-ai, and the SDKs of two providers."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from cortex_replay import LlmAdapter, LlmMessage, LlmRequest

MODEL = "m"
SYSTEM = "You answer questions about the weather. Use the tool."
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def weather(city: str) -> str:
    return f"18 C and sunny in {city}"


def with_our_adapter(llm: LlmAdapter, question: str) -> str:
    tools = [{"name": "get_weather", "input_schema": SCHEMA}]
    messages = [LlmMessage("user", question)]
    answer = llm.sync.complete(LlmRequest(MODEL, SYSTEM, messages, None, 64, tools=tools))
    messages.append(LlmMessage("assistant", answer.text, tool_calls=answer.tool_calls))
    for call in answer.tool_calls:
        arguments: Any = call.arguments
        messages.append(LlmMessage("tool", weather(arguments["city"]), tool_call_id=call.id))
    return llm.sync.complete(LlmRequest(MODEL, SYSTEM, messages, None, 64, tools=tools)).text


def with_anthropic(question: str) -> str:
    client = anthropic.Anthropic()
    asked: dict[str, Any] = {
        "model": MODEL,
        "system": SYSTEM,
        "max_tokens": 64,
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    }
    messages: list[Any] = [{"role": "user", "content": question}]
    answer = client.messages.create(messages=messages, **asked)
    messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": weather(str(block.input["city"]))}
        for block in answer.content
        if block.type == "tool_use"
    ]
    messages.append({"role": "user", "content": results})
    with client.messages.stream(messages=messages, **asked) as stream:
        text = "".join(stream.text_stream)
    client.close()
    return text


def with_pydantic_ai(question: str) -> str:
    agent = Agent(OpenAIChatModel(MODEL), system_prompt=SYSTEM)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        return weather(city)

    return agent.run_sync(question).output


def with_openai(question: str) -> str:
    client = openai.OpenAI()
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=tools, max_tokens=64)
    message = answer.choices[0].message
    messages.append(message.to_dict())
    calls: Any = message.tool_calls or []
    for call in calls:
        city = json.loads(call.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": weather(city)})
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=tools, max_tokens=64)
    client.close()
    return answer.choices[0].message.content or ""
