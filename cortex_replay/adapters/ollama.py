"""Ollama, on this machine, with the model pinned to the bytes it consists of."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import ClassVar, Final, NamedTuple, Unpack

import orjson

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http import Endpoint, HttpClient
from cortex_replay.adapters.live import LiveAdapter, LiveOptions
from cortex_replay.errors import InvalidRequest, ResponseParse
from cortex_replay.providers import PROVIDERS
from cortex_replay.types import LlmRequest
from cortex_replay.wire.ollama import OLLAMA_CHAT
from cortex_replay.wire.shape import WrongShape, objects, text

__all__ = ["OllamaAdapter"]

_PINNED: Final = re.compile(r"(?P<name>[^@\s:]+(?::\d+/[^@\s:]+)?:[^@\s:/]+)@sha256:(?P<digest>[0-9a-f]{64})")


class _Model(NamedTuple):
    name: str
    digest: str | None


class OllamaAdapter(LiveAdapter):
    """Answers from Ollama's ``/api/chat``.

    A model is named ``name:tag@sha256:<64 hex digits>``, the digest being the one that ``ollama list``
    and ``/api/tags`` show. It is compared with the server's before the first call, and left out on the
    wire.

    Args:
        base_url: The server; only one on this machine unless ``allow_remote``.
        allow_remote: Take a server elsewhere. What is sent to it leaves the machine.
        allow_unpinned: Take a model without a digest. A tag means other bytes tomorrow.
        **options: Those of every live adapter (:class:`LiveOptions`).

    Raises:
        InvalidRequest: The server is not on this machine, or an argument makes no sense.
    """

    adapter_id: ClassVar[str] = "ollama"

    def __init__(
        self,
        base_url: str = PROVIDERS["ollama"].base_url,
        *,
        allow_remote: bool = False,
        allow_unpinned: bool = False,
        **options: Unpack[LiveOptions],
    ) -> None:
        endpoint = Endpoint(base_url)
        if not endpoint.is_loopback and not allow_remote:
            reason = f"{endpoint.host!r} is not this machine; allow_remote permits it"
            raise InvalidRequest("base_url", reason)
        self._allows_remote = allow_remote
        self._allows_unpinned = allow_unpinned
        self._known_digests: set[_Model] = set()
        super().__init__(OLLAMA_CHAT, "/api/chat", partial(HttpClient, endpoint), **options)

    def _check(self, request: LlmRequest) -> None:
        self._model(request)

    def _wire_request(self, request: LlmRequest) -> LlmRequest:
        return dataclasses.replace(request, model=self._model(request).name)

    async def _before_call(self, request: LlmRequest, deadline: Deadline) -> None:
        model = self._model(request)
        if model.digest is None or model in self._known_digests:
            return
        actual = await self._digest_of(model.name, deadline)
        if actual is None:
            raise InvalidRequest("model", f"the server has no {model.name}")
        if actual != model.digest:
            reason = f"{model.name} is sha256:{actual} on the server, not the pinned sha256:{model.digest}"
            raise InvalidRequest("model", reason)
        self._known_digests.add(model)

    async def _digest_of(self, name: str, deadline: Deadline) -> str | None:
        answer = await self._http.fetch("GET", "/api/tags", None, deadline)
        try:
            listed = objects(orjson.loads(answer.body), "models")
            models = {text(model, "name"): model for model in listed}
            model = models.get(name, {})
            digest, remote_host = text(model, "digest"), text(model, "remote_host")
        except (orjson.JSONDecodeError, AttributeError, WrongShape):
            raise ResponseParse("the server's list of models is not one") from None
        if remote_host and not self._allows_remote:
            reason = f"{name} is passed on to {remote_host!r} by the server; allow_remote permits it"
            raise InvalidRequest("model", reason)
        return digest.removeprefix("sha256:") or None

    def _model(self, request: LlmRequest) -> _Model:
        match = _PINNED.fullmatch(request.model)
        if match is not None:
            return _Model(match["name"], match["digest"])
        if "@" in request.model or not self._allows_unpinned:
            reason = "must be pinned as name:tag@sha256:<64 hex digits>; allow_unpinned takes a bare name"
            raise InvalidRequest("model", reason)
        return _Model(request.model, None)
