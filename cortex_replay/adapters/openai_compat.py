"""OpenAI, and every server that speaks its wires."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final, Literal, Unpack
from urllib.parse import urlsplit

from cortex_replay.adapters.http import Endpoint, HttpClient
from cortex_replay.adapters.live import LiveAdapter, LiveOptions
from cortex_replay.adapters.secret import read_key
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import PROVIDERS
from cortex_replay.wire import Wire
from cortex_replay.wire.openai_chat import MaxTokensField, openai_chat
from cortex_replay.wire.openai_responses import OPENAI_RESPONSES

__all__ = ["OpenAICompatAdapter", "max_tokens_field_at"]

_OPENAI: Final = PROVIDERS["openai"].base_url


class OpenAICompatAdapter(LiveAdapter):
    """Answers from a server with OpenAI's chat completions or Responses API.

    Args:
        base_url: The server, with ``/v1`` where it has one.
        api_key: The key, if the server wants one. It is never taken from the environment: any server
            may be asked here, and OpenAI's key is for OpenAI.
        api: Which of the two to use.
        max_tokens_field: The name under which chat completions get the limit; by default
            ``max_completion_tokens`` for OpenAI itself, and ``max_tokens`` for all others.
        **options: Those of every live adapter (:class:`LiveOptions`).

    Raises:
        InvalidRequest: An argument makes no sense.
    """

    adapter_id: ClassVar[str] = "openai-compat"

    def __init__(
        self,
        base_url: str = _OPENAI,
        api_key: str | None = None,
        *,
        api: Literal["chat", "responses"] = "chat",
        max_tokens_field: MaxTokensField | None = None,
        **options: Unpack[LiveOptions],
    ) -> None:
        key = None if api_key is None else read_key(api_key)
        del api_key  # a traceback would show it
        if isinstance(key, InvalidRequest):
            raise key
        endpoint = Endpoint(base_url)
        wire, path = _wire_for(endpoint, api, max_tokens_field)
        super().__init__(wire, path, partial(HttpClient, endpoint, key=key, key_prefix="Bearer "), **options)


def _wire_for(endpoint: Endpoint, api: str, max_tokens_field: MaxTokensField | None) -> tuple[Wire, str]:
    if api == "responses":
        return OPENAI_RESPONSES, "/responses"
    if api != "chat":
        raise InvalidRequest("api", f"expected chat or responses, not {api!r}")
    return openai_chat(max_tokens_field_at(endpoint, max_tokens_field)), "/chat/completions"


def max_tokens_field_at(endpoint: Endpoint, given: MaxTokensField | None) -> MaxTokensField:
    """The name under which a server gets the limit, unless one is given."""
    is_openai = endpoint.host == urlsplit(_OPENAI).hostname
    return given or ("max_completion_tokens" if is_openai else "max_tokens")
