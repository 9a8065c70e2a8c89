"""What each S3 server really does with conditions: the table of docs/sharing.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

import pytest

from cortex_replay.remote.bucket import Bucket
from tests.servers.s3 import S3Server

WRITERS: Final = 8
ROUNDS: Final = 20
CARELESS: Final = {"s3s-fs"}
"""They look, and then write."""


@pytest.fixture
def bucket(any_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    any_server.enter(monkeypatch)
    return Bucket.open(f"s3://{any_server.new_bucket()}/agents")


def winners(put: Callable[[int, int], bool]) -> Counter[int]:
    """How many of several writers succeed at once, counted over some rounds."""
    together = Barrier(WRITERS)

    def write(round_: int, number: int) -> bool:
        together.wait()
        return put(round_, number)

    with ThreadPoolExecutor(WRITERS) as pool:
        rounds = [list(pool.map(write, [round_] * WRITERS, range(WRITERS))) for round_ in range(ROUNDS)]
    return Counter(map(sum, rounds))


def test_one_after_the_other_every_server_keeps_conditions(bucket: Bucket) -> None:
    """So a probe that puts twice, one after the other, tells nothing."""
    assert bucket.put_new("one", b"1")
    assert not bucket.put_new("one", b"2")
    seen = bucket.get("one")
    assert seen is not None
    assert bucket.put_over("one", b"3", seen.version)
    assert not bucket.put_over("one", b"4", seen.version)
    assert not bucket.put_over("none", b"5", seen.version)
    now = bucket.get("one")
    assert now is not None
    assert now.data == b"3"


def test_of_many_creators_one_wins(bucket: Bucket, any_server: S3Server) -> None:
    counted = winners(lambda round_, number: bucket.put_new(f"round-{round_}", b"%d" % number))

    assert (max(counted) > 1) == (any_server.name in CARELESS), counted
    assert min(counted) >= 1


def test_of_many_that_put_over_a_version_one_wins(bucket: Bucket, any_server: S3Server) -> None:
    versions = []
    for number in range(ROUNDS):
        bucket.put_new(f"round-{number}", b"start")
        seen = bucket.get(f"round-{number}")
        assert seen is not None
        versions.append(seen.version)
    counted = winners(
        lambda round_, number: bucket.put_over(f"round-{round_}", b"%d" % number, versions[round_])
    )

    assert (max(counted) > 1) == (any_server.name in CARELESS), counted
    assert min(counted) >= 1


def test_a_version_comes_from_the_content(bucket: Bucket) -> None:
    """On every one of them: who renews a lease has to write other bytes."""
    bucket.put_new("one", b"same")
    bucket.put_new("two", b"same")
    one, two = bucket.get("one"), bucket.get("two")

    assert one is not None
    assert two is not None
    assert one.version == two.version
