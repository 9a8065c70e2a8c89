"""The environment of a command."""

from __future__ import annotations

from cortex_replay.config import Settings
from cortex_replay.run.environment import command_environment
from tests.gateway.upstream import REAL_KEY


def test_no_key_reaches_a_command() -> None:
    settings = Settings()
    keys = [name for provider in settings.providers.values() for name in provider.key_variables]
    before = dict.fromkeys([*keys, "ANTHROPIC_AUTH_TOKEN", "OPENAI_ADMIN_KEY"], REAL_KEY)
    made = command_environment({**before, "NO_PROXY": "x"}, settings, lambda name: f"http://g/{name}")

    assert REAL_KEY not in made.values()
    assert made["OPENAI_BASE_URL"] == "http://g/openai/v1"
    assert made["ANTHROPIC_BASE_URL"] == "http://g/anthropic"
    assert made["NO_PROXY"] == "x,127.0.0.1,localhost,::1"
    assert "HTTP_PROXY" not in made
