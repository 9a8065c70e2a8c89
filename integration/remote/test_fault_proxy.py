"""The proxy itself: it changes what it is told to, and else nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta

import httpx
import obstore
import pytest
from obstore.store import S3Store

from cortex_replay.remote.bucket import Bucket
from integration.remote.fault_proxy import FAULTS, FaultProxy, start_fault_proxy, trickle
from tests.servers.s3 import S3Server

DATA = hashlib.sha512(b"seed").digest() * 1000


@pytest.fixture
def proxy(minio: S3Server) -> Iterator[FaultProxy]:
    with start_fault_proxy(minio.endpoint) as started:
        yield started


@pytest.fixture
def bucket(minio: S3Server, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    minio.enter(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    return Bucket.open(f"s3://{minio.new_bucket()}/agents")


def test_what_is_signed_passes(bucket: Bucket, proxy: FaultProxy) -> None:
    """Puts, conditions, gets, listings, deletions."""
    assert bucket.put_new("one", DATA)
    assert not bucket.put_new("one", b"2")
    assert [entry.size for entry in bucket.list("")] == [len(DATA)]
    found = bucket.get("one")
    assert found is not None
    assert found.data == DATA
    bucket.delete(["one"])
    assert bucket.get("one") is None
    assert [line.split()[0] for line in proxy.requests] == ["PUT", "PUT", "GET", "GET", "POST", "GET"]


def test_a_slow_body_is_whole(bucket: Bucket, proxy: FaultProxy) -> None:
    bucket.put_new("one", DATA)
    proxy.add(trickle, "GET")
    found = bucket.get("one")

    assert found is not None
    assert found.data == DATA


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen_by_a_client_that_checks_nothing(
    bucket: Bucket, proxy: FaultProxy, name: str
) -> None:
    """Each one changes what such a client gets, as often as it is told to, and then all is well."""
    bucket.put_new("one", DATA)
    proxy.mend()
    proxy.add(FAULTS[name], "GET", after=1, times=1)
    assert isinstance(bucket.objects, S3Store)
    path = obstore.sign(bucket.objects, "GET", "one", timedelta(minutes=5))
    with httpx.Client(timeout=1, trust_env=False) as client:
        well = client.get(path)
        try:
            broken = client.get(path)
            seen = (broken.status_code, broken.content)
        except httpx.TransportError:
            seen = None
        again = client.get(path)

    assert well.content == DATA
    assert seen != (well.status_code, well.content)
    assert (again.status_code, again.content) == (well.status_code, well.content)
