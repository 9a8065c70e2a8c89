"""The clients of Bedrock: boto3, Anthropic's own, and pydantic-ai. Prints a line of JSON per step."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import boto3
from anthropic import AnthropicBedrock
from pydantic_ai import Agent
from pydantic_ai.models.bedrock import BedrockConverseModel

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}}
TOOL = {"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object", "properties": {}}}}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def asked(text: str) -> str:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 64, "messages": messages})


def steps() -> dict[str, Callable[[], Any]]:
    client = boto3.client("bedrock-runtime")
    anthropic = AnthropicBedrock()

    def with_tools() -> Any:
        config = {"tools": [TOOL]}
        first = client.converse(modelId=CLAUDE, messages=[user("Look.")], toolConfig=config)["output"]
        call = first["message"]["content"][0]["toolUse"]
        result = {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": "sun"}]}}
        messages = [user("Look."), first["message"], {"role": "user", "content": [result]}]
        return [first, client.converse(modelId=CLAUDE, messages=messages, toolConfig=config)["output"]]

    def structured() -> Any:
        schema = {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "answer"}}
        form = {"textFormat": {"type": "json_schema", "structure": schema}}
        return client.converse(modelId=CLAUDE, messages=[user("How many?")], outputConfig=form)["output"]

    def nova(text: str) -> str:
        return json.dumps({"schemaVersion": "messages-v1", "messages": [user(text)]})

    def chunks(model: str, body: str) -> Any:
        stream = client.invoke_model_with_response_stream(modelId=model, body=body)["body"]
        return [event["chunk"]["bytes"].decode() for event in stream]

    def claude_stream() -> Any:
        messages: Any = [{"role": "user", "content": "Stream, Claude."}]
        with anthropic.messages.stream(model=CLAUDE, max_tokens=64, messages=messages) as stream:
            return stream.get_final_message().to_dict()

    async def agent_stream() -> Any:
        async with Agent(BedrockConverseModel(CLAUDE)).run_stream("Stream, agent.") as run:
            return await run.get_output()

    def plain_claude() -> Any:
        messages: Any = [{"role": "user", "content": "Claude."}]
        return anthropic.messages.create(model=CLAUDE, max_tokens=64, messages=messages).to_dict()

    return {
        "converse": lambda: client.converse(modelId=CLAUDE, messages=[user("Hello.")])["output"],
        "converse_stream": lambda: list(
            client.converse_stream(modelId=NOVA, messages=[user("Stream.")])["stream"]
        ),
        "tools": with_tools,
        "structured": structured,
        "invoke": lambda: client.invoke_model(modelId=CLAUDE, body=asked("In."))["body"].read().decode(),
        "invoke_stream": lambda: chunks(CLAUDE, asked("In a stream.")),
        "nova": lambda: client.invoke_model(modelId=NOVA, body=nova("In."))["body"].read().decode(),
        "nova_stream": lambda: chunks(NOVA, nova("In a stream.")),
        "anthropic": plain_claude,
        "anthropic_stream": claude_stream,
        "pydantic_ai": lambda: Agent(BedrockConverseModel(CLAUDE)).run_sync("Agent.").output,
        "pydantic_ai_stream": lambda: asyncio.run(agent_stream()),
    }


if __name__ == "__main__":
    for _ in range(int(os.environ.get("ROUNDS", "1"))):
        line = json.dumps({name: step() for name, step in steps().items()}, default=str)
        sys.stdout.write(f"{line}\n")
