"""What every live adapter does, whatever its provider."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypedDict

import orjson

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http import HttpClient
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.adapters.schema import check_schema, with_parsed_json
from cortex_replay.canonical import JsonValue
from cortex_replay.config.servers import shown_url
from cortex_replay.errors import InvalidRequest, LlmError, ResponseParse, Transport, Upstream
from cortex_replay.providers import PROVIDERS
from cortex_replay.redact import Sensitivity, refuse_above
from cortex_replay.redact.process import process_redactor
from cortex_replay.redact.sensitivity import SensitivityLevel
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk
from cortex_replay.wire import Wire
from cortex_replay.wire.body import DROPPED
from cortex_replay.wire.failures import error_in

__all__ = ["LiveAdapter", "LiveOptions"]

_JSON: Final = "application/json"
_MAX_REASON: Final = 200
_MAX_MESSAGE: Final = 2000


class LiveOptions(TypedDict, total=False):
    """What every live adapter takes."""

    also_send: Mapping[str, JsonValue] | None
    """Parameters that no key covers because no model sees them, such as ``metadata`` or ``store``."""
    max_sensitivity: Sensitivity | SensitivityLevel
    """The highest label that may be sent (:mod:`cortex_replay.redact`); medium, unless given."""
    max_retries: int
    """How often to try again after 429, 5xx and broken connections; twice, unless given."""
    max_body_bytes: int
    """The largest answer, decoded; 64 MiB, unless given."""
    requests_per_minute: int | RequestRate | None
    """How many requests may go out in a minute, retries among them; any number, unless given. A
    :class:`~cortex_replay.adapters.RequestRate` is for several adapters together."""


class LiveAdapter(LlmAdapter):
    """Asks a real server, over one wire.

    Nothing is sent that the request's key does not cover, and everything is that it does: the body
    is made by the wire, which refuses what it cannot carry. The time a call takes in all is at most
    the request's ``timeout_ms``.
    """

    @abstractmethod  # each provider's has arguments of its own
    def __init__(
        self,
        wire: Wire,
        path: str,
        client: Callable[..., HttpClient],
        *,
        also_send: Mapping[str, JsonValue] | None = None,
        max_sensitivity: Sensitivity | SensitivityLevel = Sensitivity.MEDIUM,
        max_retries: int = 2,
        max_body_bytes: int = 64 * 2**20,
        requests_per_minute: int | RequestRate | None = None,
    ) -> None:
        self._wire = wire
        self._path = path
        rate = (
            RequestRate(requests_per_minute) if isinstance(requests_per_minute, int) else requests_per_minute
        )
        self._http = client(max_retries=max_retries, max_body_bytes=max_body_bytes, rate=rate)
        self._max_sensitivity = Sensitivity.of(max_sensitivity)
        self._also_send = dict(also_send or {})
        for name in self._also_send:
            if name not in DROPPED or name.startswith("stream"):
                reason = "what a model may see belongs into the request, where its key covers it"
                raise InvalidRequest(f"also_send.{name}", reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, '_http', '')})"

    @property
    def origin(self) -> dict[str, JsonValue]:
        """The adapter, the wire, the server, and the provider if that is the server's own."""
        url = shown_url(self._http.url)
        known = next((name for name, row in PROVIDERS.items() if row.base_url == url), None)
        named: dict[str, JsonValue] = {} if known is None else {"provider": known}
        return {**super().origin, **named, "wire": self._wire.protocol, "upstream": url}

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The whole answer.

        Raises:
            InvalidRequest: The request must not, or cannot, be sent; nothing was.
            Upstream: The provider answered with an error.
            Transport: It could not be reached, or the connection broke.
            Timeout: ``timeout_ms`` passed, or would have before the call may go out (:class:`TurnTooLate`).
            ResponseParse: The answer is not what it should be.
        """
        body = self._body(request, stream=False)
        deadline = Deadline(request.timeout_ms)
        try:
            await self._before_call(request, deadline)
            answer = await self._http.fetch("POST", self._path, body, deadline)
            if answer.content_type not in (_JSON, ""):
                raise ResponseParse(f"the answer is {answer.content_type}, not {_JSON}")
            return with_parsed_json(request, self._wire.decode_answer(answer.body, request.model))
        except LlmError as error:
            failure = _scrub(error)
        raise failure

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The answer piece by piece, each when it comes; see :meth:`complete` for what it raises.

        Leaving it early closes the connection, and a slow reader holds the sender back.
        """
        body = self._body(request, stream=True)
        deadline = Deadline(request.timeout_ms)
        try:
            await self._before_call(request, deadline)
            async with await self._http.open(self._path, body, deadline) as incoming:
                if incoming.content_type != self._wire.stream_media_type:
                    raise _not_a_stream(incoming.content_type, await incoming.read_all())
                decoder = self._wire.stream_decoder(request.model)
                while data := await incoming.read():
                    for chunk in decoder.feed(data):
                        yield _parse_last(request, chunk)
                        deadline.check()
                    if decoder.is_done:
                        await incoming.drain()
                        return
                for chunk in decoder.finish():
                    yield _parse_last(request, chunk)
                return
        except LlmError as error:
            failure = _scrub(error)
        raise failure

    async def aclose(self) -> None:
        await self._http.aclose()

    def _body(self, request: LlmRequest, *, stream: bool) -> bytes:
        self._check(request)
        refuse_above(request, self._max_sensitivity)
        if request.extra.get("n", 1) != 1:
            raise InvalidRequest("extra.n", "an answer here is one answer")
        check_schema(request)
        try:
            body = self._wire.lower(self._wire_request(request), stream=stream)
            return orjson.dumps(self._also_send | body)
        except orjson.JSONEncodeError:
            reason = "is nested too deeply to be sent"
        raise InvalidRequest("messages", reason)

    def _check(self, request: LlmRequest) -> None:
        """Refuse what this provider should not be asked."""

    def _wire_request(self, request: LlmRequest) -> LlmRequest:
        """The request as it is lowered; its model may have another name there."""
        return request

    async def _before_call(self, request: LlmRequest, deadline: Deadline) -> None:
        """Whatever must be known before the first call."""


def _parse_last(request: LlmRequest, chunk: StreamChunk) -> StreamChunk:
    """The chunk; if it is the last one of an answer to a schema, with the parsed answer."""
    if chunk.response is None or request.json_schema is None:
        return chunk
    return dataclasses.replace(chunk, response=with_parsed_json(request, chunk.response))


def _scrub(error: LlmError) -> LlmError:
    """The error without a secret, should the server have repeated one, and not too long; and without what
    was being handled when it was raised: that may hold the answer, or the request with all its headers."""
    if isinstance(error, Upstream | Transport | ResponseParse):
        redactor = process_redactor()

        def clean(text: str) -> str:
            return redactor.text(text)[0]

        if isinstance(error, Upstream):
            kind = None if error.error_type is None else clean(error.error_type)[:_MAX_REASON]
            error = Upstream(error.status, clean(error.message)[:_MAX_MESSAGE], kind)
        else:
            error = type(error)(clean(str(error.args[0]))[:_MAX_REASON])
    error.__context__ = error.__cause__ = None
    return error


def _not_a_stream(content_type: str, body: bytes) -> LlmError:
    """What is wrong when a whole document comes where a stream was asked for."""
    try:
        error = error_in(orjson.loads(body), 200)
    except orjson.JSONDecodeError:
        error = None
    return error or ResponseParse(f"a stream was asked for, and {content_type or 'something'} came")
