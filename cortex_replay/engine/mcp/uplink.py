"""A session's way to a real server: it is reached when something has to be asked, and told what it missed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.link import Connect, Said, ServerLink, words_of
from cortex_replay.engine.mcp.past import Past
from cortex_replay.engine.mcp.playback import Answered
from cortex_replay.errors import LlmError, Transport
from cortex_replay.mcp.messages import (
    INITIALIZE,
    METHOD_NOT_FOUND,
    OWN_IDS,
    PING,
    Message,
    NotAMessage,
    error_message,
    is_answer,
    is_request,
    messages_in,
    render_message,
    request_id,
)

__all__ = ["Uplink"]

_PATIENCE_S: Final = 60.0
"""How long a server may take to answer again what it answered when it was recorded."""
_PING_S: Final = 5.0
_MOST_WAITING: Final = 16 * 2**20
"""How many bytes may wait for a server that is being started; then the client waits, too."""


class _Errand(NamedTuple):
    """A frame that waits for the server."""

    frame: bytes
    call: Call | None


class Uplink:
    """Sends frames in the order in which they came.

    Args:
        connect: Starts or reaches the server.
        hear: Takes what it says.
        fail: Is told of a call that it did not get, and why.
        lose: Is told when it has ended, and why.
        is_busy: Whether the server has got calls that it has not answered.
        past: What it has to be told first; ``None`` if it gets everything anyway. With a past, a server that
            has ended is started again when it is needed.
    """

    def __init__(
        self,
        connect: Connect,
        hear: Callable[[Said], Awaitable[None]],
        fail: Callable[[Call, str], Awaitable[None]],
        lose: Callable[[str], Awaitable[None]],
        is_busy: Callable[[], bool],
        past: Past | None,
    ) -> None:
        self._connect = connect
        self._hear = hear
        self._fail = fail
        self._lose = lose
        self._is_busy = is_busy
        self._past = past
        self._link: ServerLink | None = None
        self._errands: deque[_Errand] = deque()
        self._waiting = 0
        self._room = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._told = 0
        """How much of the past the server knows."""
        self._named = 0
        self._is_telling = False
        self._awaited: dict[str, asyncio.Future[Message]] = {}
        self._expected: list[Answered] = []
        """What the client answered then, and the server has not asked again yet."""
        self._end = ""
        self._is_ending = False
        """Whether the server is being ended after it has ended its side."""

    @property
    def is_catching_up(self) -> bool:
        """Whether the server is being told what it missed, and nothing else, so that what it says is old."""
        return self._is_telling and not self._is_busy()

    @property
    def is_open(self) -> bool:
        """Whether there is a server that hears what is sent."""
        return self._link is not None

    async def send(self, frame: bytes, call: Call | None = None) -> None:
        """Have the server get a frame; returns when the next one may come.

        Args:
            frame: Of the client.
            call: What it belongs to; it fails if the server does not get it.

        Raises:
            Transport: The server has ended.
        """
        if self._end:
            raise Transport(self._end)
        if self._link is not None and self._worker is None and self._is_told(call):
            await self._give(self._link, frame, call)
            return
        while self._waiting > _MOST_WAITING:
            self._room.clear()
            await self._room.wait()
            if self._end:
                raise Transport(self._end)
        self._errands.append(_Errand(frame, call))
        self._waiting += len(frame)
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())

    async def close(self) -> None:
        """End the server; nothing more is heard of it."""
        self._end = self._end or "the session has ended"
        self._errands.clear()
        self._waiting = 0
        self._room.set()
        await _stop(self._worker)
        if self._link is not None:
            await self._link.close()
        elif self._is_ending and self._reader is not None:
            await self._reader
        await _stop(self._reader)
        self._link = None

    async def _give(self, link: ServerLink, frame: bytes, call: Call | None) -> None:
        if call is not None:
            call.is_sent = True
            if call.deed is not None:
                self._told = max(self._told, call.deed.number + 1)
        await link.send(frame)

    async def _work(self) -> None:
        try:
            while self._errands:
                try:
                    link = await self._linked()
                except (LlmError, OSError) as error:
                    while self._errands:
                        await self._give_up(self._errands[0], words_of(error))
                    return
                errand = self._errands[0]
                try:
                    await self._catch_up(link, errand.call)
                    await self._give(link, errand.frame, errand.call)
                    self._drop(errand)
                except (LlmError, OSError) as error:
                    await self._give_up(errand, words_of(error))
        finally:
            self._worker = None

    def _drop(self, errand: _Errand) -> None:
        if self._errands and self._errands[0] is errand:
            self._errands.popleft()
            self._waiting -= len(errand.frame)
            self._room.set()

    async def _give_up(self, errand: _Errand, problem: str) -> None:
        self._drop(errand)
        if errand.call is not None:
            await self._fail(errand.call, problem)

    async def _linked(self) -> ServerLink:
        if self._end:
            raise Transport(self._end)
        if self._link is None:
            if self._past is not None and self._past.is_lost:
                raise Transport(
                    "the session is too long for a server that is started now to be told all of it; record "
                    "it anew as a whole, in the mode record"
                )
            link = await self._connect()
            self._link, self._told, self._expected = link, 0, []
            self._reader = asyncio.ensure_future(self._read(link))
        return self._link

    # What the server missed

    def _is_told(self, call: Call | None) -> bool:
        return call is None or call.deed is None or call.deed.number <= self._told

    async def _catch_up(self, link: ServerLink, call: Call | None) -> None:
        """Tell the server what the client has said before a call, and wait until it has answered."""
        if self._past is None or call is None or call.deed is None:
            return
        is_quiet = True
        self._is_telling = True
        try:
            for deed in self._past.between(self._told, call.deed.number):
                self._told = deed.number + 1
                if not deed.is_told:
                    continue
                is_quiet = deed.is_awaited
                self._expected += deed.answers
                answer = await self._tell(link, deed.frames, deed.method if deed.is_awaited else "")
                if deed.method == INITIALIZE and answer is not None and "error" in answer:
                    raise Transport("the server refuses the session that it once agreed to (initialize)")
            if not is_quiet:  # what it says to a notification is old, too: let it be said first
                with contextlib.suppress(Transport):
                    await self._tell(link, _ping, PING, _PING_S)
        finally:
            self._is_telling = False

    async def _tell(
        self,
        link: ServerLink,
        frames: Callable[[str], list[bytes]],
        awaited: str,
        patience_s: float | None = None,
    ) -> Message | None:
        """Send frames of ours, and give the answer.

        Args:
            link: Where to.
            frames: What to send, by the id of a request.
            awaited: The method that is to be answered, if one is.
            patience_s: How long that may take.
        """
        patience_s = _PATIENCE_S if patience_s is None else patience_s
        self._named += 1
        name = f"{OWN_IDS}past-{self._named}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if awaited:
            self._awaited[name] = answer
        try:
            for frame in frames(name):
                await link.send(frame)
            return await asyncio.wait_for(answer, patience_s) if awaited else None
        except TimeoutError:
            raise Transport(
                f"the server was told what the client has said so far, and did not answer {awaited} within "
                f"{patience_s:.0f} seconds"
            ) from None
        finally:
            self._awaited.pop(name, None)

    # What the server says

    async def _read(self, link: ServerLink) -> None:
        problem = "the server has ended"
        try:
            async for said in link.frames():
                if not await self._take_own(link, said):
                    await self._hear(said)
        except (LlmError, OSError) as error:
            problem = words_of(error)
        self._link = None
        if self._past is None:
            self._end = problem
        for answer in self._awaited.values():
            if not answer.done():
                answer.set_exception(
                    Transport(f"{problem}, when it was told what the client has said so far")
                )
        await self._lose(problem)
        self._is_ending = True
        with contextlib.suppress(LlmError, OSError):
            await link.close()

    async def _take_own(self, link: ServerLink, said: Said) -> bool:
        """Take what belongs to the past, and is not for the client."""
        if not self._is_telling and not self._expected:
            return False
        if said.problem:
            return self._settle(said.about, error_message(None, 0, said.problem))
        try:
            [message] = messages_in(said.frame)
        except (NotAMessage, ValueError):
            return False
        if is_answer(message):
            return self._settle(request_id(message), message)
        if is_request(message):
            return await self._answer(link, message)
        return self.is_catching_up

    def _settle(self, name: object, message: Message) -> bool:
        answer = self._awaited.get(name) if isinstance(name, str) else None
        if answer is not None and not answer.done():
            answer.set_result(message)
        return answer is not None

    async def _answer(self, link: ServerLink, message: Message) -> bool:
        """Answer the server what the client answered then."""
        method, parameters, about = message["method"], message.get("params"), request_id(message)
        found = [known for known in self._expected if known.method == method]
        exact = [known for known in found if known.parameters == parameters]
        if self.is_catching_up and method == PING:
            outcome: Message = {"result": {}}
        elif exact or (found and self.is_catching_up):
            known = (exact or found)[0]
            self._expected.remove(known)
            outcome = known.outcome
        elif self.is_catching_up:
            outcome = error_message(about, METHOD_NOT_FOUND, "cortex-replay: the client is not asked again")
        else:
            return False
        await link.send(render_message({"jsonrpc": "2.0", "id": about, **outcome}))
        return True


def _ping(name: str) -> list[bytes]:
    return [render_message({"jsonrpc": "2.0", "id": name, "method": PING})]


async def _stop(task: asyncio.Task[None] | None) -> None:
    if task is not None and task is not asyncio.current_task():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
