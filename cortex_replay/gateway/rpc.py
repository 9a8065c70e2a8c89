"""The admin RPC of a gateway: the same recordings, the same ledger, and callers that hold no key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import ClassVar, Final

import orjson

from cortex_replay.adapters import LlmAdapter
from cortex_replay.admin.callers import Caller, Callers
from cortex_replay.admin.rpc import RpcDispatcher, too_large, unknown_caller
from cortex_replay.admin.service import LlmService
from cortex_replay.config import Settings
from cortex_replay.engine.http import Engine, Ledger, Reply
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.engine.replay import ReplayAdapter
from cortex_replay.errors import LlmError, NoFixture
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["Rpc"]

_ASKED: ContextVar[list[bool]] = ContextVar("cortex_replay_asked", default=[])  # noqa: B039 - nobody reads it
_JSON: Final = (("content-type", "application/json"),)


class Rpc:
    """Answers JSON-RPC in the mode of a gateway's engine.

    Args:
        settings: Providers, models and callers.
        environment: Where tokens are.
        engine: Whose store, mode and ledger it shares.
        live: The adapter of a provider; asked for only where something may be asked.
        redactor: What to cut out before anything is stored.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        engine: Engine,
        live: Callable[[str], LlmAdapter],
        redactor: Redactor,
    ) -> None:
        self.callers = Callers(settings, environment)
        self._engine = engine
        self._live = live
        self._redactor = redactor
        self.service = LlmService(settings, self._adapter)
        self.dispatcher = _CleanDispatcher(self.service.methods)
        if engine.mode.asks:  # what is replayed was redacted when it was recorded
            self.dispatcher.redactor = redactor

    def caller(self, authorization: str) -> Caller | None:
        """Who brings this header."""
        return self.callers.by_authorization(authorization)

    async def reply(self, body: bytes, caller: Caller) -> Reply:
        """The answer to one message, or to a batch of them."""
        answer = await self.dispatcher.handle(body, caller)
        return Reply(204, ()) if answer is None else Reply(200, _JSON, answer)

    @staticmethod
    def refusal() -> Reply:
        """What an unknown caller gets."""
        return Reply(401, _JSON, unknown_caller())

    @staticmethod
    def too_large() -> Reply:
        """What whoever sends too much gets."""
        return Reply(413, _JSON, too_large())

    async def aclose(self) -> None:
        await self.service.aclose()

    def _adapter(self, provider: str) -> LlmAdapter:
        mode, store, ledger = self._engine.mode, self._engine.store, self._engine.ledger
        if mode is Mode.REPLAY:
            return _Replayed(ReplayAdapter(store, explain=False), store, ledger)
        asked = _Counted(self._live(provider), store, ledger, is_recorded=mode is not Mode.LIVE)
        if mode is Mode.LIVE:
            return asked
        recording = RecordingAdapter(
            asked, store, mode, redactor=self._redactor, commit_on_close=False, meta={"provider": provider}
        )
        return _Recorded(recording, store, ledger)


class _CleanDispatcher(RpcDispatcher):
    """Cuts out of answers what a provider repeats of our keys: whoever calls is not to have them."""

    redactor: Redactor | None = None

    async def handle(self, data: bytes, caller: Caller) -> bytes | None:
        answer = await super().handle(data, caller)
        if answer is None or self.redactor is None:
            return answer
        clean, hits = self.redactor.document(orjson.loads(answer))
        return orjson.dumps(clean) if hits else answer


class _Forwarding(LlmAdapter):
    """Forwards whole calls to another adapter, in whose name it stands, and counts them."""

    adapter_id: ClassVar[str] = "rpc"

    def __init__(self, inner: LlmAdapter, store: Store, ledger: Ledger) -> None:
        self._inner = inner
        self._store = store
        self._ledger = ledger
        self.adapter_id = inner.adapter_id  # type: ignore[misc]

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        return self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Replayed(_Forwarding):
    async def complete(self, request: LlmRequest) -> LlmResponse:
        try:
            response = await self._inner.complete(request)
        except NoFixture as error:
            self._ledger.missed(f"{error.model} {error.prompt_hash[:16]}", f"cortex-replay: {error}")
            raise
        self._ledger.hit(self._store.key(request), response.usage)
        return response


class _Recorded(_Forwarding):
    """Counts what a recorder gave without asking."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        asked: list[bool] = []
        token = _ASKED.set(asked)
        try:
            response = await self._inner.complete(request)
        finally:
            _ASKED.reset(token)
        if not asked:
            self._ledger.hit(self._store.key(request), response.usage)
        return response


class _Counted(_Forwarding):
    def __init__(self, inner: LlmAdapter, store: Store, ledger: Ledger, *, is_recorded: bool) -> None:
        super().__init__(inner, store, ledger)
        self._is_recorded = is_recorded

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self._ledger.asked()
        _ASKED.get().append(True)
        try:
            response = await self._inner.complete(request)
        except LlmError as error:
            self._ledger.fail(str(error))
            raise
        if self._is_recorded:
            self._ledger.keep(self._store.key(request), response.usage, request.model)
        else:
            self._ledger.spend(response.usage, request.model)
        return response
