"""Toxiproxy: a TCP proxy that does to a connection what a bad network does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

import httpx

from integration import install
from tests.servers.process import free_port, running

__all__ = ["Proxy", "Stream", "Toxic", "Toxiproxy", "start_toxiproxy"]

_VERSION: Final = "2.12.0"
_MODULE: Final = "github.com/Shopify/toxiproxy/v2"

Toxic = Literal["bandwidth", "latency", "limit_data", "reset_peer", "slicer", "slow_close", "timeout"]
Stream = Literal["downstream", "upstream"]
"""Towards the client, that is answers, or towards the server, that is requests."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A way to a server, as good as new until something is done to it."""

    url: str
    """What to call instead of the server."""
    _admin: httpx.Client
    _path: str

    def add(self, toxic: Toxic, attributes: Mapping[str, int], stream: Stream = "downstream") -> None:
        """Do something to the connections from now on; once for each kind and direction.

        ``bandwidth``: ``rate`` kB/s. ``latency``: ``latency`` ms, give or take ``jitter``.
        ``limit_data``: close the connection after ``bytes``. ``reset_peer``: reset it ``timeout`` ms
        after it has something to pass on. ``slicer``: pieces of ``average_size`` bytes, give or take
        ``size_variation``, and ``delay`` microseconds between them. ``slow_close``: ``delay`` ms
        before a close is passed on. ``timeout``: pass on nothing, and close after ``timeout`` ms,
        or never if that is 0.
        """
        wanted = {"type": toxic, "stream": stream, "toxicity": 1.0, "attributes": dict(attributes)}
        self._admin.post(f"{self._path}/toxics", json=wanted).raise_for_status()

    def remove(self, toxic: Toxic, stream: Stream = "downstream") -> None:
        self._admin.delete(f"{self._path}/toxics/{toxic}_{stream}").raise_for_status()

    def enable(self, enabled: bool = True) -> None:
        """Or, with ``False``, cut all connections and refuse new ones, as a server that is down does."""
        self._admin.post(self._path, json={"enabled": enabled}).raise_for_status()


@dataclass(frozen=True, slots=True)
class Toxiproxy:
    _admin: httpx.Client

    def before(self, upstream: str) -> Proxy:
        """A proxy of its own, on a free port, before the server with this URL."""
        server = httpx.URL(upstream)
        name = uuid4().hex
        proxy = {"name": name, "listen": "127.0.0.1:0", "upstream": f"{server.host}:{server.port}"}
        created = self._admin.post("/proxies", json=proxy).raise_for_status().json()
        return Proxy(f"{server.scheme}://{created['listen']}", self._admin, f"/proxies/{name}")


@contextmanager
def start_toxiproxy(directory: Path) -> Iterator[Toxiproxy]:
    """A Toxiproxy, until the block ends; takes a folder for its log."""
    program = _built()
    # It does not tell the port it got, so it has to be given one.
    port = free_port()
    command: list[str | Path] = [program, "-host", "127.0.0.1", "-port", str(port)]
    with (
        running(command, directory / "toxiproxy.log") as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as admin,
    ):
        server.when(lambda: _answers(admin) or None)
        yield Toxiproxy(admin)


def _built() -> Path:
    folder = install.once(install.BENCH / "toxiproxy" / _VERSION, _build)
    return folder / "server"


def _build(folder: Path) -> None:
    install.go_install(f"{_MODULE}/cmd/server", _VERSION, folder, version_variable=f"{_MODULE}.Version")


def _answers(admin: httpx.Client) -> bool:
    try:
        answer = admin.get("/version")
    except httpx.TransportError:
        return False
    return answer.is_success and answer.json() == {"version": _VERSION}
