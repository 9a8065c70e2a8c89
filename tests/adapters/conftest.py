"""The server that the adapters are tested against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cortex_replay.adapters.http import client
from tests.servers.llamacpp import is_available, start_llamacpp

# Its assertions should show what they compared, as those of a test module do.
pytest.register_assert_rewrite("tests.adapters.conformance")

API_KEY = "sesame"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between attempts that fail; a test that counts them sets its own."""
    monkeypatch.setattr(client, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server, which wants a key; its URL."""
    if not is_available():
        pytest.skip("xllamacpp has no wheel for this platform")
    with start_llamacpp(tmp_path_factory.mktemp("llamacpp"), api_key=API_KEY) as url:
        yield url
