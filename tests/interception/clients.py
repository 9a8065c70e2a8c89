"""Clients of every library that is intercepted, each as its users have it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import requests
import urllib3

from tests.gateway.upstream import REAL_KEY

__all__ = ["CLIENTS", "HEADERS", "HTTPX", "OTHERS", "Client", "Got"]

HEADERS = {"x-api-key": REAL_KEY}
Got = tuple[int, bytes]


def _nothing() -> None:
    pass


class Client(Protocol):
    """One kind of client of one library."""

    def post(self, url: str, body: Any) -> Got:
        """Read an answer as a whole."""

    def stream(
        self,
        url: str,
        body: Any,
        pieces: list[bytes],
        most: int = 1000,
        then: Callable[[], None] = _nothing,
    ) -> int:
        """Read an answer as it comes, at most so many pieces of it; gives the status.

        What is to come then happens when the answer was left and the client is still there.
        """


@dataclass(frozen=True)
class HttpxClient:
    """Of httpx or httpx2."""

    library: ModuleType
    is_async: bool

    def __str__(self) -> str:
        return f"{self.library.__name__}-{'async' if self.is_async else 'sync'}"

    def post(self, url: str, body: Any) -> Got:
        if not self.is_async:
            with self.library.Client(headers=HEADERS) as client:
                response = client.post(f"{url}/v1/messages", json=body)
                return response.status_code, response.content

        async def main() -> Got:
            async with self.library.AsyncClient(headers=HEADERS) as client:
                response = await client.post(f"{url}/v1/messages", json=body)
                return response.status_code, response.content

        return asyncio.run(main())

    def stream(
        self,
        url: str,
        body: Any,
        pieces: list[bytes],
        most: int = 1000,
        then: Callable[[], None] = _nothing,
    ) -> int:
        asked: tuple[str, str] = ("POST", f"{url}/v1/messages")
        if not self.is_async:
            with self.library.Client(headers=HEADERS) as client:
                with client.stream(*asked, json=body) as response:
                    for piece in response.iter_raw():
                        pieces.append(piece)
                        if len(pieces) == most:
                            break
                then()
                return int(response.status_code)

        async def main() -> int:
            async with self.library.AsyncClient(headers=HEADERS) as client:
                async with client.stream(*asked, json=body) as response:
                    async for piece in response.aiter_raw():
                        pieces.append(piece)
                        if len(pieces) == most:
                            break
                await asyncio.to_thread(then)
                return int(response.status_code)

        return asyncio.run(main())


class RequestsClient:
    def __str__(self) -> str:
        return "requests"

    def post(self, url: str, body: Any) -> Got:
        with requests.Session() as session:
            response = session.post(f"{url}/v1/messages", json=body, headers=HEADERS, timeout=60)
            return response.status_code, response.content

    def stream(
        self,
        url: str,
        body: Any,
        pieces: list[bytes],
        most: int = 1000,
        then: Callable[[], None] = _nothing,
    ) -> int:
        with requests.Session() as session:
            asked = session.post(f"{url}/v1/messages", json=body, headers=HEADERS, timeout=60, stream=True)
            with asked as response:
                for piece in response.iter_content(chunk_size=None):
                    pieces.append(piece)
                    if len(pieces) == most:
                        break
            then()
            return response.status_code


class Urllib3Client:
    def __str__(self) -> str:
        return "urllib3"

    def post(self, url: str, body: Any) -> Got:
        with urllib3.PoolManager() as pools:
            response = pools.request("POST", f"{url}/v1/messages", json=body, headers=HEADERS)
            return response.status, response.data

    def stream(
        self,
        url: str,
        body: Any,
        pieces: list[bytes],
        most: int = 1000,
        then: Callable[[], None] = _nothing,
    ) -> int:
        with urllib3.PoolManager() as pools:
            response = pools.request(
                "POST", f"{url}/v1/messages", json=body, headers=HEADERS, preload_content=False
            )
            for piece in response.stream():
                pieces.append(piece)
                if len(pieces) == most:
                    break
            response.close()
            then()
            return response.status


class HttpClientClient:
    """As urllib.request uses it; its body is written in pieces."""

    def __str__(self) -> str:
        return "http.client"

    def _ask(self, connection: http.client.HTTPConnection, path: str, body: Any) -> http.client.HTTPResponse:
        data = json.dumps(body).encode()
        connection.request("POST", f"{path}/v1/messages", iter([data[:9], data[9:]]), HEADERS)
        return connection.getresponse()

    def post(self, url: str, body: Any) -> Got:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        with contextlib.closing(connection), self._ask(connection, place.path, body) as response:
            return response.status, response.read()

    def stream(
        self,
        url: str,
        body: Any,
        pieces: list[bytes],
        most: int = 1000,
        then: Callable[[], None] = _nothing,
    ) -> int:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        with contextlib.closing(connection):
            with self._ask(connection, place.path, body) as response:
                while len(pieces) < most and (piece := response.read1()):
                    pieces.append(piece)
            then()
            return response.status


class AiohttpClient:
    def __str__(self) -> str:
        return "aiohttp"

    def post(self, url: str, body: Any) -> Got:
        async def main() -> Got:
            async with (
                aiohttp.ClientSession(headers=HEADERS) as session,
                session.post(f"{url}/v1/messages", json=body) as response,
            ):
                return response.status, await response.read()

        return asyncio.run(main())

    def stream(
        self,
        url: str,
        body: Any,
        pieces: list[bytes],
        most: int = 1000,
        then: Callable[[], None] = _nothing,
    ) -> int:
        async def main() -> int:
            async with aiohttp.ClientSession(headers=HEADERS) as session:
                async with session.post(f"{url}/v1/messages", json=body) as response:
                    async for piece, _ in response.content.iter_chunks():
                        pieces.append(piece)
                        if len(pieces) == most:
                            break
                await asyncio.to_thread(then)
                return response.status

        return asyncio.run(main())


HTTPX: list[Client] = [
    HttpxClient(library, is_async) for library, is_async in product((httpx, httpx2), (False, True))
]
OTHERS: list[Client] = [RequestsClient(), Urllib3Client(), HttpClientClient(), AiohttpClient()]
CLIENTS = [*HTTPX, *OTHERS]
