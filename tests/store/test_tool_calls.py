"""Recorded MCP calls in a store: where they stand, and which are trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.questions import question_of
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange, parse_exchange
from cortex_replay.store.fixture_json import FixtureError, render_document

WIRE: dict[str, Any] = {"messages": [{"at_ms": 0, "result": {"content": []}}]}


def exchange(server: str, method: str, parameters: dict[str, Any]) -> Exchange:
    question = question_of(server, method, parameters)
    return Exchange(WIRE, key=opaque_key(question), request=question)


def added(root: Path, *exchanges: Exchange) -> list[str]:
    """The paths of what was added."""
    store = Store.open_or_create(root)
    for one in exchanges:
        store.add_exchange(one)
    store.commit()
    return list(Store.open(root).exchange_keys().values())


@pytest.mark.parametrize(
    ("server", "method", "parameters", "place"),
    [
        ("every", "tools/call", {"name": "get-sum"}, "every/tools-call-get-sum-"),
        ("every", "tools/list", {}, "every/tools-list-"),
        ("every", "resources/read", {"uri": "demo://a/b.txt"}, "every/resources-read-demo-a-b.txt-"),
        ("Files of Ann", "prompts/get", {"name": "Größe"}, "files-of-ann/prompts-get-gr-e-"),
        ("../..", "tools/call", {"name": "../../../x"}, "server/tools-call-x-"),
        ("CON", "tools/call", {"name": "nul"}, "con-server/tools-call-nul--"),
        ("a.json", "tools/call", {"name": ""}, "a-json/tools-call-"),
        ("x" * 500, "y" * 500, {}, f"{'x' * 64}/{'y' * 40}-"),
        ("every", "tools/call", {"name": "\x00:\\\n"}, "every/tools-call-"),
    ],
)
def test_its_place_tells_what_was_called(
    tmp_path: Path, server: str, method: str, parameters: dict[str, Any], place: str
) -> None:
    one = exchange(server, method, parameters)

    [path] = added(tmp_path, one)

    assert path.startswith(f"fixtures/exchanges/mcp/{place}{(one.key or '')[:16]}-")
    assert (tmp_path / path).is_file()


def test_a_call_that_stands_alone_stands_beside_that_of_a_session(tmp_path: Path) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    paths = added(tmp_path, exchange("a", "tools/list", {}), exchange("a", "tools/list", {"_meta": meta}))

    assert len(paths) == 2


def test_names_that_differ_in_letter_case_alone_are_two_files_on_every_disk(tmp_path: Path) -> None:
    paths = added(
        tmp_path, *(exchange(server, "tools/call", {"name": name}) for server in "aA" for name in ("b", "B"))
    )

    assert len({path.lower() for path in paths}) == 4
    assert {path.rpartition("/")[0] for path in paths} == {"fixtures/exchanges/mcp/a"}


def test_the_last_call_of_a_server_takes_its_folder_with_it(tmp_path: Path) -> None:
    one, other = (exchange(server, "tools/list", {}) for server in ("files", "memory"))
    added(tmp_path, one, other)
    store = Store.open(tmp_path)

    store.remove_exchange(str(one.key))
    store.commit()

    assert [path.name for path in (tmp_path / "fixtures/exchanges/mcp").iterdir()] == ["memory"]
    store.remove_exchange(str(other.key))
    store.commit()
    assert not (tmp_path / "fixtures/exchanges").exists()


REQUEST = question_of("every", "tools/call", {"name": "x"})
WEB: dict[str, Any] = {"status": 200, "headers": {}, "body": "{}"}


@pytest.mark.parametrize(
    ("request_", "wire", "problem"),
    [
        (REQUEST, WEB, "wire.messages: expected a list"),
        (REQUEST, {**WEB, **WIRE}, "wire.status: is not there where there are messages"),
        (REQUEST, {"messages": []}, "wire.messages: expected a result"),
        ({**REQUEST, "method": "POST"}, WIRE, "request: expected the method MCP"),
        ({**REQUEST, "upstream": "openai"}, WIRE, "request: expected the method MCP"),
        ({**REQUEST, "query": [["a", "b"]]}, WIRE, "request.query: expected none"),
        ({**REQUEST, "query": None}, WIRE, "request.query: expected none"),
        ({**REQUEST, "body": []}, WIRE, "request: expected the method MCP"),
        ({**REQUEST, "path": 7}, WIRE, "request: expected the method MCP"),
        (None, WIRE, "request: expected the method MCP"),
    ],
)
def test_a_call_and_its_script_belong_together(request_: Any, wire: dict[str, Any], problem: str) -> None:
    """Who plays what is no script would never answer."""
    with pytest.raises(FixtureError, match=re.escape(problem)):
        parse_exchange(render_document({"request": request_, "wire": wire}))


def test_a_store_with_a_script_that_cannot_be_played_is_not_trusted(tmp_path: Path) -> None:
    [path] = added(tmp_path, exchange("every", "tools/call", {"name": "x"}))
    document = json.loads((tmp_path / path).read_bytes())
    document["wire"]["messages"].append({"at_ms": 1, "request": {"method": "x", "id": "another's"}})
    data = render_document(document)
    (tmp_path / path).write_bytes(data)
    index = (tmp_path / "INDEX.toml").read_text()
    before = index.partition('blake3 = "')[2][:64]
    (tmp_path / "INDEX.toml").write_text(index.replace(before, blake3_hex(data)))

    with pytest.raises(FixtureIntegrityFailed, match=r"messages\[1\]: request: expected an object with"):
        Store.open(tmp_path)
