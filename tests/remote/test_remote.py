"""The remote of a store: from the cache, else from the bucket, and never with other bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cortex_replay.config.remote import RemoteSettings
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.remote import Problem, Remote, bucket as package_bucket, remote as module, remote_for
from cortex_replay.remote.bucket import BucketError
from tests.remote.faulty_bucket import Asked, FaultyBucket, Reply, serve

CONTENTS = {blake3_hex(data): data for data in (f"fixture {number}".encode() for number in range(400))}
DIGESTS = list(CONTENTS)
SOME = DIGESTS[:40]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyBucket]:
    with serve() as running:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in {
            "HOME": str(tmp_path),
            "AWS_ENDPOINT_URL": running.url,
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
            "CORTEX_REPLAY_CACHE": str(tmp_path / "cache"),
        }.items():
            monkeypatch.setenv(name, value)
        retries = {"max_retries": 0, "retry_timeout": timedelta(seconds=5)}
        monkeypatch.setattr(package_bucket, "_RETRIES", retries)
        running.objects = {f"/team/agents/b3/{one[:2]}/{one}": data for one, data in CONTENTS.items()}
        yield running


def remote() -> Remote:
    return Remote(RemoteSettings(url="s3://team/agents"))


def path_of(digest: str) -> str:
    return f"/team/agents/b3/{digest[:2]}/{digest}"


def test_files_are_fetched_once(server: FaultyBucket) -> None:
    """And told of as they come."""
    told: list[tuple[int, int]] = []

    assert dict(remote().fetch(SOME, lambda done, total: told.append((done, total)))) == {
        digest: CONTENTS[digest] for digest in SOME
    }
    assert told == [(number, 40) for number in range(1, 41)]
    assert len(server.asked) == 40

    again = remote()
    assert again.uncached(SOME) == set()
    assert dict(again.fetch([*SOME, *SOME])) == {digest: CONTENTS[digest] for digest in SOME}
    assert again.get(SOME[0]) == again.cached(SOME[0]) == CONTENTS[SOME[0]]
    assert len(server.asked) == 40
    assert again.get(SOME[0], fresh=True) == CONTENTS[SOME[0]]
    assert len(server.asked) == 41


@pytest.mark.parametrize(
    "wrong", [b"", b"fixture", b"fixture 0!", b"fixture 1", CONTENTS[DIGESTS[0]] + b"\n"]
)
def test_other_bytes_are_neither_served_nor_kept(server: FaultyBucket, wrong: bytes) -> None:
    """Wherever they came from."""
    server.objects[path_of(DIGESTS[0])] = wrong
    one = remote()

    found = one.get(DIGESTS[0])

    assert isinstance(found, Problem)
    assert found.is_wrong
    assert found.reason == f"s3://team/agents has other bytes in its place ({len(wrong)} of them)"
    assert one.cached(DIGESTS[0]) is None
    server.objects[path_of(DIGESTS[0])] = CONTENTS[DIGESTS[0]]
    assert one.get(DIGESTS[0]) == CONTENTS[DIGESTS[0]]


@pytest.mark.parametrize(
    "reply", [Reply(200, b"fixt", length=9), Reply(500), Reply(200, b"x", length=2**27), Reply(403)]
)
def test_a_fault_leaves_nothing_in_the_cache(server: FaultyBucket, reply: Reply) -> None:
    """And does not keep the rest from coming, nor the next try from going well."""
    broken = path_of(SOME[7])
    server.fault = lambda asked: reply if asked.path == broken else None
    one = remote()

    found = dict(one.fetch(SOME))

    problem = found.pop(SOME[7])
    assert isinstance(problem, Problem)
    assert "s3://team/agents" in problem.reason
    assert found == {digest: CONTENTS[digest] for digest in SOME if digest != SOME[7]}
    assert one.uncached(SOME) == {SOME[7]}
    server.fault = lambda asked: None
    assert one.get(SOME[7]) == CONTENTS[SOME[7]]


def test_what_the_bucket_does_not_have(server: FaultyBucket) -> None:
    """It is said of each, and the others come."""
    for digest in SOME[:30]:
        del server.objects[path_of(digest)]

    found = dict(remote().fetch(SOME))

    absent = [one for one in found.values() if isinstance(one, Problem)]
    assert len(absent) == 30
    assert {one.reason for one in absent} == {"s3://team/agents does not have it"}
    assert all(one.is_absent and "cortex-replay push" in (one.hint or "") for one in absent)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(403, b"<Error><Code>AccessDenied</Code></Error>"), "refuses (AccessDenied)"),
        (Reply(503), "cannot be asked: it answered 503 Service Unavailable"),
    ],
)
def test_a_bucket_that_always_fails_is_given_up(server: FaultyBucket, reply: Reply, told: str) -> None:
    """The rest is not asked for, and each file has the one reason."""
    server.fault = lambda asked: reply

    found = dict(remote().fetch(DIGESTS))

    assert len(found) == len(DIGESTS)
    assert {one.reason for one in found.values() if isinstance(one, Problem)} == {f"s3://team/agents {told}"}
    assert len(server.asked) < 300


def test_a_bucket_that_does_not_answer_is_not_asked_again_at_once(
    server: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a thousand tests would wait for it. After a while it is."""
    now = 1000.0
    monkeypatch.setattr(module, "_clock", lambda: now)
    server.fault = lambda asked: Reply(500)
    one = remote()
    assert isinstance(one.get(DIGESTS[0]), Problem)
    asked = len(server.asked)
    server.fault = lambda asked: None

    assert isinstance(one.get(DIGESTS[0]), Problem)
    with pytest.raises(BucketError):
        one.has_many([DIGESTS[0]])
    assert len(server.asked) == asked
    now += 31
    assert one.get(DIGESTS[0]) == CONTENTS[DIGESTS[0]]


