"""What a client's body asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from cortex_replay.bindings import Binder
from cortex_replay.config.key_rules import KeyRules
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.lookup import LookUp, look_up
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import Parameters
from cortex_replay.store import Store
from cortex_replay.types import LlmRequest
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
    labels: str = ""
    """What the client calls the blocks of its system text, as its header says it."""

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

    def read(self, store: Store, binder: Binder, route: Route, body: bytes) -> Question | None:
        """What a body asks for; ``None`` if it cannot be told, or its route is of no wire.

        Args:
            store: Whose rules make the key.
            binder: What binds values today; what was kept of another day is not right any more.
            route: Where it was sent.
            body: What was sent.
        """
        protocol, parameters = route.protocol, route.parameters
        if protocol is None:
            return None
        kept = self._kept.get((protocol, parameters, body))
        if kept is not None and kept[0] is store.key_rules and kept[1] is binder:
            return Question(kept[2], kept[2].look, protocol, body, parameters)
        try:
            document = document_in(body, parameters)
            request = WIRES[protocol].lift(document)
        except (InvalidRequest, orjson.JSONDecodeError):
            return None
        options = document.get("stream_options")
        facts = Facts(
            look_up(store, binder, request),
            WIRES[protocol].wants_stream(document),
            isinstance(options, dict) and options.get("include_usage") is True,
            request.extra.get("n", 1) == 1 and not isinstance(request.extra.get("prompt"), list),
        )
        question = Question(facts, facts.look, protocol, body, parameters, request)
        if question.is_small:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[protocol, parameters, body] = store.key_rules, binder, facts
        return question


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
