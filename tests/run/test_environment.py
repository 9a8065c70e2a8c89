"""The environment of a command."""

from __future__ import annotations

from cortex_replay.config import Settings
from cortex_replay.providers import DUMMY_KEY
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


def test_a_command_signs_with_dummies() -> None:
    """SDKs of Amazon's do not start without credentials; a bearer token or a session would go before them."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")
    made = command_environment(dict.fromkeys(names, REAL_KEY), Settings(), lambda name: f"http://g/{name}")

    assert [made.get(name) for name in names] == [DUMMY_KEY, DUMMY_KEY, None, None]
    assert made["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"] == "http://g/bedrock"


def test_a_command_is_led_to_azure_only_where_somebody_uses_it() -> None:
    """OpenAI's SDK refuses to choose where both services are named."""

    def made(**environment: str) -> dict[str, str]:
        return command_environment(environment, Settings(), lambda name: f"http://g/{name}")

    assert not any(name.startswith("AZURE_") for name in made(OPENAI_API_KEY=REAL_KEY))
    azure = made(AZURE_OPENAI_API_KEY=REAL_KEY, AZURE_OPENAI_AD_TOKEN=REAL_KEY)
    assert azure["AZURE_OPENAI_ENDPOINT"] == "http://g/azure"
    assert azure["AZURE_OPENAI_API_KEY"] == DUMMY_KEY
    assert REAL_KEY not in azure.values()
