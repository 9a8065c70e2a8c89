"""The admin RPC of a gateway: the same recordings, the same ledger, and callers that hold no key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.admin.callers import Caller, Callers
from cortex_replay.admin.rpc import RpcDispatcher, too_large, unknown_caller
from cortex_replay.admin.service import LlmService
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run import Run

__all__ = ["Rpc"]

_JSON: Final = (("content-type", "application/json"),)


class Rpc:
    """Answers JSON-RPC in the mode of a run.

    Args:
        run: Whose settings name providers, models and callers, and who answers.
        environment: Where tokens are.
    """

    def __init__(self, run: Run, environment: Mapping[str, str]) -> None:
        self.callers = Callers(run.settings, environment)
        self._run = run
        self.service = LlmService(run.settings, self._adapter)
        self.dispatcher = _CleanDispatcher(self.service.methods)
        if run.mode.asks:  # what is replayed was redacted when it was recorded
            self.dispatcher.redactor = run.redactor

    async def reply(self, body: bytes, caller: Caller) -> HttpReply:
        """The answer to one message, or to a batch of them."""
        answer = await self.dispatcher.handle(body, caller)
        return HttpReply(204, ()) if answer is None else HttpReply(200, _JSON, answer)

    @staticmethod
    def refusal() -> HttpReply:
        """What an unknown caller gets."""
        return HttpReply(401, _JSON, unknown_caller())

    @staticmethod
    def too_large() -> HttpReply:
        """What whoever sends too much gets."""
        return HttpReply(413, _JSON, too_large())

    async def aclose(self) -> None:
        await self.service.aclose()

    def _adapter(self, provider: str) -> LlmAdapter:
        # A miss does not say what others have asked.
        return self._run.adapter(provider, self._run.open_scope(explain=False))


class _CleanDispatcher(RpcDispatcher):
    """Cuts out of answers what a provider repeats of our keys: whoever calls is not to have them."""

    redactor: Redactor | None = None

    async def handle(self, data: bytes, caller: Caller) -> bytes | None:
        answer = await super().handle(data, caller)
        if answer is None or self.redactor is None:
            return answer
        clean, hits = self.redactor.document(orjson.loads(answer))
        return orjson.dumps(clean) if hits else answer