def test_a_bucket_that_vanishes_half_way(server: FaultyBucket) -> None:
    """What came is kept, and what did not has a reason."""
    server.fault = lambda asked: Reply(500) if len(server.asked) > 100 else None
    one = remote()

    found = dict(one.fetch(DIGESTS))

    assert set(found) == set(DIGESTS)
    came = {digest for digest, data in found.items() if isinstance(data, bytes)}
    assert 50 < len(came) <= 100
    assert came <= set(DIGESTS) - one.uncached(DIGESTS)


def test_offline_what_is_cached_is_served(server: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    list(remote().fetch(SOME))
    asked = len(server.asked)
    monkeypatch.setenv("CORTEX_REPLAY_OFFLINE", "1")

    found = dict(remote().fetch([*SOME, DIGESTS[-1]]))

    problem = found.pop(DIGESTS[-1])
    assert isinstance(problem, Problem)
    assert problem.reason == "s3://team/agents was not asked, since CORTEX_REPLAY_OFFLINE is set"
    assert all(isinstance(one, bytes) for one in found.values())
    assert len(server.asked) == asked


def test_a_damaged_file_of_the_cache_is_fetched_again(server: FaultyBucket, tmp_path: Path) -> None:
    list(remote().fetch(SOME))
    for digest in SOME:
        file = tmp_path / "cache/b3" / digest[:2] / digest
        file.write_bytes(file.read_bytes()[::-1])

    assert dict(remote().fetch(SOME)) == {digest: CONTENTS[digest] for digest in SOME}
    assert len(server.asked) == 80


def test_without_a_cache_everything_works(server: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_CACHE", "/proc/none")

    assert dict(remote().fetch(SOME)) == {digest: CONTENTS[digest] for digest in SOME}


@pytest.mark.parametrize(("count", "can_list"), [(40, True), (400, True), (400, False)])
def test_what_the_bucket_has(server: FaultyBucket, count: int, can_list: bool) -> None:
    """Few are asked for one by one, many by lists, unless these are refused; nothing is fetched."""
    server.can_list = can_list
    wanted = {*DIGESTS[:count]}
    missing = {*DIGESTS[:3]}
    for digest in missing:
        del server.objects[path_of(digest)]

    one = remote()

    assert one.has_many(wanted) == wanted - missing
    assert one.sizes(DIGESTS[3:5]) == {digest: len(CONTENTS[digest]) for digest in DIGESTS[3:5]}
    heads = sum(asked.method == "HEAD" for asked in server.asked)
    assert heads == (count + 2 if count == 40 or not can_list else 2)
    assert not any(asked.method == "GET" and "list-type" not in asked.path for asked in server.asked)


def test_objects_are_put_once(server: FaultyBucket) -> None:
    """After the server was seen to keep conditions; what is there stays as it is."""
    server.objects = {path_of(SOME[0]): b"other bytes"}
    told: list[tuple[int, int]] = []
    one = remote()

    one.put_many(((digest, CONTENTS[digest]) for digest in SOME), 40, lambda *two: told.append(two))
    one.put_many([(DIGESTS[50], CONTENTS[DIGESTS[50]])], 1)

    assert server.objects[path_of(SOME[0])] == b"other bytes"
    assert {path_of(digest) for digest in SOME} <= server.objects.keys()
    assert told[-1] == (40, 40)
    assert sum("/probe/" in asked.path and asked.method == "PUT" for asked in server.asked) == 49


def test_nothing_is_put_to_a_server_that_breaks_conditions(server: FaultyBucket) -> None:
    server.objects, server.keeps_conditions = {}, False

    with pytest.raises(StoreIo, match="use a server that keeps conditions"):
        remote().put_many([(SOME[0], CONTENTS[SOME[0]])], 1)

    assert path_of(SOME[0]) not in server.objects


def test_a_put_that_fails_ends_the_rest(server: FaultyBucket) -> None:
    def refuse(asked: Asked) -> Reply | None:
        return Reply(403) if "/b3/" in asked.path else None

    server.fault = refuse
    with pytest.raises(StoreIo, match="refuses"):
        remote().put_many(((digest, CONTENTS[digest]) for digest in DIGESTS), 400)
    assert not [one for one in threading.enumerate() if one.name == "cortex-replay-bucket"]


def test_the_remote_of_a_store(tmp_path: Path) -> None:
    """Of the settings above it; nothing is opened before it is needed."""
    (tmp_path / ".git").mkdir()
    assert remote_for(tmp_path, {}) is None
    url = f"{tmp_path.as_uri()}/bucket"
    (tmp_path / "cortex-replay.toml").write_text(f'[remote]\nurl = "{url}"\nkeep = "remote"')

    found = remote_for(tmp_path / "llm", {"HOME": str(tmp_path)})

    assert found is not None
    assert (found.keep, found.large) == ("remote", 100 * 1024)
    found.put_many([(SOME[0], CONTENTS[SOME[0]])], 1)
    assert found.get(SOME[0]) == CONTENTS[SOME[0]]
    assert (tmp_path / ".cache/cortex-replay/b3" / SOME[0][:2] / SOME[0]).is_file()


def test_a_store_without_a_remote_loads_no_engine() -> None:
    """Nor does one with a remote, before something is missing."""
    program = "import sys, cortex_replay.remote\nassert not {'obstore', 'asyncio', 'ssl'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_bucket_that_is_gone_lacks_more_than_objects(server: FaultyBucket) -> None:
    """To a HEAD, a server answers the same in both cases; where nothing is found, the bucket is looked at."""
    server.fault = lambda asked: Reply(404, b"<Error><Code>NoSuchBucket</Code></Error>")

    with pytest.raises(StoreIo, match="there is no such bucket"):
        remote().has_many(SOME)
    server.fault = lambda asked: None
    server.objects = {}
    assert remote().has_many(SOME) == set()
    server.can_list = False
    assert remote().has_many(SOME) == set()


def test_a_refusal_without_a_reason(server: FaultyBucket) -> None:
    """As to a HEAD, from a machine whose clock is wrong."""
    server.fault = lambda asked: Reply(403)

    with pytest.raises(StoreIo, match="403 Forbidden, as it does to wrong credentials and to a wrong clock"):
        remote().has_many(SOME)
