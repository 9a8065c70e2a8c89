"""Real S3 servers for the tests of the remote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.remote.servers import SERVERS, start_minio
from tests.servers.s3 import S3Server


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """MinIO, for all tests that need any real server."""
    with start_minio(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session", params=SERVERS)
def any_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    """Each of the servers in turn."""
    with SERVERS[request.param](tmp_path_factory.mktemp("s3")) as server:
        yield server
