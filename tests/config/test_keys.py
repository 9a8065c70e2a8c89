"""Keys, and what else must never be stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.config import (
    CallerSettings,
    ProviderSettings,
    Redaction,
    Settings,
    key_for,
    key_origin,
    known_secrets,
    token_for,
)
from cortex_replay.config.origin import ProjectOrigin
from cortex_replay.errors import ConfigError

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my key"
    path.write_text(f"  {KEY}\n")
    path.chmod(0o600)
    return path


def test_the_first_variable_that_is_set_holds_the_key() -> None:
    """Ours, then the one that everybody uses; an empty one is not set."""
    claude, openai = Settings().providers["claude"], Settings().providers["openai"]
    theirs = {"ANTHROPIC_API_KEY": "theirs\n", "OPENAI_API_KEY": "o"}
    both = theirs | {"CORTEX_CLAUDE_API_KEY": "ours"}

    assert (key_for(claude, theirs), key_origin(claude, theirs)) == ("theirs", "ANTHROPIC_API_KEY")
    assert (key_for(claude, both), key_origin(claude, both)) == ("ours", "CORTEX_CLAUDE_API_KEY")
    assert key_for(claude, both | {"CORTEX_CLAUDE_API_KEY": " "}) == "theirs"
    assert (key_for(openai, theirs), key_for(openai, {})) == ("o", None)
    assert key_origin(openai, {}) is None
    assert key_for(ProviderSettings(kind="openai-compat", base_url="http://a"), theirs) is None


def test_a_file_holds_the_key_when_no_variable_does(key_file: Path) -> None:
    """White space around it is not the key's."""
    provider = ProviderSettings(kind="claude", key_file=key_file)

    assert (key_for(provider, {}), key_origin(provider, {})) == (KEY, "my key")
    assert key_for(provider, {"ANTHROPIC_API_KEY": "x"}) == "x"
    key_file.chmod(0o400)
    assert key_for(provider, {}) == KEY


def test_a_key_file_that_the_user_names_may_be_anywhere(key_file: Path) -> None:
    """Also for a provider that a project's file describes; only what that file names stays inside."""
    for names, is_found in ((["models"], True), (["key_file"], False)):
        origin = ProjectOrigin(key_file.parent / "project", frozenset(names))
        provider = ProviderSettings(kind="claude", key_file=key_file, project=origin)

        assert known_secrets(Settings(providers={"mine": provider}), {}) == [KEY] * is_found
        if is_found:
            assert key_for(provider, {}) == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o601])
def test_a_file_that_others_could_use(key_file: Path, mode: int) -> None:
    """Is refused, with the command that mends it."""
    key_file.chmod(mode)
    provider = ProviderSettings(kind="claude", key_file=key_file)
    for ask in (key_for, key_origin):
        with pytest.raises(ConfigError, match="run: chmod 600 'my key'") as caught:
            ask(provider, {})
        assert KEY not in str(caught.value)
        assert caught.value.exit_code == 2


def _replaced(path: Path, make: Any) -> None:
    path.rename(path.with_name("other"))
    make(path)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: path.write_bytes(b" \n"), "does not hold a key"),
        (lambda path: path.write_bytes(f"{KEY}\n{KEY}".encode()), "does not hold a key"),
        (lambda path: path.write_bytes(KEY.encode() + b"\xff"), "does not hold a key"),
        (lambda path: path.write_bytes(KEY.encode() * 10_000), "does not hold a key"),
        (lambda path: _replaced(path, lambda p: p.symlink_to("other")), "is a symbolic link"),
        (lambda path: _replaced(path, lambda p: p.mkdir(mode=0o700)), "is not a regular file"),
        (lambda path: _replaced(path, lambda p: os.mkfifo(p, 0o600)), "is not a regular file"),
    ],
)
def test_a_file_that_holds_no_key(key_file: Path, spoil: Any, reason: str) -> None:
    """A private file with other things in it must not go to a server."""
    spoil(key_file)
    with pytest.raises(ConfigError, match=reason) as caught:
        key_for(ProviderSettings(kind="claude", key_file=key_file), {})

    assert KEY not in str(caught.value)


def test_a_file_of_another_user(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who could change it."""
    monkeypatch.setattr(os, "geteuid", lambda: key_file.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        key_for(ProviderSettings(kind="claude", key_file=key_file), {})


def test_known_secrets(key_file: Path) -> None:
    """Keys of every provider, what is named, and what its own name gives away; the longest first."""
    settings = Settings(
        providers={
            "a": ProviderSettings(kind="claude", key_file=key_file),
            "b": ProviderSettings(kind="openai-compat", base_url="http://b", key_env=("B_ONE", "B_TWO")),
            "c": ProviderSettings(kind="openai-compat", key_file=key_file.with_name("gone")),
        },
        redaction=Redaction(known_env=("DATABASE_URL",)),
    )
    environment = {
        "ANTHROPIC_API_KEY": "anthropic-1",
        "B_ONE": "b-one-secret\n",
        "B_TWO": "b-two-secret",
        "DATABASE_URL": "postgres://u:p@h/d",
        "GITHUB_TOKEN": "token-123456",
        "app_secret": "lower-case-1",
        "DB_PASSWORD": "short",
        "SOME_PASSWORD": "same-value-1",
        "AWS_SECRET_ACCESS_KEY": "same-value-1",
        "PATH": "/usr/bin:/bin",
        "TOKENS": "not-a-secret",
        "KEY": "k9Xv2-Qm47z-Lt81p",
        "S3_KEY": "words-in-a-row",
        "CACHE_KEY": "not-a-secret-either",
    }

    assert known_secrets(settings, environment) == [
        KEY,
        "postgres://u:p@h/d",
        "k9Xv2-Qm47z-Lt81p",
        "b-one-secret",
        "b-two-secret",
        "lower-case-1",
        "same-value-1",
        "token-123456",
        "anthropic-1",
    ]


def test_tokens_of_callers(key_file: Path) -> None:
    """Are found as keys are, and are secrets."""
    by_name = CallerSettings(token_env=("ONE", "TWO"), token_file=key_file)
    environment = {"ONE": " ", "TWO": "token-in-two\n"}

    assert token_for(by_name, environment) == "token-in-two"
    assert token_for(by_name, {}) == KEY
    assert token_for(CallerSettings(token_env=("ONE",)), environment) is None
    gone = CallerSettings(token_file=key_file.with_name("gone"))
    with pytest.raises(ConfigError, match="token_file gone: cannot be read"):
        token_for(gone, {})
    settings = Settings(callers={"a": by_name, "b": gone})
    assert known_secrets(settings, environment) == [KEY, "token-in-two"]


def test_settings_do_not_show_keys(key_file: Path) -> None:
    """They do not have them."""
    settings = Settings(providers={"a": ProviderSettings(kind="claude", key_file=key_file)})
    key_for(settings.providers["a"], {})

    assert KEY not in repr(settings)
