"""The remote of a store: which bucket, what is kept there, and who may say what."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.config import RemoteSettings, remote_settings_for
from cortex_replay.config.remote import cache_folder, file_path, is_offline, remote_url
from cortex_replay.errors import ConfigError, InvalidRequest
from tests.config.conftest import Project

REMOTE = '[remote]\nurl = "s3://team-fixtures/agents"\n'


@pytest.mark.parametrize(
    "url",
    [
        "s3://team-fixtures/agents",
        "s3://team.fixtures",
        "gs://team_fixtures/a/b",
        "az://fixtures/agents",
        "file:///srv/fixtures",
        "file:///srv/with%20space",
    ],
)
def test_urls_of_buckets(url: str) -> None:
    assert remote_url(url, "url") == url
    assert remote_url(f"{url}/", "url") == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "team",
        "https://team.s3.amazonaws.com/x",
        "http://169.254.169.254/x",
        "S3://team",
        "s3a://team/x",
        "abfss://box@account.dfs.core.windows.net/x",
        "s3://",
        "s3:///x",
        "s3://ab",
        "s3://user@team/x",
        "s3://user:word@team/x",
        "s3://team:9000/x",
        "s3://team/x?endpoint=http://evil.example",
        "s3://team/x#y",
        "s3://team/../other",
        "s3://team/./x",
        "s3://team//x",
        "s3://team/%2e%2e/x",
        "s3://team\\evil/x",
        "s3://te..am/x",
        "s3://127.0.0.1/x",
        "s3://TEAM/x",
        "s3://t\u0435am/x",
        "s3://team/\u202ex",
        "az://te--am/x",
        "file://srv/fixtures",
        "file://localhost/srv",
        "file:srv",
        "file:///srv/../etc",
        "file:///srv/%2e%2e/etc",
        "file:///srv/a%2fb",
        "file:///srv/a%00b",
        "file:///srv/a?b",
        "file:///",
        "memory:///",
        "s3://team/" + "x" * 2000,
    ],
)
def test_what_names_no_bucket_or_more_than_one(url: str) -> None:
    with pytest.raises(InvalidRequest):
        remote_url(url, "url")


def test_the_folder_of_a_file_url() -> None:
    assert file_path("file:///srv/with%20space") == Path("/srv/with space")
    assert file_path("s3://team") is None


def test_a_project_names_its_remote(project: Project) -> None:
    project.write(f'{REMOTE}region = "eu-central-1"\nkeep = "large-remote"\nlarge = "1 MiB"\n')

    loaded = project.load()

    assert loaded.settings.remote == RemoteSettings(
        url="s3://team-fixtures/agents", region="eu-central-1", keep="large-remote", large=2**20
    )
    assert loaded.origins["remote.url"] == "cortex-replay.toml"
    assert loaded.origins["remote.cache_size"] == "default"
    assert dict(loaded.settings.flat())["remote.keep"] == "large-remote"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("remote = 's3://team'", "remote: expected a table"),
        ("[remote]\nurl = 'https://team.example'", "remote.url: expected a bucket such as"),
        ("[remote]\nurls = 's3://team'", "remote.urls: there is no such setting; did you mean url?"),
        ("[remote]\nkeep = 'bucket'", "remote.keep: expected git, remote or large-remote"),
        ("[remote]\nlarge = '1 parsec'", "remote.large: expected a number of bytes"),
        ("[remote]\nregion = 'evil.example/x'", "remote.region: expected a region"),
        ("[remote]\nendpoint = 'http://evil.example'", "remote.endpoint: comes from your environment"),
        ("[remote]\nprofile = 'work'", "remote.profile: comes from your environment"),
        ("[remote]\nsecret_access_key = 'abcdefgh'", "AWS_PROFILE"),
        ("[remote]\nurl = 'AKIAABCDEFGHIJKLMNOP'", "a key does not belong"),
        ("[remote]\ncache_size = '1 GiB'", "remote.cache_size: is for you to say"),
    ],
)
def test_what_a_project_cannot_say(project: Project, text: str, problem: str) -> None:
    project.write(text)

    with pytest.raises(ConfigError) as caught:
        project.load()

    assert problem in str(caught.value)
    assert "abcdefgh" not in str(caught.value)


def test_the_user_says_how_large_the_cache_is(project: Project, tmp_path: Path) -> None:
    """In a file of their own, which says nothing of buckets, or by the environment."""
    project.write(REMOTE)
    own = tmp_path / "cortex-replay/config.toml"
    own.parent.mkdir()
    own.write_text("[remote]\ncache_size = '2 GiB'")
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}

    assert project.load(environment=environment).settings.remote.cache_size == 2 * 2**30
    environment["CORTEX_REPLAY_CACHE_SIZE"] = "300 MB"
    loaded = project.load(environment=environment)
    assert loaded.settings.remote.cache_size == 300_000_000
    assert loaded.origins["remote.cache_size"] == "CORTEX_REPLAY_CACHE_SIZE"

    own.write_text("[remote]\nurl = 's3://mine'")
    with pytest.raises(ConfigError, match="is for a project to say"):
        project.load(environment=environment)


def test_the_remote_of_a_store(project: Project) -> None:
    """It is that of the configuration above the store, unless the environment names another."""
    assert remote_settings_for(project.root, {}) is None
    project.write("jobs = 2")
    assert remote_settings_for(project.root, {}) is None
    project.write(REMOTE, "tests/cortex-replay.toml")

    found = remote_settings_for(project.root / "tests/llm", {})

    assert found is not None
    assert found.url == "s3://team-fixtures/agents"
    other = remote_settings_for(project.root / "tests/llm", {"CORTEX_REPLAY_REMOTE": "gs://other/x"})
    assert other is not None
    assert other.url == "gs://other/x"
    with pytest.raises(ConfigError, match=r"^configuration: CORTEX_REPLAY_REMOTE: expected a bucket"):
        remote_settings_for(project.root, {"CORTEX_REPLAY_REMOTE": "https://evil.example"})


def test_where_the_cache_is() -> None:
    assert cache_folder({"HOME": "/home/me"}) == Path("/home/me/.cache/cortex-replay")
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "/big"}) == Path("/big/cortex-replay")
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "here"}) == Path("/h/.cache/cortex-replay")
    assert cache_folder({"HOME": "/h", "CORTEX_REPLAY_CACHE": "~/c"}) == Path("/h/c")
    assert cache_folder({}) is None
    for odd in ("here", "./c", "/srv/../etc"):
        with pytest.raises(ConfigError, match="CORTEX_REPLAY_CACHE: expected an absolute path"):
            cache_folder({"CORTEX_REPLAY_CACHE": odd})


def test_offline() -> None:
    assert is_offline({"CORTEX_REPLAY_OFFLINE": "1"})
    assert not is_offline({"CORTEX_REPLAY_OFFLINE": "0"})
    assert not is_offline({})
