"""A client of our own that asks a server what it offers, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.mcp.link import ServerLink, words_of
from cortex_replay.errors import Transport
from cortex_replay.mcp.messages import (
    DISCOVER,
    INITIALIZE,
    INITIALIZED,
    METHOD_NOT_FOUND,
    PING,
    VERSION_FIELD,
    Message,
    NotAMessage,
    error_message,
    is_answer,
    is_request,
    messages_in,
    render_message,
    request_id,
)
from cortex_replay.mcp.offers import LISTS

__all__ = ["Page", "Survey", "survey"]

_CLIENT: Final[Mapping[str, JsonValue]] = {"name": "cortex-replay", "version": "1"}
_LEGACY: Final = "2025-11-25"
_MODERN: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_REPLIES: Final[Mapping[str, JsonValue]] = {PING: {}, "roots/list": {"roots": []}}
_MOST_PAGES: Final = 1000
_MOST_BYTES: Final = 32 * 2**20
_MOST_TIMES: Final = 3
"""How often a list is asked for again because the server says that it changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    method: str
    parameters: dict[str, JsonValue]
    result: dict[str, JsonValue]


@dataclass(slots=True)
class Survey:
    """What a server said of itself."""

    pages: list[Page] = field(default_factory=list)
    server: str = ""
    """Its own name and version."""


async def survey(
    link: ServerLink,
    methods: Collection[str],
    handshake: Mapping[str, JsonValue] | None = None,
    *,
    is_modern: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Survey:
    """Ask a server for its lists.

    Args:
        link: The connection, which is closed at the end.
        methods: The lists to ask for.
        handshake: What a recorded client said of itself: some servers offer more to who can do more.
        is_modern: Whether to try first without a handshake.
        tell: Gets what is asked, for who waits.

    Raises:
        Transport: It has ended, or says something that is no answer.
    """
    client = _Client(link, tell)
    try:
        return await client.survey(methods, handshake, is_modern=is_modern)
    finally:
        await client.close()


class _Client:
    """Asks one thing at a time, and answers what a server asks with as little as it can."""

    def __init__(self, link: ServerLink, tell: Callable[[str], None]) -> None:
        self._link = link
        self._tell = tell
        self._count = 0
        self._waiting: tuple[int, asyncio.Future[Message]] | None = None
        self._problem = ""
        self._awaited = {f"notifications/{about.capability}/list_changed" for about in LISTS.values()}
        self._changed: set[str] = set()
        self._size = 0
        self._meta: dict[str, JsonValue] = {}
        self._reader = asyncio.ensure_future(self._read())

    async def survey(
        self, methods: Collection[str], handshake: Mapping[str, JsonValue] | None, *, is_modern: bool
    ) -> Survey:
        found = Survey()
        has = await self._discover(found) if is_modern else None
        if has is None:
            has = await self._greet(found, handshake)
        for method in methods:
            about = LISTS[method]
            if about.capability not in has:  # it has none of them
                found.pages.append(Page(method, {}, {about.field: []}))
                continue
            for _ in range(_MOST_TIMES):
                change = f"notifications/{about.capability}/list_changed"
                self._changed.discard(change)
                pages = await self._list(method)
                if change not in self._changed:
                    break
            found.pages += pages
        return found

    async def _discover(self, found: Survey) -> Mapping[str, JsonValue] | None:
        """What a server can do that needs no handshake; ``None`` if it needs one."""
        self._meta = {
            VERSION_FIELD: _MODERN,
            f"{_META}clientInfo": {**_CLIENT},
            f"{_META}clientCapabilities": {},
        }
        answer = await self._ask(DISCOVER, {})
        result = _table(answer.get("result"))
        if isinstance(capabilities := result.get("capabilities"), dict):
            found.server = _shown(_table(result.get("_meta")).get(f"{_META}serverInfo"))
            return capabilities
        self._meta = {}
        return None

    async def _greet(
        self, found: Survey, handshake: Mapping[str, JsonValue] | None
    ) -> Mapping[str, JsonValue]:
        said: dict[str, JsonValue] = {"protocolVersion": _LEGACY, "capabilities": {}}
        answer = await self._ask(INITIALIZE, {**said, **(handshake or {}), "clientInfo": {**_CLIENT}})
        result = _table(answer.get("result"))
        if isinstance(capabilities := result.get("capabilities"), dict):
            found.server = _shown(result.get("serverInfo"))
            await self._link.send(render_message({"jsonrpc": "2.0", "method": INITIALIZED}))
            return capabilities
        raise Transport(f"the server refuses the handshake: {_words(answer)}")

    async def _list(self, method: str) -> list[Page]:
        pages: list[Page] = []
        cursors: set[str] = set()
        parameters: dict[str, JsonValue] = {}
        while len(pages) < _MOST_PAGES:
            answer = await self._ask(method, parameters)
            result = answer.get("result")
            if not isinstance(result, dict):
                raise Transport(f"the server gives no {method}: {_words(answer)}")
            pages.append(Page(method, parameters, result))
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str):
                return pages
            if cursor in cursors:
                raise Transport(f"the server gives the same page of {method} again and again")
            cursors.add(cursor)
            parameters = {"cursor": cursor}
        raise Transport(f"the server gives more than {_MOST_PAGES} pages of {method}")

    async def _ask(self, method: str, parameters: Mapping[str, JsonValue]) -> Message:
        self._tell(method)
        self._count += 1
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting = self._count, answer
        if self._problem:
            raise Transport(self._problem)
        given = {**parameters, "_meta": self._meta} if self._meta else dict(parameters)
        asked: Message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": given}
        await self._link.send(render_message(asked))
        return await answer

    async def _read(self) -> None:
        problem = "the server has ended before it answered"
        try:
            async for said in self._link.frames():
                if said.problem:
                    problem = said.problem
                    break
                await self._take(said.frame)
        except Transport as error:
            problem = words_of(error)
        self._problem = problem
        if self._waiting is not None and not self._waiting[1].done():
            self._waiting[1].set_exception(Transport(problem))

    async def _take(self, frame: bytes) -> None:
        self._size += len(frame)
        if self._size > _MOST_BYTES:
            raise Transport(f"the server says more than {_MOST_BYTES // 2**20} MB")
        try:
            messages = messages_in(frame)
        except NotAMessage:
            return  # some servers print what is for people
        for message in messages:
            if is_answer(message):
                if self._waiting is not None and request_id(message) == self._waiting[0]:
                    self._waiting[1].set_result(message)
                    self._waiting = None
            elif is_request(message):
                await self._link.send(render_message(_reply(message)))
            elif message.get("method") in self._awaited:
                self._changed.add(str(message["method"]))

    async def close(self) -> None:
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._link.close()


def _reply(message: Message) -> Message:
    about = request_id(message)
    if message["method"] not in _REPLIES:
        return error_message(about, METHOD_NOT_FOUND, "this client only asks for lists")
    return {"jsonrpc": "2.0", "id": about, "result": _REPLIES[str(message["method"])]}


def _table(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _shown(info: JsonValue) -> str:
    match info:
        case {"name": str(name), **rest}:
            version = rest.get("version")
            return f"{name} {version}" if isinstance(version, str) and version else name
    return ""


def _words(answer: Message) -> str:
    match answer:
        case {"error": {"message": str(message), **rest}}:
            return f"{message} ({rest.get('code')})"
    return "its answer is none"
