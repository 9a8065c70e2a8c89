"""SDKs of servers that speak another's API, and Cohere's: each asks, streams, calls a tool and wants JSON."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
from typing import Any

import cohere
from azure.ai.inference import ChatCompletionsClient
from azure.core.credentials import AzureKeyCredential
from cerebras.cloud.sdk import Cerebras
from groq import Groq
from mistralai.client import Mistral
from openai import AzureOpenAI, OpenAI
from steps import Outcome, Step, run
from together import Together

MODEL = os.environ["CLIENT_MODEL"]
GATEWAY = os.environ["CORTEX_REPLAY_GATEWAY"]
HELLO = [{"role": "user", "content": "Hello"}]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOLS = [{"type": "function", "function": WEATHER}]
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}


def chat_steps(client: Any) -> dict[str, Step]:
    """The steps of whoever has the SDK of OpenAI, or one that is made like it."""
    create = client.chat.completions.create

    def plain() -> Outcome:
        return {"text": create(model=MODEL, messages=HELLO).choices[0].message.content}

    def stream() -> Outcome:
        asked = [{"role": "user", "content": "Hello in pieces"}]
        chunks = create(model=MODEL, messages=asked, stream=True)
        return {"pieces": [one.choices[0].delta.content for one in chunks if one.choices]}

    def tool() -> Outcome:
        (call,) = create(model=MODEL, messages=HELLO, tools=TOOLS).choices[0].message.tool_calls
        return {"name": call.function.name, "arguments": call.function.arguments}

    def structured() -> Outcome:
        answer = create(model=MODEL, messages=HELLO, response_format=FORM)
        return {"text": answer.choices[0].message.content}

    return {"plain": plain, "stream": stream, "tool": tool, "structured": structured}


def azure_steps() -> dict[str, Step]:
    client = AzureOpenAI()
    steps = chat_steps(client)

    def responses() -> Outcome:
        return {"text": client.responses.create(model=MODEL, input="Over responses").output_text}

    def completions() -> Outcome:
        return {"text": client.completions.create(model=MODEL, prompt="Hello").choices[0].text}

    def embeddings() -> Outcome:
        vector = client.embeddings.create(model=MODEL, input="Hello", encoding_format="float")
        return {"embedding": vector.data[0].embedding}

    return {**steps, "responses": responses, "completions": completions, "embeddings": embeddings}


def inference_steps() -> dict[str, Step]:
    key = AzureKeyCredential(os.environ["AZURE_OPENAI_API_KEY"])
    client = ChatCompletionsClient(f"{os.environ['AZURE_OPENAI_ENDPOINT']}/models", key)

    def plain() -> Outcome:
        answer = client.complete(model=MODEL, messages=[{"role": "user", "content": "By inference"}])
        return {"text": answer.choices[0].message.content}

    return {"plain": plain}


def mistral_steps() -> dict[str, Step]:
    chat = Mistral(api_key=os.environ["MISTRAL_API_KEY"], server_url=f"{GATEWAY}/mistral").chat

    def plain() -> Outcome:
        return {"text": chat.complete(model=MODEL, messages=HELLO, random_seed=7).choices[0].message.content}

    def stream() -> Outcome:
        events = chat.stream(model=MODEL, messages=HELLO, random_seed=8)
        return {"pieces": [one.data.choices[0].delta.content or "" for one in events if one.data.choices]}

    def tool() -> Outcome:
        asked = [{"role": "user", "content": "Weather?"}]
        answer = chat.complete(model=MODEL, messages=asked, tools=TOOLS, tool_choice="any")
        (call,) = answer.choices[0].message.tool_calls
        result = {"role": "tool", "name": WEATHER["name"], "tool_call_id": call.id, "content": "18 C"}
        last = chat.complete(model=MODEL, messages=[*asked, answer.choices[0].message, result], tools=TOOLS)
        return {"arguments": call.function.arguments, "text": last.choices[0].message.content}

    def structured() -> Outcome:
        answer = chat.complete(model=MODEL, messages=HELLO, response_format=FORM, random_seed=9)
        return {"text": answer.choices[0].message.content}

    return {"plain": plain, "stream": stream, "tool": tool, "structured": structured}


def cohere_steps() -> dict[str, Step]:
    client = cohere.ClientV2()

    def plain() -> Outcome:
        return {"text": client.chat(model=MODEL, messages=HELLO, k=3).message.content[0].text}

    def stream() -> Outcome:
        events = list(client.chat_stream(model=MODEL, messages=HELLO, k=4))
        pieces = [one.delta.message.content.text for one in events if one.type == "content-delta"]
        return {"pieces": pieces, "events": [one.type for one in events]}

    def tool() -> Outcome:
        asked = [{"role": "user", "content": "Weather?"}]
        answer = client.chat(model=MODEL, messages=asked, tools=TOOLS, k=5)
        (call,) = answer.message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "18 C"}
        last = client.chat(model=MODEL, messages=[*asked, answer.message, result], tools=TOOLS, k=5)
        return {"arguments": call.function.arguments, "text": last.message.content[0].text}

    def structured() -> Outcome:
        form = {"type": "json_object", "json_schema": SCHEMA}
        answer = client.chat(model=MODEL, messages=HELLO, response_format=form, k=6)
        return {"text": answer.message.content[0].text}

    return {"plain": plain, "stream": stream, "tool": tool, "structured": structured}


def completions_steps() -> dict[str, Step]:
    create = OpenAI().completions.create

    def plain() -> Outcome:
        return {"text": create(model=MODEL, prompt="Once upon", max_tokens=8).choices[0].text}

    def stream() -> Outcome:
        chunks = create(model=MODEL, prompt="Once more", max_tokens=8, stream=True)
        return {"pieces": [one.choices[0].text for one in chunks if one.choices]}

    return {"plain": plain, "stream": stream}


def others_steps() -> dict[str, Step]:
    """One plain question to each: the row of a provider is all that they need."""

    def asking(client: Any, name: str) -> Step:
        messages = [{"role": "user", "content": f"Hello {name}"}]
        create = client.chat.completions.create
        return lambda: {"text": create(model=MODEL, messages=messages).choices[0].message.content}

    def compatible(name: str) -> Any:
        key, url = os.environ[f"{name}_API_KEY"], os.environ[f"{name}_BASE_URL"]
        return OpenAI(api_key=key, base_url=url)

    clients = {"groq": Groq(), "together": Together(), "cerebras": Cerebras(warm_tcp_connection=False)}
    clients |= {name.lower(): compatible(name) for name in ("XAI", "DEEPSEEK", "OPENROUTER")}
    return {name: asking(client, name) for name, client in clients.items()}


run(
    {
        "azure": azure_steps(),
        "inference": inference_steps(),
        "mistral": mistral_steps(),
        "cohere": cohere_steps(),
        "completions": completions_steps(),
        "others": others_steps(),
    }
)
