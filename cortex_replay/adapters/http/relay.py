"""Somebody else's requests, passed on with our key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http.connections import Connections
from cortex_replay.errors import InvalidRequest
from cortex_replay.redact.known_values import KNOWN
from cortex_replay.redact.redactor import Redactor

if TYPE_CHECKING:
    from cortex_replay.adapters.http.sockets import UpgradeRefused, UpstreamSocket

__all__ = ["RelayClient", "RelayReply", "ReplyBody"]

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"(?![ \t])[^\0\r\n\u0100-\U0010ffff]*+(?<![ \t])")
_MOST_SHOWN: Final = 80


class ReplyBody(Protocol):
    """The body of an answer as it comes."""

    @property
    def content_type(self) -> str: ...

    async def read(self) -> bytes:
        """The next bytes; none at the end."""

    async def read_all(self) -> bytes: ...

    async def aclose(self) -> None: ...


class RelayReply(NamedTuple):
    """Whatever a server answered, its body still to come."""

    status: int
    headers: list[tuple[str, str]]
    body: ReplyBody


class RelayClient(Connections):
    """Passes requests on to one server. Whoever asked tries again."""

    async def relay(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes, deadline: Deadline
    ) -> RelayReply:
        """What the server answers, good or bad.

        Args:
            method: Of the request.
            target: Its path, with the query.
            headers: All of them but the key, which takes the place of the same header.
            body: May be empty.
            deadline: For all of it.

        Raises:
            InvalidRequest: The target leads away from the base URL, or a header is none.
            Transport, Timeout: See :meth:`ByteStream.read`.
        """
        encoded = [_encode(name, value) for name, value in headers]
        if not any(name == b"accept-encoding" for name, _ in encoded):  # unless a signature covers it
            encoded.append((b"accept-encoding", b"identity"))
        is_ours = {"cortex_replay": True}  # not to be intercepted on its own way out
        response, stream = await self._send(method, target, encoded, body, deadline, is_ours)
        answered = stream.headers
        if self._redactor is not None:  # whoever asked is meant to hold no key, and a server may repeat it
            answered = [(name, self._redactor.text(value)[0]) for name, value in answered]
        return RelayReply(response.status_code, answered, stream)

    async def open_socket(
        self,
        target: str,
        headers: Sequence[tuple[str, str]],
        subprotocols: Sequence[str],
        deadline: Deadline,
    ) -> UpstreamSocket | UpgradeRefused:
        """A WebSocket, or what the server answered instead; see :meth:`relay` for the arguments.

        Raises:
            InvalidRequest: The target leads away from the base URL.
            Transport, Timeout: The server could not be reached, or not in time.
        """
        from cortex_replay.adapters.http.sockets import open_socket  # noqa: PLC0415 - most calls are HTTP

        await self.take_turn(deadline)
        sent = list(headers)
        if self._key is not None:
            sent = [(name, value) for name, value in sent if name != self._key_header]
            sent.append((self._key_header, self._key_prefix + self._key.reveal()))
        return await open_socket(self._endpoint, target, sent, subprotocols, deadline, self._max_body_bytes)

    @cached_property
    def _redactor(self) -> Redactor | None:
        secrets = self._secrets
        return Redactor(secrets, only=[KNOWN]) if secrets else None


def _encode(name: str, value: str) -> tuple[bytes, bytes]:
    """A header as it is sent. What is wrong with it is told without its value, which may be a key."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest("headers", f"{name[:_MOST_SHOWN]!r} is not the name of a header")
    if not _VALUE.fullmatch(value):
        raise InvalidRequest("headers", f"the value of {name[:_MOST_SHOWN]} has what no header can carry")
    return name.encode("latin-1"), value.encode("latin-1")
