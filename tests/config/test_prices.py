"""What models cost, and the providers that only the gateway asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.config import Price, ProviderSettings, load_settings
from cortex_replay.errors import ConfigError, InvalidRequest


def loaded(tmp_path: Path, text: str) -> dict[str, Price]:
    (tmp_path / "cortex-replay.toml").write_text(text)
    return dict(load_settings(tmp_path, {}, {}).settings.prices)


def test_prices_by_model(tmp_path: Path) -> None:
    """A model's name may hold anything."""
    prices = loaded(tmp_path, '[prices]\n"llama3.1:8b" = { input = 0, output = 0.5 }\n')

    assert prices == {"llama3.1:8b": Price(0.0, 0.5)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[prices]\nm = 3\n", "expected a table"),
        ("[prices]\nm = { input = 3 }\n", "lacks output"),
        ("[prices]\nm = { input = 3, output = -1 }\n", "expected a number from 0"),
        ("[prices]\nm = { input = true, output = 1 }\n", "expected a number from 0"),
        ("[prices]\nm = { input = 3, output = inf }\n", "expected a number from 0"),
        ("[prices]\nm = { inptu = 3, output = 1 }\n", "did you mean"),
    ],
)
def test_what_is_no_price(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        loaded(tmp_path, text)


def test_a_server_of_no_known_kind_needs_its_url() -> None:
    with pytest.raises(InvalidRequest, match="base_url"):
        ProviderSettings(kind="http")
    assert ProviderSettings(kind="http", base_url="https://example.com").key_variables == ()
