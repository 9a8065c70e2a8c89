"""Which requests look like calls to a model, whatever host they are sent to.

The path tells most of them, and the name of the SDK tells others. Where other services have such a path, too
(``/messages``, ``/api/chat``), the body must have the fields that a model needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set as AbstractSet
from typing import Final, NamedTuple

from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.providers import PROVIDERS, Address, Kind, Parameters, address_at, upstream_name
from cortex_replay.strict_json import JsonError, loads

__all__ = ["ModelCall", "model_call"]

_Fields = tuple[frozenset[str], ...]


def _any_of(*alternatives: str) -> _Fields:
    return tuple(frozenset(names.split()) for names in alternatives)


class ModelCall(NamedTuple):
    """What a request would be, if its body has one of these sets of fields."""

    provider: str
    """Who made the API, by the name that clients have for it; the host may be anybody's."""
    kind: Kind
    protocol: str | None
    """The wire that it is lifted by; ``None`` for what is recorded as it is."""
    parameters: Parameters = ()
    """What the path says of the request, for that wire."""
    alt: str | None = None
    """The form of answer that the wire reads."""
    fields: _Fields = ()
    """None where the path alone says enough."""

    def fits(self, body: bytes) -> bool:
        """Whether a whole body is one for a model. One that nobody can read may be."""
        if not self.fields:
            return True
        try:
            document = loads(body)
        except JsonError:
            return bool(body) and not body.lstrip().startswith((b"{", b"["))
        return isinstance(document, dict) and self.fits_fields(document.keys())

    def fits_fields(self, given: AbstractSet[str]) -> bool:
        """Whether these are the fields of a body for a model."""
        return not self.fields or any(names <= given for names in self.fields)

    def fields_in(self, data: bytes) -> frozenset[str]:
        """Those of its fields that a piece of a body names."""
        return frozenset(
            field
            for field in frozenset().union(*self.fields)
            if re.search(rb'"%s"\s*:' % field.encode(), data)
        )

    def server(self, scheme: str, authority: str) -> UpstreamServer:
        """The provider at a host that a client chose. It has no key but what the client brings."""
        return UpstreamServer(f"{self.provider}@{authority}", self.kind, f"{scheme}://{authority}")

    def route(self, server: UpstreamServer, path: str) -> Route:
        """Where such a request goes."""
        return Route(server.name, path, self.protocol, self.parameters, self.alt)


class _Row(NamedTuple):
    path: str
    """A pattern of how the path ends."""
    provider: str
    """A name of :data:`PROVIDERS`; any other is just what it is called."""
    fields: _Fields = ()


_ROWS: Final = (
    _Row(r"/openai/deployments/[^/]+/(?:chat/)?(?:completions|embeddings|images/generations)", "azure"),
    _Row(r"/openai/deployments/[^/]+/audio/(?:transcriptions|translations|speech)", "azure"),
    _Row(r"/models/chat/completions", "azure"),
    _Row(r"/chat/completions", "openai"),
    _Row(r"/responses", "openai", _any_of("model input", "model prompt", "model previous_response_id")),
    _Row(r"/messages", "claude", _any_of("model messages", "anthropic_version messages")),
    _Row(r"/messages/count_tokens", "claude"),
    _Row(r"/messages/batches", "claude", _any_of("requests")),
    _Row(r"/api/chat", "ollama", _any_of("model messages")),
    _Row(r"/api/(?:generate|show|pull)", "ollama", _any_of("model")),
    _Row(r"/api/embed(?:dings)?", "ollama", _any_of("model input", "model prompt")),
    _Row(r"/(?:embeddings|moderations|rerank|images/generations|audio/speech)", "openai", _any_of("model")),
    _Row(r"/(?:completions?|complete)", "openai", _any_of("model prompt", "prompt n_predict")),
    _Row(r"/audio/(?:transcriptions|translations)|/images/(?:edits|variations)", "openai"),
    _Row(r"/publishers/[^/]+/models/[^/]+:[A-Za-z]+", "vertex"),
    _Row(
        r":(?:(?:stream)?[gG]enerateContent|embedContent|batchEmbedContents|countTokens|(?:stream)?[rR]awPredict)",
        "gemini",
    ),
    _Row(r"/model/[^/]+/(?:invoke|converse)(?:-stream|-with-response-stream)?", "bedrock"),
    _Row(r"/v[12]/chat", "cohere", _any_of("model messages", "model message")),
    _Row(r"/invocations", "endpoint", _any_of("messages", "prompt", "inputs")),
    _Row(r"/generate(?:_stream)?", "endpoint", _any_of("inputs", "model prompt")),
)
_SOCKETS: Final = (
    (re.compile(r".*/(?:responses|realtime)/*"), "openai"),
    (re.compile(r".*\.BidiGenerateContent"), "gemini"),
)
"""Where a WebSocket to a model is opened."""
_PATHS: Final = [(re.compile(rf".*(?:{row.path})/*"), row) for row in _ROWS]


def model_call(method: str, path: str, header: Callable[[str], str]) -> ModelCall | None:
    """What a request asks of a model, as far as its head can tell; ``None`` for all other traffic.

    Args:
        method: Of the request.
        path: Without the query.
        header: The value of a header by its name in lower case; empty where there is none.
    """
    address = address_at(path, is_tail=True) if method == "POST" else None
    agent = header("user-agent")
    for name, known in PROVIDERS.items():
        if re.match(known.agents, agent):
            is_own = address is not None and address.protocol in known.protocols
            return _of(name, address if is_own else None)
    if method == "POST":
        for pattern, row in _PATHS:
            if pattern.fullmatch(path):
                return _of(row.provider, address, row.fields)
    if method == "GET" and header("upgrade").lower() == "websocket":
        return next((_of(name, None) for pattern, name in _SOCKETS if pattern.fullmatch(path)), None)
    return None


def _of(provider: str, address: Address | None, fields: _Fields = ()) -> ModelCall:
    known = PROVIDERS.get(provider)
    kind: Kind = "http" if known is None else known.kind
    protocol, parameters, alt = address or (None, (), None)
    return ModelCall(upstream_name(provider), kind, protocol, parameters, alt, fields)
