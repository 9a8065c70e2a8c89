"""A bucket that is a folder: a repository may have named it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cortex_replay.errors import StoreIo
from cortex_replay.remote.bucket import (
    Bucket,
    BucketDenied,
    BucketError,
    FolderBucket,
    ObjectTooLarge,
)


def test_no_engine_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "obstore.store"):
        monkeypatch.setitem(sys.modules, name, None)

    assert isinstance(Bucket.open(tmp_path.as_uri()), FolderBucket)
    with pytest.raises(StoreIo, match=r'pip install "cortex-replay\[remote\]"'):
        Bucket.open("s3://team/x")


@pytest.mark.parametrize("link", ["bucket", "bucket/b3", "bucket/b3/aa", "bucket/.lock"])
def test_no_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    """Neither where the bucket is, nor in it."""
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(elsewhere if link != "bucket/.lock" else elsewhere / "victim")
    bucket = Bucket.open((tmp_path / "bucket").as_uri())

    with pytest.raises(BucketError):
        bucket.put_new("b3/aa/one", b"first")

    assert list(elsewhere.iterdir()) == []


def test_an_object_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "b3").mkdir()
    (tmp_path / "b3/one").symlink_to("/etc/passwd")

    with pytest.raises(BucketError, match="cannot be used"):
        Bucket.open(tmp_path.as_uri()).get("b3/one")
    assert list(Bucket.open(tmp_path.as_uri()).list("b3")) == []


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "b3").mkdir()
    os.mkfifo(tmp_path / "b3/one")

    with pytest.raises(BucketError, match="is not a plain file"):
        Bucket.open(tmp_path.as_uri()).get("b3/one")


def test_a_folder_with_other_things_is_no_bucket_to_write_to(tmp_path: Path) -> None:
    """Somebody's home, say."""
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(BucketError, match="holds other things; name a new folder"):
        Bucket.open(tmp_path.as_uri()).put_new("b3/aa/one", b"first")

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_listing_looks_into_folders_of_a_bucket_alone(tmp_path: Path) -> None:
    """A repository that names a home, or the root of a system, has nobody walk through all of it."""
    bucket = Bucket.open(tmp_path.as_uri())
    bucket.put_new("b3/aa/one", b"first")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/one").write_text("mine")

    assert [entry.name for entry in bucket.list("")] == ["b3/aa/one"]


def test_reading_makes_nothing(tmp_path: Path) -> None:
    bucket = Bucket.open((tmp_path / "none").as_uri())

    assert bucket.get("b3/aa/one") is None
    assert list(bucket.list("")) == []
    bucket.delete(["b3/aa/one"])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "b3").mkdir()
    with (tmp_path / "b3/one").open("wb") as file:
        file.truncate(2**26 + 1)

    with pytest.raises(ObjectTooLarge):
        Bucket.open(tmp_path.as_uri()).get("b3/one")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir(mode=0o500)

    with pytest.raises(BucketDenied):
        Bucket.open((tmp_path / "bucket").as_uri()).put_new("b3/aa/one", b"first")
