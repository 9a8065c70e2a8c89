"""A bucket: objects by name, put on conditions, whoever keeps them."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from cortex_replay.errors import InvalidRequest, StoreIo
from cortex_replay.remote import bucket as module
from cortex_replay.remote.bucket import Bucket, BucketDenied, BucketError, ObjectTooLarge
from cortex_replay.remote.probe import refuse_unconditional
from tests.remote.faulty_bucket import Asked, FaultyBucket, Reply, serve

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyBucket]:
    """A server of objects that the environment names, and keys for it."""
    with serve() as running:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setattr(module, "_RETRIES", {"max_retries": 0, "retry_timeout": timedelta(seconds=5)})
        yield running


@pytest.fixture(params=["folder", "memory", "server"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    if request.param == "folder":
        return Bucket.open((tmp_path / "bucket").as_uri())
    if request.param == "memory":
        return Bucket(MemoryStore(), "memory://")
    request.getfixturevalue("server")
    return Bucket.open("s3://team/agents")


def test_an_object_is_put_once(bucket: Bucket) -> None:
    """The second put of a name is refused, and changes nothing."""
    assert bucket.put_new("b3/aa/one", b"first")
    assert not bucket.put_new("b3/aa/one", b"second")

    found = bucket.get("b3/aa/one")
    assert found is not None
    assert found.data == b"first"
    assert bucket.size("b3/aa/one") == 5


def test_an_object_is_put_over_the_version_that_was_seen(bucket: Bucket) -> None:
    """And over no other, nor over nothing."""
    assert not bucket.put_over("runs/a/lease", b"none", '"0"')
    bucket.put_new("runs/a/lease", b"first")
    seen = bucket.get("runs/a/lease")
    assert seen is not None

    assert bucket.put_over("runs/a/lease", b"second", seen.version)
    assert not bucket.put_over("runs/a/lease", b"third", seen.version)

    now = bucket.get("runs/a/lease")
    assert now is not None
    assert now.data == b"second"


def test_an_object_that_is_not_there(bucket: Bucket) -> None:
    """Absence is no error."""
    assert bucket.get("b3/aa/none") is None
    assert bucket.size("b3/aa/none") is None
    assert list(bucket.list("b3")) == []


def test_what_is_listed(bucket: Bucket) -> None:
    """A listing names objects as they are asked for."""
    bucket.put_new("b3/aa/one", b"first")
    bucket.put_new("runs/a/two", b"second")

    assert [(entry.name, entry.size) for entry in bucket.list("b3")] == [("b3/aa/one", 5)]
    assert {entry.name for entry in bucket.list("")} == {"b3/aa/one", "runs/a/two"}


def test_a_bucket_that_keeps_conditions_passes_the_probe(bucket: Bucket) -> None:
    refuse_unconditional(bucket, over=True)


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_what_is_deleted_is_gone(kind: str, tmp_path: Path) -> None:
    bucket = Bucket.open(tmp_path.as_uri()) if kind == "folder" else Bucket(MemoryStore(), "memory://")
    bucket.put_new("b3/aa/one", b"first")

    bucket.delete(["b3/aa/one", "b3/aa/none"])

    assert bucket.get("b3/aa/one") is None


def test_a_server_that_breaks_conditions_is_refused(server: FaultyBucket) -> None:
    server.keeps_conditions = False

    with pytest.raises(BucketError, match=r"If-None-Match: \*.*use a server that keeps conditions"):
        refuse_unconditional(Bucket.open("s3://team/agents"))


@pytest.mark.parametrize("over", [False, True])
def test_a_server_that_loses_one_race_is_refused(server: FaultyBucket, over: bool) -> None:
    """As one does that looks first and puts afterwards: of two that come at once, both succeed."""
    condition = "if-match" if over else "if-none-match"
    path: list[str] = []

    def let_two_win(asked: Asked) -> Reply | None:
        if asked.condition == condition and asked.path in [*path[:1], asked.path][:1]:
            path.append(asked.path)
        server.keeps_conditions = len(path) != 2 or path[0] != asked.path
        return None

    server.fault = let_two_win
    with pytest.raises(BucketError, match="If-Match" if over else "If-None-Match"):
        refuse_unconditional(Bucket.open("s3://team/agents"), over=over)


@pytest.mark.parametrize("condition", ["if-none-match", "if-match"])
@pytest.mark.parametrize("lost", [1, 6])
def test_a_server_whose_answer_is_lost_is_not_blamed_for_it(
    server: FaultyBucket, condition: str, lost: int
) -> None:
    """The client tries again, and is refused for what it has put; where all are lost, nothing is told."""
    done: set[str] = set()

    def lose_first_answers(asked: Asked) -> Reply | None:
        if asked.condition != condition or asked.path in done or len(done) == lost:
            return None
        done.add(asked.path)
        server.objects[asked.path] = b"%s 0" % {"if-match": b"If-Match"}.get(condition, b"If-None-Match: *")
        return Reply(412)

    server.fault = lose_first_answers
    bucket = Bucket.open("s3://team/agents")
    if lost == 1:
        refuse_unconditional(bucket, over=True)
    else:
        with pytest.raises(BucketError, match=r"cannot be told.*try again"):
            refuse_unconditional(bucket, over=True)
    assert len(done) == lost


def test_a_server_that_puts_over_any_version_is_refused(server: FaultyBucket) -> None:
    """Only who relies on it asks."""

    def forget_versions(asked: Asked) -> Reply | None:
        server.keeps_conditions = asked.condition != "if-match"
        return None

    server.fault = forget_versions
    refuse_unconditional(Bucket.open("s3://team/agents"))
    with pytest.raises(BucketError, match="If-Match"):
        refuse_unconditional(Bucket.open("s3://team/agents"), over=True)


def test_a_server_that_lies_about_a_size_is_read_no_further(server: FaultyBucket) -> None:
    """Else one that says it has 5 bytes could fill the memory."""
    server.fault = lambda asked: Reply(200, b"x" * 2**20, length=5, is_chunked=True)

    with pytest.raises(ObjectTooLarge, match="more than the 5 bytes"):
        Bucket.open("s3://team/agents").get("one")


def test_a_listing_without_an_end_is_given_up(server: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ENTRIES", 2500)
    rows = "".join(
        f"<Contents><Key>agents/b3/{number}</Key><Size>1</Size>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for number in range(1000)
    )
    page = f"<IsTruncated>true</IsTruncated><NextContinuationToken>on</NextContinuationToken>{rows}"
    server.fault = lambda asked: Reply(200, f"<ListBucketResult>{page}</ListBucketResult>".encode())

    with pytest.raises(BucketError, match="lists more than 2,500 objects"):
        list(Bucket.open("s3://team/agents").list(""))
    assert len(server.asked) < 10


def test_a_public_bucket_is_read_without_credentials(
    server: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is signed, and no address of a cloud is asked for a role first."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    server.is_public = True
    server.objects["/team/agents/one"] = b"first"

    found = Bucket.open("s3://team/agents").get("one")

    assert found is not None
    assert found.data == b"first"
    assert [asked.is_signed for asked in server.asked] == [False]


def test_what_credentials_may_not_read_is_read_without_them(server: FaultyBucket) -> None:
    """Those of another account are refused by a bucket that anybody may read."""
    server.is_public, server.takes_keys = True, False
    server.objects["/team/agents/one"] = b"first"
    server.fault = lambda asked: Reply(403) if asked.is_signed else None

    found = Bucket.open("s3://team/agents").get("one")

    assert found is not None
    assert [asked.is_signed for asked in server.asked] == [True, False]


def test_a_bucket_that_refuses(server: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says with which credentials it was asked, or how to have some; and no secret."""
    server.takes_keys = False

    with pytest.raises(BucketDenied) as caught:
        Bucket.open("s3://team/agents").get("one")
    assert str(caught.value).startswith(
        "io: s3://team/agents refuses (AccessDenied); you asked with the credentials of AWS_ACCESS_KEY_ID, "
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(BucketDenied, match="you have no credentials for it: set AWS_ACCESS_KEY_ID and"):
        Bucket.open("s3://team/agents").get("one")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(500, b"<Error><Code>InternalError</Code></Error>"), "cannot be asked: InternalError"),
        (Reply(503, b"busy"), "cannot be asked: it answered 503 Service Unavailable"),
        (Reply(404, b"<Error><Code>NoSuchBucket</Code></Error>"), "does not exist: there is no such bucket"),
        (
            Reply(403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>"),
            "refuses (RequestTimeTooSkewed: the clock of this machine is wrong)",
        ),
        (Reply(200, b"half", length=8), "cannot be asked: the answer broke off"),
        (Reply(301, b""), "cannot be asked: "),
    ],
)
def test_faults_of_a_server(server: FaultyBucket, reply: Reply, told: str) -> None:
    """Each is one sentence that names the bucket, without a line of the engine's own and without a key."""
    server.objects["/team/agents/one"] = b"whole"
    server.fault = lambda asked: reply

    with pytest.raises(BucketError) as caught:
        Bucket.open("s3://team/agents").get("one")

    text = str(caught.value)
    assert text.startswith("io: s3://team/agents ")
    assert told in text
    assert "\n" not in text
    assert len(text) < 400
    assert SECRET not in text
    assert "Signature" not in text


