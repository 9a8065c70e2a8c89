"""The cache: what was fetched, by its hash. Wrong bytes are never served, and nothing here is an error."""

from __future__ import annotations

import errno
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cortex_replay.disk import Folder
from cortex_replay.hashing import blake3_hex
from cortex_replay.remote.cache import Cache, object_name

MANY = 10**9


def digest_of(number: int) -> str:
    return blake3_hex(content(number))


def content(number: int) -> bytes:
    return f"{number:>100}".encode()


def put(cache: Cache, *numbers: int) -> None:
    for number in numbers:
        assert cache.put(digest_of(number), content(number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "caches/cortex-replay"


@pytest.fixture
def cache(path: Path) -> Cache:
    return Cache(path, MANY)


def age(path: Path, number: int, days: float) -> None:
    file = path / object_name(digest_of(number))
    then = file.stat().st_mtime - days * 24 * 60 * 60
    os.utime(file, (then, then))


def test_what_is_put_is_found(cache: Cache, path: Path) -> None:
    """By this process and by others, and by nobody else."""
    assert cache.get(digest_of(1)) is None
    put(cache, 1)

    assert cache.get(digest_of(1)) == content(1)
    assert Cache(path, MANY).get(digest_of(1)) == content(1)
    assert cache.lacking([digest_of(1), digest_of(2)]) == {digest_of(2)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / object_name(digest_of(1))).stat().st_mode) == 0o600


def test_reading_makes_no_folder(cache: Cache, path: Path) -> None:
    assert cache.get(digest_of(1)) is None
    assert cache.lacking([digest_of(1)])
    assert cache.usage() == (0, 0)
    assert not path.parent.exists()


@pytest.mark.parametrize("damage", [b"", content(1)[:50], content(1)[:-1] + b"!", content(2)])
def test_a_damaged_file_is_removed_and_told_once(
    cache: Cache, path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be fetched again."""
    put(cache, 1)
    file = path / object_name(digest_of(1))
    for _ in range(2):
        file.write_bytes(damage)
        assert cache.get(digest_of(1)) is None
        assert not file.exists()

    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "was damaged; it is fetched again" in caplog.text
    put(cache, 1)
    assert cache.get(digest_of(1)) == content(1)


def test_a_file_that_is_none_is_not_served(cache: Cache, path: Path, tmp_path: Path) -> None:
    """A link to the right bytes, a folder, a pipe: neither followed nor waited for."""
    put(cache, 1)
    file = path / object_name(digest_of(1))
    file.unlink()
    (tmp_path / "other").write_bytes(content(1))
    file.symlink_to(tmp_path / "other")
    assert cache.get(digest_of(1)) is None
    file.unlink()
    os.mkfifo(file)
    assert cache.get(digest_of(1)) is None


@pytest.mark.parametrize("digest", ["", "../../victim", "aa/../../../victim", digest_of(1).upper(), "a" * 63])
def test_what_is_no_digest_names_no_file(cache: Cache, path: Path, digest: str) -> None:
    """It would be a path, which is read, and removed since it has other bytes."""
    put(cache, 1)
    (path / "victim").write_bytes(b"private")
    for ask in (cache.get, cache.has, object_name, lambda name: cache.put(name, b"")):
        with pytest.raises(ValueError, match="no digest"):
            ask(digest)
    assert (path / "victim").read_bytes() == b"private"


def test_what_was_not_used_for_longest_goes_first(path: Path) -> None:
    cache = Cache(path, 1000)
    put(cache, *range(9))
    for number in range(9):
        age(path, number, 10 - number)
    assert cache.get(digest_of(0)) == content(0)  # it is used now

    put(cache, 9, 10, 11)
    cache.count()

    assert cache.usage().size <= 1000
    kept = {number for number in range(12) if cache.has(digest_of(number))}
    assert {0, 9, 10, 11} <= kept
    assert not {1, 2} & kept


def test_many_writers_keep_the_limit(path: Path) -> None:
    """None knows of the others but by the folder."""
    for start in range(0, 200, 10):
        writer = Cache(path, 5000)
        put(writer, *range(start, start + 10))
        writer.count()

    assert 0 < Cache(path, 5000).usage().size <= 5000


def test_the_count_is_taken_anew_where_it_is_damaged_or_old(path: Path) -> None:
    """Who was killed has not said what it wrote."""
    put(Cache(path, MANY), *range(30))
    for told in (b"", b"x y\n", b"0 1\n", b"-5\n"):
        (path / "usage").write_bytes(told)
        last = Cache(path, 2000)
        put(last, 100)
        last.count()
        assert last.usage().size <= 2000


def test_what_dead_writers_left_goes(path: Path, cache: Cache) -> None:
    put(cache, 1)
    left = path / object_name(digest_of(1)).rpartition("/")[0] / ".tmp-1-1-1"
    left.write_bytes(b"half")
    cache.count()
    assert left.exists()  # its writer may live
    os.utime(left, (1, 1))
    (path / "usage").unlink()
    put(cache, 2)
    cache.count()

    assert not left.exists()
    assert cache.has(digest_of(1))


def test_a_file_larger_than_the_cache_is_not_kept(path: Path) -> None:
    cache = Cache(path, 10)

    assert not cache.put(digest_of(1), content(1))
    assert not path.exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES])
def test_a_full_disk_is_no_error(
    cache: Cache, path: Path, monkeypatch: pytest.MonkeyPatch, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once, and no part of a file is there."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    put(cache, 1)
    monkeypatch.setattr(Folder, "rename", fail)
    assert not cache.put(digest_of(2), content(2))
    assert not cache.put(digest_of(3), content(3))

    assert len(caplog.records) == 1
    assert os.strerror(code) in caplog.text
    assert cache.usage().files == 1
    assert cache.get(digest_of(1)) == content(1)


def test_a_cache_of_another_user_is_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(Cache(path, MANY), 1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    cache = Cache(path, MANY)

    assert cache.get(digest_of(1)) is None
    assert not cache.put(digest_of(2), content(2))
    assert "belongs to another user" in caplog.text
    assert len(caplog.records) == 1


def test_a_link_of_another_user_is_not_followed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One of your own is: a cache may be on a larger disk."""
    put(Cache(tmp_path / "large", MANY), 1)
    path.parent.mkdir()
    path.symlink_to(tmp_path / "large")
    assert Cache(path, MANY).get(digest_of(1)) == content(1)

    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    os.lchown(path, 54321, -1) if os.getuid() == 0 else pytest.skip("only root makes files of others")
    assert Cache(path, MANY).get(digest_of(1)) is None
    assert "a link of another user" in caplog.text


def test_a_cache_that_others_can_read_is_made_private(cache: Cache, path: Path) -> None:
    put(cache, 1)
    path.chmod(0o777)

    assert Cache(path, MANY).get(digest_of(1)) == content(1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_there_may_be_no_cache(caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(None, MANY)

    assert cache.get(digest_of(1)) is None
    assert not cache.put(digest_of(1), content(1))
    cache.count()
    assert "CORTEX_REPLAY_CACHE names one" in caplog.text


def test_many_threads(path: Path) -> None:
    """They write and read the same files, while room is made."""
    cache = Cache(path, 3000)

    def work(number: int) -> bool:
        cache.put(digest_of(number % 50), content(number % 50))
        found = cache.get(digest_of(number % 50))
        return found in (None, content(number % 50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
    cache.count()
    assert cache.usage().size <= 3000
