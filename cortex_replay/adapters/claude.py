"""Claude, and whatever else speaks the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from cortex_replay.adapters.http import Endpoint, HttpClient
from cortex_replay.adapters.live import LiveAdapter
from cortex_replay.adapters.secret import key_in_environment, read_key
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import ANTHROPIC_VERSION, KINDS, PROVIDERS
from cortex_replay.redact import Sensitivity
from cortex_replay.redact.sensitivity import SensitivityLevel
from cortex_replay.types import LlmRequest
from cortex_replay.wire import ANTHROPIC_MESSAGES

__all__ = ["ClaudeAdapter"]

_CLAUDE: Final = PROVIDERS["claude"]


class ClaudeAdapter(LiveAdapter):
    """Answers from Anthropic's Messages API.

    Args:
        api_key: The key; ``CORTEX_CLAUDE_API_KEY``, else ``ANTHROPIC_API_KEY``, unless given.
        base_url: The server, without ``/v1``.
        version: The ``anthropic-version`` header.
        betas: What goes into ``anthropic-beta``.
        allow_latest: Take models with ``latest`` in their name. Such a name means another model
            tomorrow, and a recording would not say which one answered.
        also_send: Parameters that no key covers because no model sees them, such as ``metadata``.
        max_sensitivity: The highest label that may be sent (:mod:`cortex_replay.redact`).
        max_retries: How often to try again after 429, 5xx and broken connections.
        max_body_bytes: The largest answer, decoded.

    Raises:
        InvalidRequest: There is no key, or an argument makes no sense.
    """

    adapter_id: ClassVar[str] = "claude"

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str = _CLAUDE.base_url,
        version: str = ANTHROPIC_VERSION,
        betas: tuple[str, ...] = (),
        allow_latest: bool = False,
        also_send: Mapping[str, JsonValue] | None = None,
        max_sensitivity: Sensitivity | SensitivityLevel = Sensitivity.MEDIUM,
        max_retries: int = 2,
        max_body_bytes: int = 64 * 2**20,
    ) -> None:
        key = key_in_environment(*_CLAUDE.key_variables) if api_key is None else read_key(api_key)
        del api_key  # a traceback would show it
        if isinstance(key, InvalidRequest):
            raise key
        self._allows_latest = allow_latest
        self._endpoint = Endpoint(base_url)
        headers = {"anthropic-version": version}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        http = HttpClient(
            self._endpoint,
            headers=headers,
            key=key,
            key_header=KINDS["claude"].key_header[0],
            max_retries=max_retries,
            max_body_bytes=max_body_bytes,
        )
        super().__init__(ANTHROPIC_MESSAGES, http, "/v1/messages", max_sensitivity, also_send)

    def _check(self, request: LlmRequest) -> None:
        if "latest" in request.model.lower() and not self._allows_latest:
            reason = (
                "names no fixed model, so a recording would not say what answered; allow_latest permits it"
            )
            raise InvalidRequest("model", reason)
        if request.max_tokens is None:
            raise InvalidRequest("max_tokens", "Claude needs a limit")
