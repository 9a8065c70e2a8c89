"""google-genai, and what is built on it or beside it: pydantic-ai, LangChain, LiteLLM; Claude at Vertex."""

# These SDKs are not in the project's own environment.
# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials
from pydantic import BaseModel
from steps import Outcome, run

MODEL: Final = os.environ["CLIENT_MODEL"]
# One that nobody holds closes its connections at once.
CLIENT: Final = genai.Client()
TOKEN: Final = os.environ.get("CLIENT_WORD", "none-is-needed-in-replay")
VERTEX: Final = genai.Client(
    vertexai=True, project="p", location="us-central1", credentials=Credentials(TOKEN)
)


class Answer(BaseModel):
    answer: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 C, sunny in {city}"


def told(answer: Any) -> Outcome:
    return {
        "text": answer.text,
        "calls": [[call.name, call.args] for call in answer.function_calls or []],
        "finish": answer.candidates[0].finish_reason.name,
        "tokens": answer.usage_metadata.candidates_token_count,
    }


def streamed(client: Any, question: str, **config: Any) -> Outcome:
    stream = client.models.generate_content_stream(model=MODEL, contents=question, config=config)
    chunks = list(stream)
    pieces = [chunk.text for chunk in chunks if chunk.text]
    calls = [call for chunk in chunks for call in told_calls(chunk)]
    return {"text": "".join(pieces), "chunks": len(pieces), "calls": calls}


def told_calls(chunk: Any) -> list[Any]:
    return [[call.name, call.args] for call in chunk.function_calls or []]


def ask(question: Any, **config: Any) -> Outcome:
    return told(CLIENT.models.generate_content(model=MODEL, contents=question, config=config))


def no_calls() -> dict[str, Any]:
    """Declared from a function of Python, but not called for us."""
    return {"tools": [get_weather], "automatic_function_calling": {"disable": True}}


def result() -> Outcome:
    """The SDK calls the function itself and sends back what it gave."""
    chat = CLIENT.chats.create(model=MODEL, config={"tools": [get_weather]})
    return told(chat.send_message("Weather in Paris, please?")) | {"turns": len(chat.get_history())}


def structured() -> Outcome:
    config = {"response_mime_type": "application/json", "response_schema": Answer}
    answer = CLIENT.models.generate_content(model=MODEL, contents="As JSON", config=config)
    return told(answer) | {"parsed": answer.parsed.answer}


def image() -> Outcome:
    return ask([types.Part.from_bytes(data=b"\x89PNG\xfb\xff", mime_type="image/png"), "What is it?"])


def async_stream() -> Outcome:
    async def all_of() -> list[str]:
        client = CLIENT.aio
        stream = await client.models.generate_content_stream(model=MODEL, contents="Async, please")
        return [chunk.text async for chunk in stream if chunk.text]

    return {"pieces": asyncio.run(all_of())}


def failure() -> Outcome:
    """An error of the provider's is an error of the SDK's."""
    try:
        CLIENT.models.get(model="no-such-model")
    except errors.ClientError as error:
        return {"code": error.code}
    return {"code": None}


def kept(client: Any) -> Outcome:
    """A prompt that is kept, asked on from, prolonged and dropped."""
    config = {"contents": "The rules of the house.", "system_instruction": "Be brief.", "ttl": "3600s"}
    cache = client.caches.create(model=MODEL, config=config)
    answer = client.models.generate_content(
        model=MODEL, contents="And pets?", config={"cached_content": cache.name}
    )
    stream = client.models.generate_content_stream(
        model=MODEL, contents="And cats?", config={"cached_content": cache.name}
    )
    chunks = list(stream)
    longer = client.caches.update(name=cache.name, config={"ttl": "7200s"})
    listed = [one.name for one in client.caches.list()]
    found = client.caches.get(name=cache.name)
    client.caches.delete(name=cache.name)
    return told(answer) | {
        "name": cache.name,
        "cached": answer.usage_metadata.cached_content_token_count,
        "pieces": [chunk.text for chunk in chunks],
        "cached_in_stream": chunks[-1].usage_metadata.cached_content_token_count,
        "is_listed": found.name in listed,
        "until": str(longer.expire_time),
    }


def anthropic_vertex() -> Outcome:
    from anthropic import AnthropicVertex  # noqa: PLC0415

    client = AnthropicVertex(region="us-east5", project_id="p", access_token=TOKEN)
    question: Any = {
        "model": "claude@1",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hello Claude"}],
    }
    with client.messages.stream(**question) as stream:
        pieces = list(stream.text_stream)
    return {"text": client.messages.create(**question).content[0].text, "pieces": pieces}


def pydantic_ai() -> Outcome:
    from pydantic_ai import Agent  # noqa: PLC0415

    agent = Agent(f"google:{MODEL}", tools=[get_weather])
    done = agent.run_sync("Weather in Paris, agent?")
    return {"text": done.output, "messages": len(done.all_messages())}


def langchain() -> Outcome:
    from langchain_google_genai import ChatGoogleGenerativeAI  # noqa: PLC0415

    client = ChatGoogleGenerativeAI(model=MODEL)
    chunks = [chunk.content for chunk in client.stream("Hello, chain, in pieces")]
    return {"text": client.invoke("Hello, chain").content, "chunks": chunks}


def litellm() -> Outcome:
    from litellm import completion  # noqa: PLC0415

    question: Any = {"model": f"gemini/{MODEL}", "messages": [{"role": "user", "content": "Hello, light"}]}
    pieces = [chunk.choices[0].delta.content for chunk in completion(**question, stream=True)]
    return {"text": completion(**question).choices[0].message.content, "pieces": pieces}


run(
    {
        "gemini": {
            "plain": lambda: ask("Hello", system_instruction="Be brief."),
            "stream": lambda: streamed(CLIENT, "Stream, please"),
            "tool": lambda: ask("Weather?", **no_calls()),
            "tool_stream": lambda: streamed(CLIENT, "Weather, in pieces?", **no_calls()),
            "result": result,
            "structured": structured,
            "image": image,
            "async_stream": async_stream,
            "failure": failure,
            "kept": lambda: kept(CLIENT),
        },
        "vertex": {
            "plain": lambda: told(VERTEX.models.generate_content(model=MODEL, contents="Vertex")),
            "stream": lambda: streamed(VERTEX, "Vertex, in pieces"),
            "claude": anthropic_vertex,
            "kept": lambda: kept(VERTEX),
        },
        "others": {"pydantic_ai": pydantic_ai, "langchain": langchain, "litellm": litellm},
    }
)
