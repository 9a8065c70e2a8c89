"""How many requests a minute may go out to a provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.config import Settings, load_settings
from cortex_replay.errors import ConfigError


def loaded(tmp_path: Path, project: str, own: str = "", **flags: object) -> Settings:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "cortex-replay.toml").write_text(project)
    (tmp_path / "home" / "cortex-replay").mkdir(parents=True)
    (tmp_path / "home" / "cortex-replay" / "config.toml").write_text(own)
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "home")}
    return load_settings(tmp_path / "project", environment, flags).settings


def test_a_provider_has_one(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "[providers.claude]\nrequests_per_minute = 50\n")

    assert settings.providers["claude"].requests_per_minute == 50
    assert settings.providers["openai"].requests_per_minute is None
    assert ("providers.claude.requests_per_minute", 50) in list(settings.flat())


@pytest.mark.parametrize(("of_project", "holds"), [(600, 50), (20, 20)])
def test_a_project_can_lower_the_user_s_own_and_not_lift_it(
    tmp_path: Path, of_project: int, holds: int
) -> None:
    """A repository may be a stranger's, and the account is the user's."""
    own = "[providers.claude]\nrequests_per_minute = 50\n"
    settings = loaded(tmp_path, f"[providers.claude]\nrequests_per_minute = {of_project}\n", own)

    assert settings.providers["claude"].requests_per_minute == holds


def test_a_flag_goes_before_both(tmp_path: Path) -> None:
    text = 'provider = "claude"\n[providers.claude]\nrequests_per_minute = 50\n'
    settings = loaded(tmp_path, text, requests_per_minute=600)

    assert settings.providers["claude"].requests_per_minute == 600


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("claude]\nrequests_per_minute = 0", "must be at least 1"),
        ("claude]\nrequests_per_minute = 100001", "must be at most"),
        ("claude]\nrequests_per_minute = 1.5", "expected a whole number"),
        ("echo]\nrequests_per_minute = 5", "is for providers of the kind"),
    ],
)
def test_what_is_none(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        loaded(tmp_path, f"[providers.{text}\n")
