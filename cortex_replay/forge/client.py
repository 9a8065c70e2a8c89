"""Calls to the API of a forge, with a token that goes nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from cortex_replay.errors import ConfigError, ResponseParse, Transport, Upstream
from cortex_replay.hosts import LOCAL, normal_host
from cortex_replay.strict_json import JsonError, loads

__all__ = ["Client"]

_SECONDS: Final = 30.0
_MAX_BYTES: Final = 32 * 2**20
"""Of one answer: a hundred of the longest comments are a fifth of it."""


class Client:
    """Asks one server. Redirects are not followed: the token would go along.

    Args:
        url: Of the API, as the job's environment says.
        headers: With the token.

    Raises:
        ConfigError: The token would go over the network in the clear.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        is_private = parts.scheme == "https" or normal_host(parts.hostname or "") in LOCAL
        if not parts.hostname or not is_private:
            raise ConfigError("API of the forge", f"{url} is no https:// address; the token was not sent")
        self._url = url.rstrip("/")
        self._headers = {"user-agent": "cortex-replay", **headers}

    def call(self, method: str, path: str = "", body: object = None) -> tuple[Any, Mapping[str, str]]:
        """One call; gives the document and the headers of the answer.

        Raises:
            Transport: The server could not be reached.
            Upstream: It answered with an error.
            ResponseParse: It did not answer with JSON.
        """
        try:
            with (
                httpx.Client(timeout=_SECONDS, headers=self._headers) as client,
                client.stream(method, self._url + path, json=body) as answer,
            ):
                data = _read(answer)
        except httpx.HTTPError as error:
            raise Transport(f"{self._url}: {str(error) or type(error).__name__}") from None
        try:
            document = loads(data)
        except JsonError as error:
            if not answer.is_success:
                raise Upstream(answer.status_code, answer.reason_phrase) from None
            raise ResponseParse(f"{self._url}: {error}") from None
        if not answer.is_success:
            said = document.get("message") if isinstance(document, dict) else None
            raise Upstream(answer.status_code, str(said or answer.reason_phrase))
        return document, answer.headers


def _read(answer: httpx.Response) -> bytes:
    data = bytearray()
    for block in answer.iter_bytes():
        data += block
        if len(data) > _MAX_BYTES:
            raise ResponseParse(f"the answer is longer than {_MAX_BYTES} bytes")
    return bytes(data)
