"""A repository that names a bucket: no key of the user's cloud goes where the user did not send it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay.errors import ConfigError
from cortex_replay.hashing import blake3_hex
from cortex_replay.remote import Problem, remote_for
from tests.remote.faulty_bucket import FaultyBucket, serve

DATA = b"an answer"
DIGEST = blake3_hex(DATA)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    for name in [name for name in os.environ if name.startswith(("AWS_", "CORTEX_REPLAY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY")
    return root


@pytest.fixture
def thief() -> Iterator[FaultyBucket]:
    with serve() as running:
        yield running


def test_files_of_a_repository_name_no_server(
    repository: Path, thief: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that tools of clouds know, in the folders where a command runs."""
    told = f"endpoint_url = {thief.url}\ns3 =\n  endpoint_url = {thief.url}\n"
    for name, text in {
        ".aws/config": f"[default]\n{told}",
        ".aws/credentials": f"[default]\naws_access_key_id = a\naws_secret_access_key = b\n{told}",
        ".env": f"AWS_ENDPOINT_URL={thief.url}\nAWS_ALLOW_HTTP=true\n",
        ".boto": f"[Boto]\ns3_host = {thief.url}\n",
    }.items():
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)
    (repository / "cortex-replay.toml").write_text('[remote]\nurl = "s3://stranger/x"')

    with serve() as chosen:
        monkeypatch.setenv("AWS_ENDPOINT_URL", chosen.url)
        remote = remote_for(repository)
        assert remote is not None
        assert isinstance(remote.get(DIGEST), Problem)

        assert [asked.path for asked in chosen.asked] == [f"/stranger/x/b3/{DIGEST[:2]}/{DIGEST}"]
    assert thief.asked == []


@pytest.mark.parametrize(
    "text",
    [
        'url = "{thief}/x"',
        'url = "s3://x/y?endpoint={thief}"',
        'url = "s3://{host}/x"',
        'url = "s3://user@{host}/x"',
        'url = "s3://x"\nendpoint = "{thief}"',
        'url = "s3://x"\nendpoint_url = "{thief}"',
        'url = "s3://x"\naws_endpoint = "{thief}"',
        'url = "s3://x"\nregion = "{host}/"',
        'url = "s3://x"\nregion = "eu-west-1.{host}"',
        'url = "s3://x"\nheaders = {{ Host = "{host}" }}',
        'url = "s3://x"\nproxy = "{thief}"',
    ],
)
def test_settings_of_a_repository_name_no_server(repository: Path, thief: FaultyBucket, text: str) -> None:
    told = text.format(thief=thief.url, host=thief.url.removeprefix("http://"))
    (repository / "cortex-replay.toml").write_text(f"[remote]\n{told}")

    with pytest.raises(ConfigError):
        remote_for(repository)
    assert thief.asked == []


def test_a_folder_that_a_repository_names_is_read_by_hash_alone(repository: Path, tmp_path: Path) -> None:
    """What is not called by its hash is not even opened; what has other bytes is not handed out."""
    victim = tmp_path / "victim"
    place = victim / "b3" / DIGEST[:2]
    place.mkdir(parents=True)
    (place / DIGEST).write_bytes(b"private notes")
    (repository / "cortex-replay.toml").write_text(f'[remote]\nurl = "{victim.as_uri()}"')
    remote = remote_for(repository)
    assert remote is not None

    found = remote.get(DIGEST)

    assert isinstance(found, Problem)
    assert found.is_wrong
    assert "private" not in f"{found}"
    (victim / "notes.txt").write_text("private")
    with pytest.raises(Exception, match="holds other things"):
        remote.put_many([(DIGEST, DATA)], 1)
    assert (place / DIGEST).read_bytes() == b"private notes"


def test_a_public_read_signs_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch, thief: FaultyBucket
) -> None:
    """Without keys of the user's, nothing in the repository gives any."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_ENDPOINT_URL", thief.url)
    (repository / "cortex-replay.toml").write_text('[remote]\nurl = "s3://stranger/x"')
    thief.is_public = True
    thief.objects[f"/stranger/x/b3/{DIGEST[:2]}/{DIGEST}"] = DATA
    remote = remote_for(repository)
    assert remote is not None

    assert remote.get(DIGEST) == DATA
    assert not any(asked.is_signed for asked in thief.asked)
