"""What is said about a call that is recorded as it is, and was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.opaque import opaque_exchange, opaque_key
from cortex_replay.misses.explanation import explain_opaque_miss
from cortex_replay.misses.nearest import nearest_exchange
from cortex_replay.redact.redactor import Redactor

HOW = "pytest --llm-mode once"
WIRE: dict[str, JsonValue] = {"status": 200, "headers": {}, "body": "{}"}
TEXT = "What is the capital of France, and what is that of Norway? Say it in one sentence."


def call(
    body: JsonValue = None,
    path: str = "/v1/embeddings",
    method: str = "POST",
    upstream: str = "openai",
    query: list[JsonValue] | None = None,
) -> dict[str, JsonValue]:
    return {"upstream": upstream, "method": method, "path": path, "query": query or [], "body": body}


def store_of(root: Path, *calls: dict[str, JsonValue]) -> Store:
    store = Store.create(root)
    for request in calls:
        store.add_exchange(opaque_exchange(request, WIRE))
    store.commit()
    return store


def told(store: Store, asked: dict[str, JsonValue], *secrets: str) -> list[str]:
    """The lines between the first and the last, which are looked at here."""
    key = opaque_key(asked)
    redactor = Redactor(known=secrets)
    first, *lines, last = explain_opaque_miss(store, asked, key, HOW, redactor).split("\n")

    what = f"{asked['method']} {asked['path']} of {asked['upstream']}"
    assert first == f"cortex-replay: nothing is recorded for {what} ({key[:16]})."
    assert last == f"To record it: {HOW}"
    return lines


@pytest.mark.parametrize(
    ("asked", "difference"),
    [
        (call({"model": "small", "input": "Hi"}), "body.input: 'Hello' → 'Hi'"),
        (call({"model": "large", "input": "Hello"}), "body.model: 'small' → 'large'"),
        (call({"model": "small", "input": "Hello", "dimensions": 3}), "body.dimensions: nothing → 3"),
        (call({"model": "small", "input": "Hello"}, query=[["v", "2"]]), "query.v: nothing → '2'"),
        (call({"model": "small", "input": "Hello"}, upstream="mistral"), "upstream: 'openai' → 'mistral'"),
    ],
)
def test_the_nearest_call_and_what_differs(
    tmp_path: Path, asked: dict[str, JsonValue], difference: str
) -> None:
    there = call({"model": "small", "input": "Hello"})
    store = store_of(tmp_path, there, call(path="/v1/models", method="GET"))

    assert told(store, asked) == [
        f"Nearest: {store.exchange_keys()[opaque_key(there)]}. It differs in:",
        f"  {difference}",
    ]


def test_a_call_with_its_method_and_path_is_nearer_than_one_with_its_body(tmp_path: Path) -> None:
    body: JsonValue = {"model": "small", "input": TEXT}
    there = call({"model": "other", "input": "Another thing."})
    store = store_of(tmp_path, there, call(body, path="/v1/moderations"), call(body, method="PUT"))
    nearest = nearest_exchange(store, call(body))

    assert nearest is not None
    assert nearest.request == there


def test_a_body_that_quotes_the_path_is_no_call_of_it(tmp_path: Path) -> None:
    there = call({"input": "Hello"}, path="/v1/audio")
    quoting = call({"path": "/v1/embeddings", "method": "POST", "upstream": "openai"}, path="/v1/other")
    nearest = nearest_exchange(store_of(tmp_path, quoting, there), call({"input": "Hello"}))

    assert nearest is not None
    assert nearest.request == there


def test_a_store_without_such_calls_says_so(tmp_path: Path) -> None:
    assert told(store_of(tmp_path), call()) == ["No call of this kind is recorded in this store yet."]


def test_no_secret_is_told(tmp_path: Path) -> None:
    secret = "swordfish-9917-of-the-north"
    store = store_of(tmp_path, call({"input": f"It was {secret}, I think", "n": 1}))
    lines = told(store, call({"input": f"It is {secret}, I know", "n": 2}, query=[["q", secret]]), secret)

    assert secret not in "\n".join(lines)
    assert any(line.startswith("  body.n: 1 → 2") for line in lines)


def test_what_a_terminal_would_obey_is_spelled_out(tmp_path: Path) -> None:
    lines = explain_opaque_miss(
        store_of(tmp_path, call("a")), call("b\x1b[2J", path="/\x1b[2J"), "0" * 64, HOW, Redactor()
    )

    assert "\x1b" not in lines


def test_a_file_that_was_changed_is_never_shown(tmp_path: Path) -> None:
    store = store_of(tmp_path, call({"input": "one"}), call({"input": "two"}))
    path = tmp_path / store.exchange_keys()[opaque_key(call({"input": "one"}))]
    path.write_bytes(path.read_bytes().replace(b"one", b"onf"))
    nearest = nearest_exchange(Store.open(tmp_path, verify="on-read"), call({"input": "onf!"}))

    assert nearest is not None
    assert nearest.request == call({"input": "two"})
