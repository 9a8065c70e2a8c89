"""What is to go by a report or by what was called, and what a report has to be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.prune import PruneCriteria, count_used, plan_prune, read_unused, read_unused_calls
from cortex_replay.store.tool_calls import StoredCall
from tests.builder import StoreBuilder

KEY = {"model": "m", "prompt_hash": "1" * 64}
OWN = {**KEY, "scope": "a test"}


def report(**lists: Any) -> bytes:
    return json.dumps({"unused": [], **lists}).encode()


def test_what_one_report_uses_stays_whatever_others_say() -> None:
    reports = [report(unused=[KEY, OWN]), report(used=[KEY, KEY])]

    assert read_unused(reports) == {("m", "1" * 64, "a test")}
    assert count_used([*reports, report(used=[KEY])]) == {("m", "1" * 64, ""): 2}


def test_calls_that_no_report_uses() -> None:
    unused = [{"key": "a"}, {"key": "b", "scope": "a test"}, {"key": "c"}]
    reports = [report(unused_calls=unused), report(used_exchanges=["c"]), report()]

    assert read_unused_calls(reports) == {("a", ""), ("b", "a test")}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "at line 1 column 2"),
        (b"[]", "expected an object with the list `unused`"),
        (b'{"used": []}', "expected an object with the list `unused`"),
        (report(unused=[{"model": "m"}]), "expected objects with model and prompt_hash in `unused`"),
        (report(used={"model": 1}), "expected objects with model and prompt_hash in `used`"),
    ],
)
def test_what_is_no_report_removes_nothing(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_unused([data])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (report(unused_calls={}), "expected a list in `unused_calls`"),
        (report(used_exchanges="a"), "expected a list in `used_exchanges`"),
        (report(unused_calls=[{"scope": "a"}]), "expected objects with key in `unused_calls`"),
    ],
)
def test_what_names_no_calls_removes_none(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_unused_calls([data])


def call(server: str, method: str, name: str, asked_at: str = "") -> Exchange:
    question = question_of(server, method, {"name": name})
    wire: dict[str, Any] = {"messages": [{"at_ms": 0, "result": {"content": []}}]}
    if asked_at:
        wire["meta"] = {"asked_at": asked_at}
    return Exchange(wire, key=opaque_key(question), request=question)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    builder = StoreBuilder(tmp_path / "store")
    builder.add("a question", "an answer")
    builder.write()
    store = builder.open()
    store.add_exchange(call("shop", "tools/call", "buy", "2026-01-01T00:00:00.000Z"))
    store.add_exchange(call("shop", "tools/call", "sell", "2026-03-01T00:00:00.000Z"))
    store.add_exchange(call("shop", "prompts/get", "buy"))
    store.add_exchange(call("files", "tools/call", "read"))
    store.commit()
    return Store.open(builder.root)


MARCH = datetime(2026, 2, 1, tzinfo=UTC)
BUY = opaque_key(question_of("shop", "tools/call", {"name": "buy"}))


@pytest.mark.parametrize(
    ("criteria", "going", "undated"),
    [
        (
            {"server": "shop"},
            ["prompt buy of server shop", "tool buy of server shop", "tool sell of server shop"],
            0,
        ),
        ({"server": "s*", "tool": "*"}, ["tool buy of server shop", "tool sell of server shop"], 0),
        ({"tool": "read"}, ["tool read of server files"], 0),
        ({"server": "shop", "recorded_before": MARCH}, ["tool buy of server shop"], 1),
        ({"server": "*", "unused_calls": frozenset({(BUY, "")})}, ["tool buy of server shop"], 0),
        ({"server": "*", "pattern": "*sell*"}, ["tool sell of server shop"], 0),
        ({"server": "*", "scope": "*"}, [], 0),
    ],
)
def test_calls_go_by_server_and_tool(
    store: Store, criteria: dict[str, Any], going: list[str], undated: int
) -> None:
    plan = plan_prune(store, PruneCriteria(**criteria))

    calls = [item for item in plan.going if isinstance(item, StoredCall)]
    assert sorted(item.what for item in calls) == going
    assert len(calls) == len(plan.going)
    assert (plan.staying, plan.undated) == (4 - len(going), undated)
    assert (plan.going_bytes > 0) == bool(going)

    plan.apply(store)
    left = Store.open(store.root)
    assert len(left.exchange_keys()) == 4 - len(going)
    assert not {item.key for item in calls} & left.exchange_keys().keys()
    assert len(left) == 1, "answers stay"
