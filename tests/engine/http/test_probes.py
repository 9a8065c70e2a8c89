"""Which calls a program can do without."""

from __future__ import annotations

import pytest

from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.opaque import is_probe
from cortex_replay.engine.http.routes import Route


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/models", True),
        ("GET", "/v1/models/gpt-6-luna", True),
        ("HEAD", "/", True),
        ("GET", "/health", True),
        ("GET", "/api/tags", True),
        ("GET", "/api/version/", True),
        ("POST", "/v1/models", False),
        ("POST", "/v1/embeddings", False),
        ("POST", "/v1/messages/count_tokens", False),
        ("GET", "/v1/batches/batch_1", False),
        ("GET", "/v1/files/file-1/content", False),
        ("DELETE", "/v1/models/mine", False),
    ],
)
def test_a_probe_asks_what_a_server_is(method: str, path: str, expected: bool) -> None:
    """The rest is what a program asked for, and needs."""
    assert expected is is_probe(Call(method, Route("openai", path, None), "", (), b""))


def test_another_server_is_no_model() -> None:
    """What a program reads there is what it is there for: a list of models as much as a picture."""
    route = Route("https://example.com", "/models", None)

    assert not is_probe(Call("GET", route, "", (), b""))
