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


def test_a_cache_has_a_price_for_reading_and_one_for_each_time_of_writing(tmp_path: Path) -> None:
    text = "cached = 0.3, cache_write_5m = 3.75, cache_write_1h = 6"
    prices = loaded(tmp_path, f"[prices]\nm = {{ input = 3, output = 15, {text} }}\n")

    assert prices == {"m": Price(3, 15, cached=0.3, cache_write_5m=3.75, cache_write_1h=6)}


def test_the_one_price_of_former_files_is_read_as_both(tmp_path: Path) -> None:
    """With one warning for a file, however many models it has; a price of its own goes before it."""
    (tmp_path / "cortex-replay.toml").write_text(
        "[prices]\nm = { input = 3, output = 15, cache_write = 3.75 }\n"
        "n = { input = 3, output = 15, cache_write_1h = 6, cache_write = 3.75 }\n"
    )
    read = load_settings(tmp_path, {}, {})

    assert read.settings.prices == {
        "m": Price(3, 15, cache_write_5m=3.75, cache_write_1h=3.75),
        "n": Price(3, 15, cache_write_5m=3.75, cache_write_1h=6),
    }
    (warning,) = read.warnings
    assert "cortex-replay.toml: prices: cache_write is read as cache_write_5m and cache_write_1h" in warning
    (tmp_path / "cortex-replay.toml").write_text("[prices]\nm = { input = 3, output = 15, cached = 1 }\n")
    assert load_settings(tmp_path, {}, {}).warnings == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[prices]\nm = 3\n", "expected a table"),
        ("[prices]\nm = { input = 3 }\n", "lacks output"),
        ("[prices]\nm = { input = 3, output = -1 }\n", "expected a number from 0"),
        ("[prices]\nm = { input = true, output = 1 }\n", "expected a number from 0"),
        ("[prices]\nm = { input = 3, output = inf }\n", "expected a number from 0"),
        ("[prices]\nm = { input = 3, output = 1, cache_write = -1 }\n", "m.cache_write: expected a number"),
        ("[prices]\nm = { input = 3, output = 1, cache_write_1h = -1 }\n", "m.cache_write_1h: expected"),
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
