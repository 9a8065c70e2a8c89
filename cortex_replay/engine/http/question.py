"""What a client's body asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from cortex_replay.config.key_rules import KeyRules
from cortex_replay.errors import InvalidRequest
from cortex_replay.store import FixtureKey, Store
from cortex_replay.types import LlmRequest
from cortex_replay.wire import WIRES

__all__ = ["Facts", "Question", "Questions", "problem_in"]

_MOST_KEPT: Final = 4096
_MOST_BYTES_KEPT: Final = 16 * 1024


class Facts(NamedTuple):
    """A body, as far as an answer depends on it."""

    key: FixtureKey
    stream: bool
    with_usage: bool
    is_single: bool
    """Whether one answer is asked for; of several, a rendered reply would hold only the first."""


@dataclass(slots=True)
class Question:
    """One call's body, lifted at most once."""

    facts: Facts
    protocol: str
    _body: bytes
    _request: LlmRequest | None = None

    def ask(self) -> LlmRequest:
        """The request that it makes."""
        if self._request is None:
            self._request = WIRES[self.protocol].lift(orjson.loads(self._body))
        return self._request


class Questions:
    """Reads bodies. They repeat, to the byte, so what small ones ask for is kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], tuple[KeyRules, Facts]] = {}

    def read(self, store: Store, protocol: str, body: bytes) -> Question | None:
        """What a body asks for; ``None`` if it cannot be told."""
        kept = self._kept.get((protocol, body))
        if kept is not None and kept[0] is store.key_rules:
            return Question(kept[1], protocol, body)
        try:
            document = orjson.loads(body)
            request = WIRES[protocol].lift(document)
        except (InvalidRequest, orjson.JSONDecodeError):
            return None
        options = document.get("stream_options")
        facts = Facts(
            store.key(request),
            WIRES[protocol].wants_stream(document),
            isinstance(options, dict) and options.get("include_usage") is True,
            request.extra.get("n", 1) == 1,
        )
        if len(body) <= _MOST_BYTES_KEPT:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[protocol, body] = store.key_rules, facts
        return Question(facts, protocol, body, request)


def problem_in(protocol: str, body: bytes) -> str | None:
    """What is wrong with a body that makes no request."""
    try:
        WIRES[protocol].lift(orjson.loads(body))
    except orjson.JSONDecodeError:
        return "the body is not JSON"
    except InvalidRequest as error:
        return str(error)
    return None
