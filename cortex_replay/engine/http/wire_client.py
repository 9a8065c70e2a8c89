"""Our own calls over a client's wire, whose answers are kept as the bytes that came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http import Endpoint, HttpClient
from cortex_replay.adapters.openai_compat import max_tokens_field_at
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.adapters.secret import read_key
from cortex_replay.config import ProviderSettings
from cortex_replay.engine.http.aws import regional, signer_of
from cortex_replay.engine.http.relay import recordable_headers
from cortex_replay.engine.http.tapes import AnswerTape, answer_of_body
from cortex_replay.engine.http.upstreams import UpstreamServer, service_of
from cortex_replay.errors import InvalidRequest, ResponseParse
from cortex_replay.providers import ANTHROPIC_VERSION, endpoint_of
from cortex_replay.redact.sensitivity import Sensitivity, SensitivityLevel, refuse_above
from cortex_replay.store import Answer
from cortex_replay.types import LlmRequest, TokenUsage
from cortex_replay.wire import WIRES
from cortex_replay.wire.body import Body
from cortex_replay.wire.openai_chat import openai_chat

__all__ = ["WireClient"]


class WireClient:
    """Asks one server over one wire.

    Args:
        server: Whom to ask; its key goes there and nowhere else.
        protocol: The wire.
        provider: What is configured for the server's provider, if it has a configuration.
        environment: Where keys are.
        max_retries: How often to try again.
        max_sensitivity: The highest label that may be sent.
        rate: How often it may be asked; ``None``: any number of times.

    Raises:
        ConfigError: There is a key, and the user has not agreed that it goes there.
        InvalidRequest: The server or the key makes no sense.
    """

    def __init__(
        self,
        server: UpstreamServer,
        protocol: str,
        provider: ProviderSettings | None,
        environment: Mapping[str, str],
        *,
        max_retries: int,
        max_sensitivity: SensitivityLevel,
        rate: RequestRate | None = None,
    ) -> None:
        value = server.key(environment)
        key = None if value is None else read_key(value)
        del value  # a traceback would show it
        if isinstance(key, InvalidRequest):
            raise key
        server = regional(server, environment)
        endpoint = Endpoint(server.base_url)
        header, prefix = server.key_header
        self._protocol = protocol
        self._upstream = service_of(server.name)
        self._wire = WIRES[protocol]
        if protocol == "openai-chat":
            given = provider.max_tokens_field if provider else None
            self._wire = openai_chat(max_tokens_field_at(endpoint, given))
        self._most = Sensitivity.of(max_sensitivity)
        self._http = HttpClient(
            endpoint,
            headers=_headers_of(protocol, provider),
            key=key,
            key_header=header,
            key_prefix=prefix,
            signer=None if key is not None else signer_of(server, environment),
            max_retries=max_retries,
            rate=rate,
        )

    async def ask(self, request: LlmRequest, before: Answer) -> tuple[Answer, TokenUsage | None]:
        """The answer of today, asked for in the way of a recorded one, and what it cost.

        Raises:
            InvalidRequest: The request must not, or cannot, be sent; nothing was.
            LlmError: There is no good answer.
        """
        refuse_above(request, self._most)
        is_stream = bool(before.stream) or (before.wire or {}).get("stream") is True
        body: Body = self._wire.lower(request, stream=is_stream)
        if before.usage is None:  # whoever did not ask for usage does not expect an event with it
            body.pop("stream_options", None)
        deadline = Deadline(request.timeout_ms)
        path, body = endpoint_of(self._protocol, stream=is_stream, upstream=self._upstream).split(body)
        if is_stream:
            return await self._ask_for_stream(request, path, _dump(body), deadline)
        payload = await self._http.fetch("POST", path, _dump(body), deadline)
        headers = dict(recordable_headers(payload.headers))
        answer, response = answer_of_body(request, self._protocol, payload.body, {**headers})
        return answer, response.usage

    async def _ask_for_stream(
        self, request: LlmRequest, path: str, body: bytes, deadline: Deadline
    ) -> tuple[Answer, TokenUsage | None]:
        async with await self._http.open(path, body, deadline) as incoming:
            tape = AnswerTape(request, self._protocol, incoming.content_type)
            while data := await incoming.read():
                tape.add(data)
            tape.end()
            if tape.response is None:
                raise tape.problem or ResponseParse("the stream has no end")
            headers = dict(recordable_headers(incoming.headers))
            return tape.answer({**headers}), tape.response.usage

    async def aclose(self) -> None:
        await self._http.aclose()


def _headers_of(protocol: str, provider: ProviderSettings | None) -> dict[str, str]:
    if protocol != "anthropic-messages":
        return {}
    headers = {"anthropic-version": (provider.version if provider else None) or ANTHROPIC_VERSION}
    if provider is not None and provider.betas:
        headers["anthropic-beta"] = ",".join(provider.betas)
    return headers


def _dump(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        reason = "is nested too deeply to be sent"
    raise InvalidRequest("messages", reason)
