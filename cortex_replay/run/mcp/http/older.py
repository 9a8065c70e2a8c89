"""The older HTTP transport of MCP: a stream over which everything comes, and an endpoint that it names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from cortex_replay.config.servers import server_of
from cortex_replay.errors import LlmError, Transport
from cortex_replay.mcp.events import EventReader
from cortex_replay.mcp.headers import EVENT_STREAM
from cortex_replay.run.mcp.http.answers import Refusal, problem_of, read_start

if TYPE_CHECKING:
    from cortex_replay.adapters.http import RelayReply

__all__ = ["listen"]


async def listen(
    stream: AbstractAsyncContextManager[RelayReply],
    url: str,
    named: asyncio.Future[str],
    take: Callable[[bytes | LlmError], Awaitable[None]],
    most_bytes: int,
) -> None:
    """Read the stream to its end, which is that of the session.

    Args:
        stream: What the server answers to a GET.
        url: Where that was sent.
        named: Gets the endpoint, as a target at the same server; or why there is none.
        take: Takes each message, and at the end why it ended.
        most_bytes: The largest event.
    """
    problem: LlmError = Transport("the server has ended its stream, and with it the session")
    try:
        async with stream as reply:
            if not 200 <= reply.status < 300 or reply.body.content_type != EVENT_STREAM:
                raise Refusal(problem_of(reply, await read_start(reply.body)), reply.status)
            reader = EventReader(most_bytes)
            while data := await reply.body.read():
                for event in reader.feed(data):
                    if event.name == "endpoint" and not named.done():
                        named.set_result(_target_of(event.data, url))
                    elif event.name == "message" and event.data:
                        await take(event.data)
    except LlmError as error:
        problem = error
    if named.done():
        await take(problem)
    else:
        named.set_exception(problem)


def _target_of(given: bytes, url: str) -> str:
    """Where messages go, which must be at the same server.

    Raises:
        Transport: It is elsewhere, or nowhere.
    """
    try:
        endpoint = urljoin(url, given.decode("utf-8", "replace"))
    except ValueError:
        raise Transport("the server names an endpoint that is no URL") from None
    there, here = (server_of(one.partition("?")[0]) for one in (endpoint, url))
    if here is None or there != here:
        raise Transport("the server names an endpoint on another server; nothing was sent there")
    parts = urlsplit(endpoint)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
