"""A client that speaks over standard streams, which the shim has handed over or which are our own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from cortex_replay.engine.mcp.link import Outgoing
from cortex_replay.engine.mcp.session import Session
from cortex_replay.mcp.messages import PARSE_ERROR, error_message, render_message
from cortex_replay.redact.process import learn_secret
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.frames import FrameReader, FrameTooLarge, FrameWriter
from cortex_replay.run.mcp.stdio.process import ProcessLink
from cortex_replay.secret_names.values import secrets_in

__all__ = ["StdioClient", "problem_of_name", "serve_client"]

_MOST_NAME = 128
_LAST_ANSWERS_S = 1.0
"""How long a client that says nothing more may wait for answers. Clients kill a server after two seconds."""


@dataclass(frozen=True)
class StdioClient:
    """Who wants to speak with a server, and how that one is started."""

    server: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """The client's, as the shim has it: that is what the server gets."""
    folder: str | None = None
    scope: str = ""
    streams: tuple[int, int, int] = (0, 1, 2)


def problem_of_name(name: str) -> str | None:
    """Why a server cannot be called so, if it cannot."""
    if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        return f"a server's name has 1 to {_MOST_NAME} printable characters"
    return None


async def serve_client(
    desk: Desk, client: StdioClient, leaving: Awaitable[object], note: Callable[[int, bool], None]
) -> None:
    """Serve a client until it closes its end, or has to leave.

    Args:
        desk: Opens the session.
        client: Who it is.
        leaving: Comes back when the session has to end.
        note: Is told the process group of each server that is started, and of each that has ended.
    """
    for name, value in client.environment.items():
        for secret in secrets_in(name, value):
            learn_secret(secret.strip())
    reading, writing, errors = client.streams
    links: list[ProcessLink] = []
    reader, writer = FrameReader(reading), FrameWriter(writing)

    async def connect() -> ProcessLink:
        link = await ProcessLink.start(client.command, client.environment, client.folder, errors, note)
        links.append(link)
        return link

    async def send(out: Outgoing) -> None:
        with contextlib.suppress(OSError):  # it has left; its end of the other stream says so, too
            await writer.write(out.frame, is_cut=out.closes)
        if out.closes:
            reader.close()

    session = desk.open_session(client.server, connect, send, client.scope)
    listening = asyncio.ensure_future(_listen(session, reader, writer))
    left = asyncio.ensure_future(leaving)
    try:
        await asyncio.wait([listening, left], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if left.done():  # a signal, not the end of its input: nothing is waited for
            for link in links:
                link.hurry()
        for task in (listening, left):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task
        reader.close()
        await session.close()
        for link in links:
            await link.close()
        writer.close()


async def _listen(session: Session, reader: FrameReader, writer: FrameWriter) -> None:
    """Take what the client says, one frame after the other."""
    try:
        async for frame in reader.frames():
            await session.take(frame)
    except FrameTooLarge as error:
        said = error_message(None, PARSE_ERROR, f"cortex-replay: the frame cannot be taken: {error}")
        await writer.write(render_message(said))
    await session.finish(_LAST_ANSWERS_S)
