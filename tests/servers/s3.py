"""S3 servers that tests ask: what they need to be reached, and moto, which runs in this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import httpx
import pytest

__all__ = ["ACCESS_KEY", "SECRET_KEY", "S3Server", "put_bucket", "start_moto"]

ACCESS_KEY: Final = "AKIATESTSOFREPLAY000"
SECRET_KEY: Final = "not-a-secret-of-anyone"
_CLOUD: Final = ("AWS_", "AZURE_", "GOOGLE_", "S3_")


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server, and how to get an empty bucket of it."""

    name: str
    endpoint: str
    make_bucket: Callable[[str], None]
    """Makes the bucket of a name, by whatever road the server has for it."""
    data: Path | None = None
    """Where its buckets are, if they are folders."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1), repr=False)

    def new_bucket(self) -> str:
        """The name of a bucket that no test has seen yet."""
        name = f"team-{next(self._numbers)}"
        self.make_bucket(name)
        return name

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of a client says."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """An environment in which this server is the only cloud."""
        return {name: value for name, value in base.items() if not _is_of_a_cloud(name)} | self.variables

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Make this process's environment one in which this server is the only cloud."""
        for name in filter(_is_of_a_cloud, list(os.environ)):
            patch.delenv(name)
        for name, value in self.variables.items():
            patch.setenv(name, value)


def _is_of_a_cloud(variable: str) -> bool:
    return variable.upper().startswith(_CLOUD)


def put_bucket(endpoint: str) -> Callable[[str], None]:
    """Makes buckets at a server that asks nobody for a signature."""

    def make(name: str) -> None:
        httpx.put(f"{endpoint}/{name}", trust_env=False).raise_for_status()

    return make


@contextmanager
def start_moto() -> Iterator[S3Server]:
    """moto, on threads of this process, until the block ends; it takes any signature."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - a third of a second, for those who need it

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would tell of each request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        yield S3Server("moto", endpoint, put_bucket(endpoint))
    finally:
        server.stop()
        assert server._server is not None
        server._server.server_close()  # which it leaves to the garbage collector
