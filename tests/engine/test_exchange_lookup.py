"""Calls that are recorded as they are: what is bound in them, where, and what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.engine.exchange_lookup import look_again_for_exchange, look_up_exchange
from cortex_replay.engine.http.opaque import opaque_exchange, opaque_key
from cortex_replay.store.exchange import Exchange, parse_exchange, render_exchange

HERE, THERE = (
    Binder(BindingRules(), Surroundings({"cwd": {"": folder}, "host": {"": host}}))
    for folder, host in (("/home/ann/shop", "ann-laptop"), ("/builds/7", "runner-9"))
)
UUIDS = "3f2b8c1e-9a54-4d6f-8e21-5b7c0d9e4a11", "0b9d3f61-27c4-4e0a-9c3d-71f2a8b6e5d0"


def call(host: str, folder: str, *, upstream: str = "", uuid: str = UUIDS[0], body: Any = None) -> Any:
    return {
        "upstream": upstream or f"http://{host}:8000",
        "method": "POST",
        "path": f"/on/{host}",
        "query": [["in", folder]],
        "body": {"session": uuid} if body is None else body,
    }


def test_a_server_on_this_machine_is_one_on_another() -> None:
    """Its name is bound in the URL of the server, in the path, and in where a redirect leads."""
    wire: dict[str, Any] = {
        "status": 302,
        "headers": {"location": "http://ann-laptop:8000/next", "content-type": "text/plain"},
        "body": "Go on in /home/ann/shop.",
    }
    look = look_up_exchange(HERE, call("ann-laptop", "/home/ann/shop"))
    stored = look.bind(Exchange(wire))
    there = look_up_exchange(THERE, call("runner-9", "/builds/7"))

    assert there.key == look.key == opaque_key(stored.request or {})
    assert parse_exchange(render_exchange(stored)) == stored
    assert "ann" not in str(stored)
    assert look.fill(stored).wire == wire
    assert there.fill(stored).wire == {
        "status": 302,
        "headers": {"location": "http://runner-9:8000/next", "content-type": "text/plain"},
        "body": "Go on in /builds/7.",
    }
    assert wire["headers"]["location"] == "http://ann-laptop:8000/next", "a client still needs it"


@pytest.mark.parametrize(("upstream", "is_one"), [("openai", True), ("http://runner-9:8000", False)])
def test_ids_are_numbered_where_a_model_is_asked(upstream: str, is_one: bool) -> None:
    """Elsewhere an id names a thing."""
    asked = [call("runner-9", "/builds/7", upstream=upstream, uuid=uuid) for uuid in UUIDS]
    one, other = (look_up_exchange(THERE, one).key for one in asked)

    assert (one == other) is is_one


def test_where_nothing_is_bound_the_key_is_the_plain_one() -> None:
    asked = call("somewhere", "/else", upstream="openai", body={"input": "text"})

    assert look_up_exchange(HERE, asked).key == opaque_key(asked)
    assert look_up_exchange(HERE, asked).bind(Exchange({"status": 200, "body": "x"})).meta is None


def test_a_call_that_was_recorded_without_bindings_is_found(tmp_path: Path) -> None:
    """By its own words, here; elsewhere they are others."""
    asked = call("ann-laptop", "/home/ann/shop")
    store = Store.create(tmp_path)
    store.add_exchange(opaque_exchange(asked, {"status": 200, "headers": {}, "body": "yes"}))
    store.commit()
    here, there = look_up_exchange(HERE, asked), look_up_exchange(THERE, call("runner-9", "/builds/7"))
    assert store.exchange(here.key) is None

    found = look_again_for_exchange(store, "", here)

    assert found is not None
    assert found.key == opaque_key(asked)
    assert look_again_for_exchange(store, "", there) is None
