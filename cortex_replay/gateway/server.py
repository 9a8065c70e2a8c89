"""The gateway as a server: an engine behind doors, on a socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.faults import Faults
from cortex_replay.faults.tools import strike_by
from cortex_replay.gateway.access import RPC_PATH, Access, hosts_of
from cortex_replay.gateway.app import App
from cortex_replay.gateway.control import CONTROL
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.protocol import Protocol
from cortex_replay.gateway.serving import Serving, bind_socket, server_for
from cortex_replay.gateway.visits import Visit
from cortex_replay.modes import Mode
from cortex_replay.run import Run

if TYPE_CHECKING:
    from cortex_replay.gateway.authority import Authority
    from cortex_replay.gateway.mcp.door import Door
    from cortex_replay.gateway.proxy import Proxy, ProxyRules
    from cortex_replay.gateway.rpc import Rpc

__all__ = ["Gateway"]

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_INSTANT: Final = Pace()


class Gateway(Serving):
    """A server for one run.

    Args:
        run: Who answers.
        host: Where to listen; anything but loopback needs ``allow_remote``.
        port: 0 for a free one.
        pace: How fast recorded streams are replayed.
        token: What clients have to bring where the gateway can make a live call or be reached from
            elsewhere, and whoever wants to control it always; by default a new one for every gateway. With
            one of your own, clients in replay have to bring it, too.
        allow_remote: Whether to listen where other machines can reach it.
        allowed_hosts: Further names by which clients may call it, with their port.
        max_body: The largest body that is read.
        faults: What is to go wrong.
        rpc: Who answers ``/rpc``, if anybody does.
        proxy: What a proxy before it does, if there is one.
    """

    def __init__(
        self,
        run: Run,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace = _INSTANT,
        token: str | None = None,
        allow_remote: bool = False,
        allowed_hosts: Sequence[str] = (),
        max_body: int = 32 * 2**20,
        faults: Faults | None = None,
        rpc: Rpc | None = None,
        proxy: ProxyRules | None = None,
    ) -> None:
        is_local = host in _LOOPBACK
        if not is_local and not allow_remote:
            raise InvalidRequest(
                "host", "other machines could reach it there; --allow-remote says that they may"
            )
        self._is_open_in_replay = not token and is_local
        self.run = run
        self._engine = run.engine()
        self.token = token or secrets.token_hex(32)
        caller = None if rpc is None else rpc.callers.by_token(self.token)
        if caller is not None:
            reason = f"is also that of the caller {caller.name}, who could then do everything; take another"
            raise InvalidRequest("token", reason)
        self._authority = _authority_for(proxy)
        self._socket = bind_socket(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        names = [*hosts_of(host, self.port), *allowed_hosts]
        self._access = Access(names, self.token, is_open=self._is_open, has_rpc=rpc is not None)
        self.faults = faults or Faults()
        run.call_rules.add_faults(strike_by(self.faults))
        self._rpc = rpc
        self._app = App(self._engine, self._access, pace, self.faults, rpc, max_body, door=self._door)
        self._server = server_for(self._app, max_body)
        self._server.on_shutdown = self._app.end_streams
        self._proxy: Proxy | None = None
        if proxy is not None:
            from cortex_replay.gateway.proxy import Proxy  # noqa: PLC0415 - a server alone has none

            own = self.host, self.port
            self._proxy = Proxy(proxy, own, self, bind_socket("127.0.0.1", 0), self._authority)

    def protocol(self, visit: Visit, first: bytes = b"") -> asyncio.Protocol:
        """Who speaks HTTP on a connection that came through the proxy."""
        protocol = Protocol(self._server.config, self._server.server_state, {}, asyncio.get_running_loop())
        protocol.visit, protocol.first = visit, first
        return protocol

    @property
    def certificate(self) -> bytes | None:
        """The certificate, as PEM, of the authority that clients behind the proxy have to trust."""
        return None if self._authority is None else self._authority.certificate

    def proxy_url(self, scope: str = "") -> str | None:
        """What a client's proxy variable holds, token and all; ``None`` where there is no proxy."""
        return None if self._proxy is None else self._proxy.url(scope)

    def url(self, upstream: str = "", scope: str = "") -> str:
        """The base URL for clients of an upstream, with the scope in it, and the token where it is needed.

        ``-`` is the gateway itself, for ``/-/faults`` and ``/-/ledger``.
        """
        needs_token = not self._is_open(scope) or upstream == CONTROL.strip("/")
        parts = [f"t-{self.token}"] if needs_token else []
        parts += [f"s-{quote(scope, safe='')}"] if scope else []
        parts += [upstream] if upstream else []
        return "/".join([self._origin, *parts])

    @property
    def rpc_url(self) -> str | None:
        """Where callers come in, each with its own token; ``None`` if there are none."""
        return None if self._rpc is None else self._origin + RPC_PATH

    @property
    def _origin(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}"

    def _is_open(self, scope: str) -> bool:
        """Whether clients of providers need no token: all they can get is a recording."""
        return self._is_open_in_replay and self.run.scope(scope).mode is Mode.REPLAY

    def _door(self) -> Door:
        # Most gateways see no MCP client.
        from cortex_replay.gateway.mcp.door import Door  # noqa: PLC0415

        return Door(self.run.desk())

    def set_faults(self, scope: str, faults: Faults | None) -> None:
        """Let a scope have faults of its own, or those of all again."""
        self._app.set_faults(scope, faults)

    async def serve(self) -> None:
        """Serve until somebody stops it."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(self._socket.close)  # the server does not, if it is stopped as it starts
                if self._proxy is not None:
                    await stack.enter_async_context(self._proxy.serving())
                await self._server.serve(sockets=[self._socket])
        finally:
            await self._app.aclose()
            await self._engine.aclose()
            if self._rpc is not None:
                await self._rpc.aclose()

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self._app.is_closing = True
        super().stop()


def _authority_for(rules: ProxyRules | None) -> Authority | None:
    """Who signs for the hosts of models, where a proxy speaks for any.

    Raises:
        ConfigError: There is nothing to sign with.
    """
    if rules is None or rules.models is None:
        return None
    try:
        from cortex_replay.gateway.authority import Authority  # noqa: PLC0415 - not installed for everybody
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        reason = "needs the package cryptography: pip install 'cortex-replay[proxy]'"
        raise ConfigError("proxy", reason) from None
    return Authority(rules.models.patterns)
