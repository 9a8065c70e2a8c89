"""A bucket over S3: the conditions that a fleet relies on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from cortex_replay.remote.bucket import Bucket

WRITERS = 8


def test_of_many_that_create_an_object_one_does(s3_url: str) -> None:
    """And what it wrote is what all of them read."""
    bucket = Bucket.open(s3_url)
    together = Barrier(WRITERS)

    def create(number: int) -> bool:
        together.wait()
        return bucket.put_new("claim", f"worker {number}".encode())

    with ThreadPoolExecutor(WRITERS) as workers:
        won = list(workers.map(create, range(WRITERS)))

    found = bucket.get("claim")
    assert found is not None
    assert (sum(won), found.data) == (1, f"worker {won.index(True)}".encode())


def test_of_many_that_put_over_a_version_one_does(s3_url: str) -> None:
    bucket = Bucket.open(s3_url)
    bucket.put_new("claim", b"the first owner")
    seen = bucket.get("claim")
    assert seen is not None
    together = Barrier(WRITERS)

    def take_over(number: int) -> bool:
        together.wait()
        return bucket.put_over("claim", f"worker {number}".encode(), seen.version)

    with ThreadPoolExecutor(WRITERS) as workers:
        won = list(workers.map(take_over, range(WRITERS)))

    found = bucket.get("claim")
    assert found is not None
    assert (sum(won), found.data) == (1, f"worker {won.index(True)}".encode())


def test_a_listing_is_below_the_path_of_the_url(s3_url: str) -> None:
    """A bucket may hold what is none of ours."""
    bucket, beside = Bucket.open(s3_url), Bucket.open(s3_url.rpartition("/")[0] + "/others")
    bucket.put_new("b3/aa/one", b"1")
    beside.put_new("b3/aa/two", b"2")

    assert [entry.name for entry in bucket.list("b3")] == ["b3/aa/one"]
