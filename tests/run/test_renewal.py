"""A stored request is asked again with the values of today, or it is said why it cannot be."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cortex_replay import LlmRequest, Store
from cortex_replay.bindings import Binder, BindingRules, Bound, PlaceRule, Surroundings
from cortex_replay.run.renewal import renew
from tests.builder import ask
from tests.cli.commands import run
from tests.engine.http.harness import PATHS, ask as call, body_of, run_over
from tests.gateway.upstream import REAL_KEY, model_server

UUIDS = "3f2b8c1e-9a54-4d6f-8e21-5b7c0d9e4a11", "0b9d3f61-27c4-4e0a-9c3d-71f2a8b6e5d0"
THEN = datetime(2026, 11, 15, 12, tzinfo=UTC)
TEXT = f"{THEN:%Y-%m-%d}: {UUIDS[0]}, {UUIDS[1]}, {UUIDS[0]} in /home/ann/shop, 01JCQ8Z3V5K7M9P2R4T6W8X0YA"


def bound_by(binder: Binder, request: LlmRequest) -> tuple[LlmRequest, tuple[str, ...]]:
    bound = binder.bind(request)
    return bound.request, bound.names


def binder_at(folder: str, now: datetime | None = None, *rules: PlaceRule) -> Binder:
    clock = None if now is None else lambda: now
    return Binder(BindingRules(rules=rules), Surroundings.of({"TZ": "UTC"}, folder, now=clock))


def test_known_values_are_those_of_today_and_ids_are_new() -> None:
    stored, names = bound_by(binder_at("/home/ann/shop", THEN), ask(TEXT))
    today = binder_at("/builds/7/shop")

    renewed = renew(stored, names, today)

    assert isinstance(renewed, Bound)
    text = renewed.request.messages[-1].content
    one, other, again = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", text)
    assert one == again != other
    assert not {one, other} & {*UUIDS}
    assert f"{datetime.now(UTC):%Y-%m-%d}" in text
    assert "/builds/7/shop" in text
    assert "⟦" not in text
    assert today.bind(renewed.request).request == stored


def test_what_only_a_program_knows_is_not_made_up() -> None:
    rule = PlaceRule(bind="duration", before="took ", after="")
    then = binder_at("/home/ann/shop", THEN, rule)
    stored, names = bound_by(then, ask("It took 3.2 s."))

    assert "⟦duration#1⟧" in stored.messages[-1].content
    assert renew(stored, names, then) == "its request holds values that are not known here: duration"


def test_what_is_bound_no_longer_is_not_asked() -> None:
    """Its key would be another one."""
    stored, names = bound_by(binder_at("/home/ann/shop", THEN), ask("in /home/ann/shop"))
    today = Binder(BindingRules(off=("cwd",)), Surroundings.of({}, "/builds/7/shop"))

    assert isinstance(renew(stored, names, today), str)


@pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "streamed"])
def test_a_refresh_elsewhere_asks_with_its_own_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream_it: bool
) -> None:
    """And what comes back is compared with what was recorded as if nothing had moved."""
    there = tmp_path / "elsewhere"
    there.mkdir()
    known = Surroundings.of({"TZ": "UTC"}, "/home/ann/shop", now=lambda: THEN)
    # The server is that very machine.
    surroundings = replace(known, values={**known.values, "host": {"": "127.0.0.1"}})
    monkeypatch.setattr("cortex_replay.bindings.machine.hosts", lambda _: ["127.0.0.1"])
    monkeypatch.chdir(there)
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
    body = body_of("openai-chat", ask(TEXT), stream=stream_it)
    with model_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        with run_over(tmp_path / "llm", "once", server.url, surroundings=surroundings) as recording:
            assert call(recording, "POST", PATHS["openai-chat"], body).status == 200
        before = (tmp_path / "llm/INDEX.toml").read_bytes()
        checked = run("refresh", "--check", "--store", str(tmp_path / "llm"))
        written = run("refresh", "--store", str(tmp_path / "llm"))
        asked = server.received[-1].json["messages"][-1]["content"]

    assert checked.exit_code == 0, checked.output
    assert "1 asked again, 0 differ, 0 failed, 0 not asked" in checked.stdout
    assert "1 asked again, 0 replaced" in written.stdout
    assert str(there) in asked
    assert "/home/ann" not in asked
    assert (tmp_path / "llm/INDEX.toml").read_bytes() == before
    (stored,) = Store.open(tmp_path / "llm").list()
    meta = Store.open(tmp_path / "llm").get(stored.model, stored.prompt_hash).meta or {}
    assert meta["bindings"] == ["cwd", "date", "ulid", "uuid"]
    assert str(meta["upstream"]).startswith("http://⟦host⟧:")
