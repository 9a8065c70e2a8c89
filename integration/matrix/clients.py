"""The clients of the matrix: what they are, how they are run, and who answers when they are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["CLIENTS", "HOSTS", "UPSTREAMS", "Client", "Road", "Server"]

Road = Literal["process", "gateway", "proxy"]
Server = Literal["llama.cpp", "Ollama", "scripted"]

HOSTS: Final[dict[str, Server]] = {
    "api.anthropic.com": "llama.cpp",
    "api.openai.com": "llama.cpp",
    "api.mistral.ai": "llama.cpp",
    "router.huggingface.co": "llama.cpp",
    "api.cohere.com": "scripted",
    "api.groq.com": "scripted",
    "bedrock-runtime.us-east-1.amazonaws.com": "scripted",
    "generativelanguage.googleapis.com": "scripted",
}
"""Who answers for the hosts of providers."""
UPSTREAMS: Final = {
    "cohere": "https://api.cohere.com",
    "groq": "https://api.groq.com",
    "huggingface": "https://router.huggingface.co",
    "mistral": "https://api.mistral.ai",
}
"""The services that a gateway has to be told of."""


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    language: str
    package: str
    """The name of what has a version, in its language's own registry."""
    program: str
    """The file, and what of it is run."""
    server: Server = "llama.cpp"
    steps: tuple[str, ...] = ()
    """Those to run of a program that has others besides; none for all."""
    group: str = "main"
    """The environment that it is installed in, where not all fit into one."""
    no_proxy: str = ""
    """Why it cannot come by the proxy, if it is known beforehand."""


def _steps(api: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{api}.{name}" for name in names or ("plain", "stream", "tool", "structured"))


_LOCAL: Final = "it asks a server of this machine, and such calls go by no proxy"

CLIENTS: Final = (
    Client("anthropic", "Python", "anthropic", "anthropic_client.py", steps=_steps("anthropic")),
    Client(
        "openai",
        "Python",
        "openai",
        "openai_client.py",
        steps=_steps("openai-chat") + _steps("openai-responses"),
    ),
    Client("ollama", "Python", "ollama", "ollama_client.py", "Ollama", _steps("ollama"), no_proxy=_LOCAL),
    Client(
        "pydantic-ai", "Python", "pydantic-ai-slim", "pydantic_ai_client.py", steps=_steps("openai-responses")
    ),
    Client("openai-agents", "Python", "openai-agents", "framework_client.py openai-agents"),
    Client(
        "langchain-anthropic",
        "Python",
        "langchain-anthropic",
        "langchain_client.py",
        steps=_steps("anthropic"),
    ),
    Client(
        "langchain-openai", "Python", "langchain-openai", "langchain_client.py", steps=_steps("openai-chat")
    ),
    Client(
        "langchain-ollama",
        "Python",
        "langchain-ollama",
        "langchain_client.py",
        "Ollama",
        _steps("ollama"),
        no_proxy=_LOCAL,
    ),
    Client("litellm", "Python", "litellm", "framework_client.py litellm", group="litellm"),
    Client(
        "litellm, async (aiohttp)", "Python", "litellm", "framework_client.py litellm-async", group="litellm"
    ),
    Client("instructor", "Python", "instructor", "framework_client.py instructor", group="tools"),
    Client("llm", "Python", "llm", "framework_client.py llm", group="tools"),
    Client("google-genai", "Python", "google-genai", "service_client.py google-genai", "scripted"),
    Client("boto3 (Bedrock Converse)", "Python", "boto3", "service_client.py boto3", "scripted"),
    Client("cohere", "Python", "cohere", "service_client.py cohere", "scripted"),
    Client("groq", "Python", "groq", "service_client.py groq", "scripted"),
    Client("mistralai", "Python", "mistralai", "service_client.py mistralai"),
    Client("huggingface_hub", "Python", "huggingface_hub", "service_client.py huggingface_hub"),
    Client("urllib", "Python", "Python", "raw_client.py urllib"),
    Client(
        "http.client",
        "Python",
        "Python",
        "raw_client.py http.client",
        no_proxy="it reads no proxy from the environment",
    ),
    Client("requests", "Python", "requests", "raw_client.py requests"),
    Client("httpx", "Python", "httpx", "raw_client.py httpx"),
    Client("aiohttp", "Python", "aiohttp", "raw_client.py aiohttp"),
    Client(
        "@anthropic-ai/sdk", "JavaScript", "@anthropic-ai/sdk", "anthropic.mjs", steps=_steps("anthropic")
    ),
    Client(
        "openai",
        "JavaScript",
        "openai",
        "openai.mjs",
        steps=_steps("openai-chat") + _steps("openai-responses"),
    ),
    Client("ollama", "JavaScript", "ollama", "ollama.mjs", "Ollama", _steps("ollama"), no_proxy=_LOCAL),
    Client("ai (Vercel)", "JavaScript", "ai", "ai.mjs", steps=_steps("openai-chat") + _steps("anthropic")),
    Client("@langchain/openai", "JavaScript", "@langchain/openai", "services.mjs langchain"),
    Client("@google/genai", "JavaScript", "@google/genai", "services.mjs google-genai", "scripted"),
    Client("@mistralai/mistralai", "JavaScript", "@mistralai/mistralai", "services.mjs mistral"),
    Client("groq-sdk", "JavaScript", "groq-sdk", "services.mjs groq", "scripted"),
    Client("cohere-ai", "JavaScript", "cohere-ai", "services.mjs cohere", "scripted"),
    Client("fetch", "JavaScript", "node", "raw.mjs fetch"),
    Client("axios", "JavaScript", "axios", "raw.mjs axios"),
    Client(
        "anthropic-sdk-go",
        "Go",
        "github.com/anthropics/anthropic-sdk-go",
        "clients",
        steps=_steps("anthropic"),
    ),
    Client(
        "openai-go",
        "Go",
        "github.com/openai/openai-go",
        "clients",
        steps=_steps("openai-chat") + _steps("openai-responses"),
    ),
    Client(
        "ollama/api", "Go", "github.com/ollama/ollama", "clients", "Ollama", _steps("ollama"), no_proxy=_LOCAL
    ),
    Client("go-openai", "Go", "github.com/sashabaranov/go-openai", "matrix go-openai"),
    Client("net/http", "Go", "go", "matrix net/http"),
    Client("async-openai", "Rust", "async-openai", "matrix async-openai"),
    Client("reqwest", "Rust", "reqwest", "matrix reqwest"),
    Client("curl", "shell", "curl", "curl.sh"),
)
