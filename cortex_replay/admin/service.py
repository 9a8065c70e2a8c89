"""Completions for callers who hold no key."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from cortex_replay.adapters import LlmAdapter
from cortex_replay.admin.callers import Caller
from cortex_replay.admin.errors import AdminError, Code
from cortex_replay.admin.rpc import Method, Params
from cortex_replay.admin.values import METHOD, LlmCompleteInput, LlmCompleteResponse, LlmUsage, quote
from cortex_replay.canonical import JsonValue
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.config.checks import did_you_mean
from cortex_replay.engine.budget import Budget
from cortex_replay.errors import InvalidRequest
from cortex_replay.redact.logs import logger_of
from cortex_replay.types import LlmMessage, LlmRequest, LlmResponse
from cortex_replay.wire.systems import join_system, split_leading_system

__all__ = ["LlmService", "request_of"]

logger = logger_of(__name__)

_ROLES: Final = ("system", "user", "assistant")
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_RENAMED: Final = {"system": "system_prompt"}
_FIELDS: Final = ("provider", "model", "messages", "max_tokens", "temperature", "system_prompt")
_DEFAULT_MAX_TOKENS: Final = 4096
"""What the reference asks for where a call names no limit; here only a provider that needs one gets it."""


class LlmService:
    """Asks a provider in the name of a caller, within what the caller was granted.

    It is a class to carry adapters, one for each provider, and what each caller has spent.

    Args:
        settings: Which providers and models there are.
        answer: Gives the adapter for a provider's name, in the mode that holds. It is asked once for each
            provider, when a caller first names it.
    """

    def __init__(self, settings: Settings, answer: Callable[[str], LlmAdapter]) -> None:
        self._settings = settings
        self._answer = answer
        self._adapters: dict[str, LlmAdapter] = {}
        self._allowances: dict[str, Budget] = {}

    @property
    def methods(self) -> Mapping[str, Method]:
        """What a dispatcher needs to offer this service."""
        return {METHOD: self._answer_call}

    async def complete(self, given: LlmCompleteInput, caller: Caller) -> LlmCompleteResponse:
        """The answer.

        Raises:
            AdminError: The caller may not, or has spent what it may. Nothing was asked.
            InvalidRequest: Something cannot be asked; ``field`` is a field of the input.
            LlmError: As the adapter raises it.
        """
        _require_grant(caller)
        needs_limit = _check(given, self._settings).kind == "claude"
        request = request_of(given, self._settings.timeout_ms, _DEFAULT_MAX_TOKENS if needs_limit else None)
        adapter = self._adapter(given.provider)
        allowance = self._allowances.setdefault(caller.name, _allowance_of(caller))
        async with allowance.call(request) as bill:
            try:
                response = await adapter.complete(request)
            except InvalidRequest as error:
                lifted = len(given.messages) - len(request.messages)
                raise InvalidRequest(_field_of_input(error.field, lifted), error.reason) from None
            bill.pay(response.usage)
        return _output_of(response)

    async def aclose(self) -> None:
        """Close the adapters, each once."""
        adapters = list({id(adapter): adapter for adapter in self._adapters.values()}.values())
        self._adapters.clear()
        for adapter in adapters:
            await adapter.aclose()

    async def _answer_call(self, params: Params, caller: Caller) -> JsonValue:
        _require_grant(caller)  # before anything is said about providers and models
        if not isinstance(params, dict):
            raise InvalidRequest("params", "expected the parameters by name, in an object")
        return (await self.complete(LlmCompleteInput.from_dict(params), caller)).to_dict()

    def _adapter(self, provider: str) -> LlmAdapter:
        if provider not in self._adapters:
            try:
                self._adapters[provider] = self._answer(provider)
            except InvalidRequest as error:
                # A missing key or the like: that is between the server and who runs it.
                logger.warning("the provider %s cannot be asked: %s", provider, error)
                raise InvalidRequest("provider", "cannot be asked here; the server's log says why") from None
        return self._adapters[provider]


def request_of(given: LlmCompleteInput, timeout_ms: int, max_tokens: int | None = None) -> LlmRequest:
    """The request of a call. It has the key of the same conversation on any wire.

    Args:
        given: The call.
        timeout_ms: What it may take.
        max_tokens: Its limit, if it names none itself.

    Raises:
        InvalidRequest: A role is unknown.
    """
    messages: list[LlmMessage] = []
    for i, message in enumerate(given.messages):
        if message.role not in _ROLES:
            reason = f"must be one of {'|'.join(_ROLES)}, got {quote(message.role, '`')}"
            raise InvalidRequest(f"messages[{i}].role", reason)
        messages.append(LlmMessage(message.role, message.content))
    leading, messages = split_leading_system(messages)
    return LlmRequest(
        model=given.model,
        system=join_system([given.system_prompt or "", *(message.content for message in leading)]),
        messages=messages,
        temperature=given.temperature,
        max_tokens=max_tokens if given.max_tokens is None else given.max_tokens,
        timeout_ms=timeout_ms,
    )


def _require_grant(caller: Caller) -> None:
    if "llm_complete" not in caller.grants:
        message = "permission_denied: the capability llm_complete is not granted to this caller"
        raise AdminError(Code.PERMISSION_DENIED, message, {"capability": "llm_complete"})


def _check(given: LlmCompleteInput, settings: Settings) -> ProviderSettings:
    """Who is asked, if what is asked can be. Where the reference refuses the same, this has its words."""
    for name in ("provider", "model"):
        if not getattr(given, name).strip():
            raise InvalidRequest(name, "is empty")
    provider = settings.provider_named(given.provider)
    models = provider.models
    if models is not None and given.model not in models:
        hint = did_you_mean(given.model, models) or f"; there are {', '.join(models)}"
        raise InvalidRequest("model", f"this provider is not configured for it{hint}")
    if not given.messages and not given.system_prompt:
        raise InvalidRequest("messages", "cannot be empty when system_prompt is also missing")
    if given.max_tokens == 0:
        raise InvalidRequest("max_tokens", "must be at least 1")
    if given.temperature is not None and not (
        math.isfinite(given.temperature) and 0 <= given.temperature <= 2
    ):
        raise InvalidRequest("temperature", "must be in [0, 2]")
    return provider


def _field_of_input(field: str, lifted: int) -> str:
    """The field of the input that a field of its request comes from."""
    field = _RENAMED.get(field, field)
    if (match := _MESSAGE.match(field)) is not None:
        return f"messages[{int(match[1]) + lifted}]{field[match.end() :]}"
    return field if field in _FIELDS else "params"


def _allowance_of(caller: Caller) -> Budget:
    """What a caller may spend while a server runs. Every call counts, replayed ones too: a limit must not
    behave one way in tests and another in life."""
    return Budget(caller.max_calls, caller.max_tokens, refusal=_refusal)


def _refusal(what: str, most: int) -> AdminError:
    hint = "; a smaller max_tokens may fit" if what == "tokens" else ""
    message = f"rate_limited: another call might cross the {most} {what} of this caller{hint}"
    return AdminError(Code.RATE_LIMITED, message, {"limit": what})


def _output_of(response: LlmResponse) -> LlmCompleteResponse:
    usage = LlmUsage()
    if response.usage is not None:
        prompt, completion = response.usage.prompt_tokens, response.usage.completion_tokens
        usage = LlmUsage(prompt, completion, prompt + completion)
    return LlmCompleteResponse(response.text, response.model, usage)
