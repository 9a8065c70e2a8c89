"""The transports of the Python SDK of MCP, which fastmcp and the frameworks of agents stand on, too.

Each is a function that makes an async context manager of a generator. A test may have imported that function
long ago, or called it already; so another generator is put in its place where the context is entered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import _AsyncGeneratorContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cortex_replay.engine.bypass import is_bypassed
from cortex_replay.errors import InvalidRequest
from cortex_replay.interception.transports.active import ACTIVE
from cortex_replay.interception.transports.seam import Replacement, Transport
from cortex_replay.mcp.names import server_behind_shim
from cortex_replay.modes import Mode
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.run.mcp.stdio.shim import shim_command

if TYPE_CHECKING:
    from cortex_replay.interception.mcp.servers import McpServers, Target

__all__ = ["TRANSPORTS"]


def _replacements(names: tuple[str, ...], library: Any) -> Iterable[Replacement]:
    """What is replaced for the first of some functions that the library has; the others call that one."""
    functions = [getattr(library, name) for name in names if hasattr(library, name)]
    if functions:
        gives_session_id = hasattr(library, "GetSessionIdCallback")
        wrap = partial(_enter, [*_layers(functions[0])], gives_session_id)
        yield Replacement(_AsyncGeneratorContextManager, "__aenter__", wrap)


TRANSPORTS: Final = [
    Transport("mcp.client.stdio", partial(_replacements, ("stdio_client",))),
    Transport(
        "mcp.client.streamable_http",
        partial(_replacements, ("streamable_http_client", "streamablehttp_client")),
    ),
    Transport("mcp.client.sse", partial(_replacements, ("sse_client",))),
    Transport("mcp.client.websocket", partial(_replacements, ("websocket_client",))),
]


def _layers(function: Any) -> Iterator[Any]:
    """A function, and those that its decorators wrap."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def _enter(known: list[Any], gives_session_id: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    async def __aenter__(manager: Any) -> Any:  # noqa: N807 - it takes the place of that
        function = getattr(manager, "func", None)
        if ACTIVE and not is_bypassed() and any(function is one for one in known):
            generator = _generator(function, manager.args, manager.kwds, gives_session_id)
            manager.gen = manager.gen if generator is None else generator
        return await original(manager)

    return __aenter__


def _generator(
    function: Any, arguments: tuple[Any, ...], options: dict[str, Any], gives_session_id: bool
) -> Any:
    """What stands in for a transport; ``None`` if its server is left alone.

    Raises:
        InvalidRequest: The client does not run on asyncio.
    """
    active = ACTIVE[-1]
    given: Any = arguments[0] if arguments else options.get("server", options.get("url"))
    target = _target(given)
    if active.mcp is None or (target.url and active.is_allowed(target.authority)):
        return None
    name = active.mcp.name_of(target)
    if name is None or (active.scope.mode is Mode.LIVE and not _is_asyncio()):
        return None
    if target.command:
        shim = server_behind_shim(target.command)
        command = list(target.command) if shim is None else shim[1]  # what it would record is recorded here
        if active.mcp.is_relayed:
            command = shim_command(name, command)
        environment = {key: value for key, value in (given.env or {}).items() if value != DUMMY_KEY}
        changes = {"command": command[0], "args": command[1:], "env": environment or None}
        given = given.model_copy(update=changes)
        arguments = (given, *arguments[1:])
        options = {option: value for option, value in options.items() if option != "server"}
    if active.mcp.is_relayed:
        return function(*arguments, **options)
    if not _is_asyncio():
        raise InvalidRequest(
            "mcp",
            "sessions are recorded and replayed on asyncio only, and this one runs on another loop (trio?). "
            "Run the test on asyncio, or leave its sessions alone: @pytest.mark.llm_replay(mcp=False)",
        )

    def transport() -> Any:
        return asynccontextmanager(function)(*arguments, **options)

    from cortex_replay.interception.mcp.connection import connect  # noqa: PLC0415 - few tests use MCP

    return connect(name, _current, transport, gives_session_id=gives_session_id)


def _target(given: Any) -> Target:
    from cortex_replay.interception.mcp.servers import Target  # noqa: PLC0415 - few tests use MCP

    if isinstance(given, str):
        return Target(url=given)
    if hasattr(given, "command"):
        return Target(command=(given.command, *given.args), folder=str(given.cwd or ""))
    return Target(url=str(given))


def _current() -> McpServers | None:
    """The servers of the test that runs now."""
    return ACTIVE[-1].mcp if ACTIVE else None


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
