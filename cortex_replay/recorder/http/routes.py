"""Which provider a path is for, and what it asks of it.

Clients differ in what they append to a base URL: some bring ``/v1`` themselves, some do not, and some
bring it a second time. Every path is brought into one form here, and every upstream is asked in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["PROTOCOLS", "Route", "canonical_path", "lifted_by", "unprefixed_upstream"]

PROTOCOLS: Final = {
    "/v1/messages": "anthropic-messages",
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/api/chat": "ollama-chat",
    "/api/generate": "ollama-generate",
}
"""The calls that are lifted, by the path that they are posted to."""

_OPENAI_PROTOCOLS: Final = ("openai-chat", "openai-responses")
_VERSIONS: Final = re.compile(r"(?:/v1)+(?=/|$)")
_MODEL_METHOD: Final = re.compile(r"/(?:v1(?:beta\d*|alpha\d*)?)/(?:models|tunedModels)/[^/]+:[A-Za-z]+$")
_GEMINI: Final = re.compile(r"/v1(?:beta|alpha)\d*/")
_ANTHROPIC: Final = re.compile(r"/v1/(?:messages|complete)(?:/|$)")
_OPENAI: Final = re.compile(
    r"/(?:chat|responses|completions|embeddings|models|files|batches|images|audio|moderations|uploads"
    r"|fine_tuning|vector_stores|conversations|videos|realtime|evals)(?:/|$)"
)
_NATIVE_OLLAMA: Final = re.compile(r"/api(?:/|$)")
_VERSIONED_KINDS: Final = ("claude", "openai-compat", "openai-responses", "ollama")


@dataclass(frozen=True, slots=True)
class Route:
    """Where a call goes."""

    upstream: str
    """The name of the provider."""
    path: str
    """In the one form that recordings have it in."""
    protocol: str | None
    """The wire that the call is lifted by; ``None`` for what is recorded as it is."""


def canonical_path(path: str, kind: str) -> str:
    """A path with the one ``/v1`` that its provider's API has."""
    versions = _VERSIONS.match(path)
    rest = path[versions.end() :] if versions else path
    if _NATIVE_OLLAMA.match(rest):
        return rest
    if versions or (kind in _VERSIONED_KINDS and rest not in ("", "/") and not _GEMINI.match(rest)):
        return f"/v1{rest}"
    return path


def lifted_by(path: str) -> str | None:
    """The protocol of what is posted to a path, where it is one that is lifted."""
    return PROTOCOLS.get(path.rstrip("/"))


def unprefixed_upstream(path: str, header: Callable[[str], str], known: Collection[str]) -> str | None:
    """The provider that a path without a prefix is for; headers decide where several have it."""
    if _NATIVE_OLLAMA.match(path) or _NATIVE_OLLAMA.match(_VERSIONS.sub("", path, count=1)):
        return "ollama"
    if lifted_by(canonical_path(path, "claude")) in _OPENAI_PROTOCOLS:
        return "openai"
    if header("x-goog-api-key") or _GEMINI.match(path) or _MODEL_METHOD.match(path):
        return "gemini"
    versioned = canonical_path(path, "claude")
    if _ANTHROPIC.match(versioned) or header("anthropic-version"):
        return "anthropic"
    is_openai = _VERSIONS.match(path) is not None or _OPENAI.match(path) is not None
    return "openai" if is_openai and "openai" in known else None
