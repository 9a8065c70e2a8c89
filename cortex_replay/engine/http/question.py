"""What a client's body asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import orjson

from cortex_replay.bindings import Binder
from cortex_replay.config.key_rules import KeyRules
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.kept_prompts import KeptPrompt
from cortex_replay.engine.lookup import LookUp, look_up
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import Parameters
from cortex_replay.store import Store
from cortex_replay.types import LlmRequest, PromptCachePlan
from cortex_replay.types.labels import label_request, read_labels
from cortex_replay.wire import WIRES

__all__ = ["Facts", "Question", "Questions", "document_in", "problem_in"]

_MOST_KEPT: Final = 4096
_MOST_BYTES_KEPT: Final = 16 * 1024


class Facts(NamedTuple):
    """A body, as far as an answer depends on it."""

    look: LookUp
    """What it is recorded under."""
    stream: bool
    with_usage: bool
    is_single: bool
    """Whether one answer is asked for; of several, a rendered reply would hold only the first."""


@dataclass(slots=True)
class Question:
    """One call's body, lifted at most once."""

    facts: Facts
    look: LookUp
    """What it is found by."""
    protocol: str
    _body: bytes
    _parameters: Parameters = ()
    _request: LlmRequest | None = None
    _instead: bytes | None = None
    labels: str = ""
    """What the client calls the blocks of its system text, as its header says it."""

    @property
    def body_to_send(self) -> bytes:
        """The body that goes to the provider: as it came, unless the kept prompt in it may be gone."""
        return self._body if self._instead is None else self._instead

    @property
    def is_small(self) -> bool:
        """Whether what it asks for is kept, since it may come again."""
        return len(self._body) <= _MOST_BYTES_KEPT

    def ask(self) -> LlmRequest:
        """The request that it makes."""
        if self._request is None:
            self._request = WIRES[self.protocol].lift(document_in(self._body, self._parameters))
        if self.labels:
            self._request, self.labels = label_request(self._request, read_labels(self.labels)), ""
        return self._request


class Questions:
    """Reads bodies. They repeat, to the byte, so what small ones ask for is kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Parameters, bytes], tuple[KeyRules, Binder, Facts]] = {}

    def read(
        self, store: Store, binder: Binder, route: Route, body: bytes, kept: KeptPrompt | None = None
    ) -> Question | None:
        """What a body asks for; ``None`` if it cannot be told, or its route is of no wire.

        Args:
            store: Whose rules make the key.
            binder: What binds values today; what was kept of another day is not right any more.
            route: Where it was sent.
            body: What was sent.
            kept: The prompt that it goes on from, where the provider keeps one and it is known here.
        """
        protocol, parameters = route.protocol, route.parameters
        if protocol is None:
            return None
        known = self._kept.get((protocol, parameters, body)) if kept is None else None
        if known is not None and known[0] is store.key_rules and known[1] is binder:
            return Question(known[2], known[2].look, protocol, body, parameters)
        joined, instead = None, None
        try:
            document = document_in(body, parameters)
            if kept is not None:
                from cortex_replay.wire.gemini.kept import join_kept  # noqa: PLC0415 - for that wire alone

                joined = join_kept(kept.body, document)
                if joined is not None:
                    document = joined.body
                    instead = None if kept.is_there else _without(document, parameters)
            request = WIRES[protocol].lift(document)
        except (InvalidRequest, orjson.JSONDecodeError):
            return None
        if joined is not None and instead is None:
            request = replace(request, cache=PromptCachePlan(kept_messages=joined.kept_messages))
        options = document.get("stream_options")
        facts = Facts(
            look_up(store, binder, request),
            WIRES[protocol].wants_stream(document),
            isinstance(options, dict) and options.get("include_usage") is True,
            request.extra.get("n", 1) == 1 and not isinstance(request.extra.get("prompt"), list),
        )
        question = Question(facts, facts.look, protocol, body, parameters, request, instead)
        if question.is_small and kept is None:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[protocol, parameters, body] = store.key_rules, binder, facts
        return question


def _without(document: dict[str, Any], parameters: Parameters) -> bytes:
    """A body, of which the path says the rest."""
    said = dict(parameters)
    return orjson.dumps({name: value for name, value in document.items() if name not in said})


def document_in(body: bytes, parameters: Parameters) -> Any:
    """What a wire lifts: a body, with what the path says of it.

    Raises:
        JSONDecodeError: It is not JSON.
    """
    document = orjson.loads(body)
    return {**document, **dict(parameters)} if parameters and isinstance(document, dict) else document


def problem_in(route: Route, body: bytes) -> str | None:
    """What is wrong with a body that makes no request, where it should."""
    if route.protocol is None:
        return None
    try:
        WIRES[route.protocol].lift(document_in(body, route.parameters))
    except orjson.JSONDecodeError:
        return "the body is not JSON"
    except InvalidRequest as error:
        return str(error)
    return None
