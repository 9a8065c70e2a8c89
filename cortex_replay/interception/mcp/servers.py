"""Which MCP servers are ours, what they are called, and who opens sessions with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from cortex_replay.engine.scope import Scope
from cortex_replay.errors import InvalidRequest
from cortex_replay.mcp.names import configured_name, server_behind_shim, server_name, server_name_of_url
from cortex_replay.run import Run

if TYPE_CHECKING:
    from cortex_replay.engine.mcp.link import Connect, SendToClient
    from cortex_replay.engine.mcp.session import Session

__all__ = ["McpChoice", "McpServers", "Target", "check_choice"]

McpChoice = bool | Mapping[str, str | bool]
"""Whether sessions are ours; or, by patterns of a server's name, command or URL, what it is called, and
``False`` if it is left alone."""


_LONGEST_NAME: Final = 128


class Target(NamedTuple):
    """The server that a client wants."""

    command: tuple[str, ...] = ()
    """What starts it, if it is to be started."""
    url: str = ""
    """Where it is, if it is not."""
    folder: str = ""

    @property
    def spelling(self) -> str:
        """All of it, for patterns."""
        return self.url or " ".join(self.command)

    @property
    def authority(self) -> str:
        """The host and the port of a URL."""
        return self.url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]

    @property
    def own_name(self) -> str:
        return server_name_of_url(self.url) if self.url else server_name(self.command)


def check_choice(choice: object) -> McpChoice:
    """A choice that makes sense.

    Raises:
        InvalidRequest: It does not.
    """
    if isinstance(choice, bool):
        return choice
    if isinstance(choice, Mapping) and all(
        isinstance(name, bool) or _is_name(name) for name in choice.values()
    ):
        return {str(pattern): name for pattern, name in choice.items()}
    raise InvalidRequest("mcp", "is True, False, or patterns and names, as in {'*server-git*': 'git'}")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()


class McpServers:
    """The servers that one test asks.

    Args:
        run: Opens sessions, and knows what is configured.
        scope: Whose calls these are; a test's.
        choice: Which servers are ours, and what they are called.
        is_relayed: Whether another process records, which shims find, and not we.
    """

    def __init__(
        self,
        run: Run,
        scope: Scope,
        choice: McpChoice = True,
        *,
        is_relayed: bool = False,
    ) -> None:
        self._run = run
        self._scope = scope
        self._choice = check_choice(choice)
        providers = run.settings.providers.items()
        self._urls = {str(one.base_url).rstrip("/"): name for name, one in providers if one.kind == "mcp"}
        self._configured = {*run.settings.mcp, *self._urls.values()}
        self._names: dict[Target, str] = {}
        self.is_relayed = is_relayed
        self.sessions = 0
        """How many were opened."""

    def name_of(self, target: Target) -> str | None:
        """What a server is called; ``None`` if it is left alone.

        Two servers of one test that would have the same name are told apart by the order in which the test
        opens them.
        """
        if target in self._names:
            return self._names[target]
        name = self._chosen_name(target)
        if isinstance(name, bool):
            if not name:
                return None
            name = self._known_name(target)
            taken = set(self._names.values())
            name = next(one for one in _numbered(name) if one not in taken)
        self._names[target] = name
        return name

    def _chosen_name(self, target: Target) -> str | bool:
        if isinstance(self._choice, bool):
            return self._choice
        texts = (target.own_name, target.spelling)
        for pattern, name in self._choice.items():
            if any(fnmatchcase(text, pattern) for text in texts):
                return name
        return True

    def _known_name(self, target: Target) -> str:
        if target.url:
            configured = self._urls.get(target.url.rstrip("/"))
            return configured or configured_name(target.own_name, self._configured)
        shim = server_behind_shim(target.command)
        return shim[0] if shim is not None else configured_name(target.own_name, self._configured)

    def open_session(self, server: str, connect: Connect, send: SendToClient) -> Session:
        """A session with a server, in the running loop."""
        self.sessions += 1
        return self._run.desk().open_session(server, connect, send, self._scope.name)


def _numbered(name: str) -> Iterator[str]:
    yield name
    for n in count(2):
        yield f"{name}-{n}"
