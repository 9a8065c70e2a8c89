"""A small client for the admin RPC, of the standard library alone."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

import orjson

from cortex_replay.adapters.secret import read_key
from cortex_replay.admin.errors import AdminError
from cortex_replay.admin.values import METHOD, LlmChatMessage, LlmCompleteInput, LlmCompleteResponse
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest, ResponseParse, Timeout, Transport, Upstream
from cortex_replay.strict_json import JsonError, loads

__all__ = ["AdminClient"]

_PATH: Final = "/rpc"
_MAX_BYTES: Final = 64 * 2**20


class AdminClient:
    """Asks a gateway that holds the keys.

    Each call has a connection of its own, so a client may be used from any number of threads. Redirects
    are not followed, and no proxy is used: the token goes to the server that was named.

    Args:
        url: The gateway, such as ``http://127.0.0.1:8089``; with a path, that path is called, else ``/rpc``.
        token: The caller's token.
        timeout_s: How long the server may be silent.

    Raises:
        InvalidRequest: The URL or the token cannot be one.
    """

    def __init__(self, url: str, token: str, timeout_s: float = 120.0) -> None:
        self._url = _read_url(url)
        key = read_key(token)
        del token  # a traceback with local variables would show it
        if isinstance(key, InvalidRequest):
            raise InvalidRequest("token", key.reason)
        self._token = key
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"AdminClient({self._url.scheme}://{self._url.netloc})"

    def complete(
        self,
        provider: str,
        model: str,
        messages: str | Sequence[LlmChatMessage | Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        system_prompt: str | None = None,
    ) -> LlmCompleteResponse:
        """Ask a model; a text alone is one message of the user's.

        Raises:
            InvalidRequest: An argument cannot be sent.
            AdminError: The server answered with an error; ``code`` and ``data`` say which.
            Upstream: Something that does not speak JSON-RPC answered with an error status.
            Transport, Timeout, ResponseParse: There was no answer, or none that can be read.
        """
        if isinstance(messages, str):
            messages = [LlmChatMessage("user", messages)]
        given = LlmCompleteInput(provider, model, messages, max_tokens, temperature, system_prompt)
        params = orjson.Fragment(given.to_json())
        call = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params})
        status, body = self._post(call)
        try:
            return LlmCompleteResponse.from_dict(_result(status, body))
        except InvalidRequest as error:
            raise ResponseParse(f"{error.field}: {error.reason}") from None

    def _post(self, body: bytes) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Authorization": f"Bearer {self._token.reveal()}",
        }
        try:
            connection.request("POST", self._url.path, body, headers)
            response = connection.getresponse()
            data = response.read(_MAX_BYTES + 1)
        except TimeoutError:
            raise Timeout(int(self._timeout_s * 1000)) from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise Transport(f"{self._url.netloc}: {type(error).__name__}") from None
        finally:
            connection.close()
        if len(data) > _MAX_BYTES:
            raise ResponseParse(f"the answer is larger than {_MAX_BYTES} bytes")
        return response.status, data

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)


def _read_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        is_url = False
    if not is_url or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidRequest("url", "expected an http or https URL")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidRequest("url", "must not hold a user name, a password, a query or a fragment")
    return parts if parts.path.strip("/") else parts._replace(path=_PATH)


def _result(status: int, body: bytes) -> JsonValue:
    """What a server's answer says.

    Raises:
        AdminError: It says an error.
        Upstream, ResponseParse: It is no answer to a call.
    """
    try:
        answer = loads(body)
    except JsonError:
        answer = None
    if isinstance(answer, dict) and answer.get("jsonrpc") == "2.0":
        error = answer.get("error")
        if isinstance(error, dict):
            code, data = error.get("code"), error.get("data")
            if isinstance(code, int):
                shown = cast("dict[str, Any]", data) if isinstance(data, dict) else None
                raise AdminError(code, str(error.get("message", "")), shown)
        elif "result" in answer:
            return answer["result"]
    if status >= 300:
        raise Upstream(status, "this is no answer of an admin RPC")
    raise ResponseParse("this is no answer of an admin RPC")
