"""Clients that reach a gateway through its proxy."""

from __future__ import annotations

import base64
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

import httpx

from cortex_replay.config import Settings
from cortex_replay.engine.http.model_hosts import ModelHosts
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.proxy import ProxyRules
from cortex_replay.run import Run

__all__ = ["ask", "authorization", "client_of", "own_url", "proxy_address", "rules_for", "trusting"]


def rules_for(run: Run | None = None, *hosts: str, **options: Any) -> ProxyRules:
    """Rules that speak for the hosts of models."""
    run = run or Run(Settings(), "live")
    return ProxyRules(ModelHosts(run.engine().upstreams, hosts), **options)


def own_url(gateway: Gateway, scope: str = "") -> str:
    """The URL of a gateway's proxy."""
    url = gateway.proxy_url(scope)
    assert url is not None
    return url


def proxy_address(gateway: Gateway) -> tuple[str, int]:
    """Where a gateway's proxy listens."""
    parts = urlsplit(own_url(gateway))
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def authorization(gateway: Gateway, user: str = "cortex-replay") -> str:
    """The header that lets a command through."""
    password = urlsplit(own_url(gateway)).password
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def trusting(gateway: Gateway) -> ssl.SSLContext:
    """A context that trusts the gateway's authority and no other."""
    assert gateway.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=gateway.certificate.decode())
    return context


def client_of(gateway: Gateway, scope: str = "") -> httpx.Client:
    """A client that knows the proxy, as a command does."""
    return httpx.Client(proxy=own_url(gateway, scope), verify=trusting(gateway), trust_env=False, timeout=60)


def ask(gateway: Gateway, head: str, *, more: bytes = b"") -> bytes:
    """The first bytes of what the proxy answers to bytes."""
    with socket.create_connection(proxy_address(gateway), timeout=60) as connection:
        connection.sendall(head.encode("latin-1") + more)
        return connection.recv(4096)
