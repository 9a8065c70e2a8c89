"""The SDKs of services besides the large three: ``service_client.py SDK``."""

# These are not in the project's own environment.
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"

# ruff: noqa: PLC0415 - one of them is asked for, and not all are installed together

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from steps import Outcome, base_url, run

MODEL: Final = os.environ["CLIENT_MODEL"]
PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Final = {"name": "get_weather", "description": "The weather in a city.", "parameters": PARAMETERS}
SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["answer", "ok"],
    "additionalProperties": False,
}
JSON_SCHEMA: Final = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
}
Steps = dict[str, Callable[[], Outcome]]


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def chat_steps(complete: Callable[..., Any], stream: Callable[..., Any]) -> Steps:
    """For SDKs in the shape of OpenAI's."""

    def message(text: str, **more: Any) -> Any:
        return complete(messages=user(text), max_tokens=16, temperature=0, **more).choices[0].message

    def streamed() -> Outcome:
        chunks = stream(messages=user("Stream #unicode"), max_tokens=16, temperature=0)
        chunks = (getattr(chunk, "data", chunk) for chunk in chunks)
        deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        return {"pieces": [piece for piece in deltas if isinstance(piece, str)]}

    def tool() -> Outcome:
        calls = message("#tool in Paris?", tools=[{"type": "function", "function": WEATHER}]).tool_calls
        return {"calls": [[call.function.name, call.function.arguments] for call in calls]}

    def structured() -> Outcome:
        return {"parsed": json.loads(message("#json", response_format=JSON_SCHEMA).content)}

    return {
        "plain": lambda: {"text": message("Hello").content},
        "stream": streamed,
        "tool": tool,
        "structured": structured,
    }


def groq() -> Steps:
    from groq import Groq

    create = Groq(base_url=base_url("groq", "https://api.groq.com")).chat.completions.create
    return chat_steps(
        lambda **body: create(model=MODEL, **body), lambda **body: create(model=MODEL, stream=True, **body)
    )


def mistral() -> Steps:
    from mistralai.client import Mistral

    client = Mistral(
        api_key=os.environ.get("MISTRAL_API_KEY", "none"),
        server_url=base_url("mistral", "https://api.mistral.ai"),
    )
    return chat_steps(
        lambda **body: client.chat.complete(model=MODEL, **body),
        lambda **body: client.chat.stream(model=MODEL, **body),
    )


def huggingface() -> Steps:
    from huggingface_hub import InferenceClient

    url = base_url("huggingface", "https://router.huggingface.co") + "/v1"
    complete = InferenceClient(base_url=url, api_key="none").chat_completion
    return chat_steps(
        lambda **body: complete(model=MODEL, **body),
        lambda **body: complete(model=MODEL, stream=True, **body),
    )


def cohere() -> Steps:
    import cohere

    client = cohere.ClientV2(api_key="none", base_url=base_url("cohere", "https://api.cohere.com"))

    def message(text: str, **more: Any) -> Any:
        return client.chat(model=MODEL, messages=user(text), **more).message

    def stream() -> Outcome:
        events = client.chat_stream(model=MODEL, messages=user("Stream this"))
        return {
            "pieces": [event.delta.message.content.text for event in events if event.type == "content-delta"]
        }

    def tool() -> Outcome:
        calls = message("#tool in Paris?", tools=[{"type": "function", "function": WEATHER}]).tool_calls
        return {"calls": [[call.function.name, call.function.arguments] for call in calls]}

    def structured() -> Outcome:
        format_ = {"type": "json_object", "json_schema": SCHEMA}
        return {"parsed": json.loads(message("#json", response_format=format_).content[0].text)}

    return {
        "plain": lambda: {"text": message("Hello").content[0].text},
        "stream": stream,
        "tool": tool,
        "structured": structured,
    }


def google_genai() -> Steps:
    from google import genai

    client = genai.Client(
        api_key="none",
        http_options={"base_url": base_url("gemini", "https://generativelanguage.googleapis.com")},
    )

    def stream() -> Outcome:
        return {
            "pieces": [
                chunk.text
                for chunk in client.models.generate_content_stream(model=MODEL, contents="Stream this")
            ]
        }

    def tool() -> Outcome:
        tools = [{"function_declarations": [WEATHER]}]
        answer = client.models.generate_content(
            model=MODEL, contents="#tool in Paris?", config={"tools": tools}
        )
        return {"calls": [[call.name, call.args] for call in answer.function_calls]}

    def structured() -> Outcome:
        config = {"response_mime_type": "application/json", "response_json_schema": SCHEMA}
        return {
            "parsed": json.loads(
                client.models.generate_content(model=MODEL, contents="#json", config=config).text
            )
        }

    return {
        "plain": lambda: {"text": client.models.generate_content(model=MODEL, contents="Hello").text},
        "stream": stream,
        "tool": tool,
        "structured": structured,
    }


def boto3() -> Steps:
    import boto3

    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=base_url("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com"),
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )

    def asked(text: str) -> dict[str, Any]:
        return {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": text}]}]}

    def content(text: str, **more: Any) -> Any:
        return client.converse(**asked(text), **more)["output"]["message"]["content"]

    def stream() -> Outcome:
        events = client.converse_stream(**asked("Stream this"))["stream"]
        return {
            "pieces": [
                one["contentBlockDelta"]["delta"]["text"] for one in events if "contentBlockDelta" in one
            ]
        }

    def tool() -> Outcome:
        spec = {"name": "get_weather", "inputSchema": {"json": PARAMETERS}}
        blocks = content("#tool in Paris?", toolConfig={"tools": [{"toolSpec": spec}]})
        return {"calls": [[block["toolUse"]["name"], block["toolUse"]["input"]] for block in blocks]}

    return {"plain": lambda: {"text": content("Hello")[0]["text"]}, "stream": stream, "tool": tool}


SDKS: Final[dict[str, Callable[[], Steps]]] = {
    "groq": groq,
    "mistralai": mistral,
    "huggingface_hub": huggingface,
    "cohere": cohere,
    "google-genai": google_genai,
    "boto3": boto3,
}


if __name__ == "__main__":
    name = sys.argv.pop(1)
    run({name: SDKS[name]()})
