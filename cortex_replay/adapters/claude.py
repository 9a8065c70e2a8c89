"""Claude, and whatever else speaks the Messages API."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final, Unpack

from cortex_replay.adapters.http import Endpoint, HttpClient
from cortex_replay.adapters.live import LiveAdapter, LiveOptions
from cortex_replay.adapters.secret import key_in_environment, read_key
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import ANTHROPIC_VERSION, KINDS, PROVIDERS
from cortex_replay.types import LlmRequest
from cortex_replay.wire.anthropic import ANTHROPIC_MESSAGES

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
        **options: Those of every live adapter (:class:`LiveOptions`).

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
        **options: Unpack[LiveOptions],
    ) -> None:
        key = key_in_environment(*_CLAUDE.key_variables) if api_key is None else read_key(api_key)
        del api_key  # a traceback would show it
        if isinstance(key, InvalidRequest):
            raise key
        self._allows_latest = allow_latest
        headers = {"anthropic-version": version}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        key_header = KINDS["claude"].key_header[0]
        client = partial(HttpClient, Endpoint(base_url), headers=headers, key=key, key_header=key_header)
        super().__init__(ANTHROPIC_MESSAGES, "/v1/messages", client, **options)

    def _check(self, request: LlmRequest) -> None:
        if "latest" in request.model.lower() and not self._allows_latest:
            reason = (
                "names no fixed model, so a recording would not say what answered; allow_latest permits it"
            )
            raise InvalidRequest("model", reason)
        if request.max_tokens is None:
            raise InvalidRequest("max_tokens", "Claude needs a limit")