def test_a_server_that_is_not_there(server: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")

    with pytest.raises(BucketError, match=r"cannot be asked: .*connection was refused"):
        Bucket.open("s3://team/agents").get("one")


def test_a_body_that_is_too_large_is_not_read(server: FaultyBucket) -> None:
    """Nor waited for: its length says it all."""
    server.objects["/team/agents/one"] = b"x"
    server.fault = lambda asked: Reply(200, b"x", length=2**26 + 1)

    with pytest.raises(ObjectTooLarge, match="67,108,865 bytes"):
        Bucket.open("s3://team/agents").get("one")


def test_a_bucket_is_asked_from_within_a_running_loop(server: FaultyBucket) -> None:
    """As a test with asyncio does, and no thread is left."""
    bucket = Bucket.open("s3://team/agents")
    before = threading.active_count()

    async def program() -> bool:
        return bucket.put_new("one", b"first")

    assert asyncio.run(program())
    assert sum(one.name == "cortex-replay-bucket" for one in threading.enumerate()) == 0
    assert threading.active_count() <= before + 1  # the server has one for each connection


def test_a_fork_says_that_it_cannot_ask(server: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's threads stay in the parent, so it would wait for them without end."""
    bucket = Bucket.open("s3://team/agents")
    monkeypatch.setitem(module._USERS, "first", os.getpid() + 1)

    with pytest.raises(BucketError, match="was forked from one that had asked a bucket"):
        bucket.get("one")


def test_what_is_no_bucket() -> None:
    with pytest.raises(InvalidRequest, match="expected a bucket"):
        Bucket.open("https://example.com/x")


def test_an_account_of_azure_is_named_by_the_environment() -> None:
    with pytest.raises(StoreIo, match="AZURE_STORAGE_ACCOUNT_NAME"):
        Bucket.open("az://container/x", environment={})
