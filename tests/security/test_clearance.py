"""Text that is labelled above a store's clearance is not recorded into it, on any road."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import (
    Answer,
    Fixture,
    InvalidRequest,
    LlmRequest,
    RecordingAdapter,
    RecordingRefused,
    Run,
    Store,
)
from cortex_replay.config import Settings
from cortex_replay.redact.clearance import clearance_for, places_above
from cortex_replay.redact.sensitivity import Sensitivity, may_hold_label
from cortex_replay.testing import EchoAdapter, Rule, ScriptedAdapter
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import FakeProvider, serving_in_thread, stream, whole
from tests.cli.commands import run as run_command
from tests.engine.http.harness import ask, body_of, request_for, run_over
from tests.engine.mcp.harness import Client, record as record_calls
from tests.gateway.upstream import model_server

CLAUDE = DIALECTS[0]
MESSAGES = "/anthropic/v1/messages"
EMBEDDINGS = "/openai/v1/embeddings"
LABELLED = "[SENSITIVITY:high] the plan"
HELLO = request_for("Hello.")


@pytest.fixture(autouse=True)
def _send_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs this may send whatever they like; the store does not become theirs by it."""
    monkeypatch.setenv("CORTEX_REPLAY_MAX_SENSITIVITY", "high")


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A model server that speaks every wire."""
    with model_server() as serving:
        yield serving


def stored(root: Path) -> int:
    return sum(LABELLED in path.read_text() for path in root.rglob("*.json"))


def raise_clearance(root: Path, level: str) -> None:
    root.mkdir(exist_ok=True)
    (root / "cortex-replay.toml").write_text(f'max_sensitivity = "{level}"\n')


async def record(root: Path, adapter: Any, request: LlmRequest) -> str:
    async with RecordingAdapter(adapter, root) as recorder:
        return (await recorder.complete(request)).text


def test_the_clearance_is_what_stands_beside_the_store(tmp_path: Path) -> None:
    """Not what the environment says; what is nearest to the store, wherever a program runs."""
    assert clearance_for(tmp_path / "llm") is Sensitivity.MEDIUM
    raise_clearance(tmp_path, "high")
    assert clearance_for(tmp_path / "llm") is Sensitivity.HIGH
    raise_clearance(tmp_path / "llm", "low")
    assert clearance_for(tmp_path / "llm") is Sensitivity.LOW


def test_an_adapter_asks_nothing_that_could_not_be_kept(tmp_path: Path) -> None:
    asked: list[LlmRequest] = []

    def note(request: LlmRequest) -> str:
        asked.append(request)
        return "Fine."

    adapter = ScriptedAdapter(note)
    with pytest.raises(InvalidRequest, match=r"messages\[0\].* above what this store may hold, the max_sens"):
        asyncio.run(record(tmp_path, adapter, request_for(LABELLED)))
    assert asked == []

    raise_clearance(tmp_path, "high")
    assert asyncio.run(record(tmp_path, adapter, request_for(LABELLED))) == "Fine."
    assert stored(tmp_path) == 1


def test_an_answer_of_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingRefused, match=r"may hold \(medium\) stands in response\.text; to keep it"):
        asyncio.run(record(tmp_path, ScriptedAdapter([Rule(say=f"Sure: {LABELLED}")]), HELLO))

    assert stored(tmp_path) == 0


@pytest.mark.parametrize("level", ["medium", "Top-Secret", ""])
def test_a_store_may_hold_less_than_the_default(level: str, tmp_path: Path) -> None:
    """A label that nobody knows counts as the highest."""
    raise_clearance(tmp_path, "low")
    with pytest.raises(InvalidRequest):
        asyncio.run(record(tmp_path, EchoAdapter(), request_for(f"[sens:{level}] x")))
    asyncio.run(record(tmp_path, EchoAdapter(), request_for("[sens:low] x")))

    assert len(Store.open(tmp_path)) == 1


@pytest.mark.parametrize("mode", ["once", "record"])
def test_over_http_nothing_is_sent_that_could_not_be_kept(
    mode: str, provider: FakeProvider, tmp_path: Path
) -> None:
    calls: list[tuple[str, object]] = [
        (MESSAGES, body_of("anthropic-messages", request_for(LABELLED))),
        (EMBEDDINGS, {"model": "m", "input": LABELLED}),
    ]
    with run_over(tmp_path, mode, provider.url, max_sensitivity="high") as run:
        for path, body in calls:
            got = ask(run, "POST", path, body)
            assert (got.status, got.headers["x-should-retry"]) == (400, "false")
            assert "above what this store may hold" in got.json["error"]["message"]
    assert provider.received == []

    with run_over(tmp_path, "live", provider.url, max_sensitivity="high") as run:
        assert [ask(run, "POST", path, body).status for path, body in calls] == [200, 200], "nothing is kept"
    assert stored(tmp_path) == 0


@pytest.mark.parametrize("is_branch", [False, True])
def test_an_answer_over_http_reaches_the_client_and_not_the_store(is_branch: bool, tmp_path: Path) -> None:
    """Whole or in pieces that cut the label in two; in the run's own staging area or in that of a test."""
    pieces = ("Sure: [SENSI", "TIVITY:high] the plan")
    asked = {flag: body_of("anthropic-messages", HELLO, stream=flag) for flag in (False, True)}
    with (
        serving_in_thread(
            whole(CLAUDE.answer(f"Sure: {LABELLED}")), stream(CLAUDE.events(*pieces))
        ) as provider,
        run_over(tmp_path, "record", provider.url, max_sensitivity="high") as run,
    ):
        run.open_scope("test", is_branch=is_branch)
        got = [ask(run, "POST", MESSAGES, asked[flag], scope="test") for flag in (False, True)]
        told = run.ledger.to_dict(run.store)

    assert LABELLED.encode() in got[0].body
    assert all(piece.encode() in got[1].body for piece in pieces)
    assert (told["recorded"], stored(tmp_path)) == (0, 0)
    assert len(Store.open_or_create(tmp_path)) == 0


def test_an_answer_that_is_kept_as_it_comes_is_refused_too(tmp_path: Path) -> None:
    with (
        serving_in_thread(whole({"data": [LABELLED]})) as provider,
        run_over(tmp_path, "once", provider.url, max_sensitivity="high") as run,
    ):
        assert LABELLED.encode() in ask(run, "POST", EMBEDDINGS, {"model": "m", "input": "x"}).body

    assert Store.open_or_create(tmp_path).exchange_keys() == {}


def test_the_command_line_says_what_to_do(tmp_path: Path) -> None:
    result = run_command(
        "record", "--store", tmp_path, "--provider", "echo", "--model", "m", "--prompt", LABELLED
    )

    assert result.exit_code == 2
    assert (
        "labelled above what this store may hold, the max_sensitivity of its configuration" in result.stderr
    )
    assert stored(tmp_path) == 0


def test_what_is_there_is_still_replayed(tmp_path: Path) -> None:
    """Somebody chose to keep it; a clearance is about what is added."""
    store = Store.create(tmp_path)
    store.add(Fixture.of(request_for(LABELLED), Answer("Fine.")))
    store.commit()
    adapter = Run(Settings(), "replay", tmp_path).adapter()

    assert asyncio.run(adapter.complete(request_for(LABELLED))).text == "Fine."


def test_places() -> None:
    document: Any = {"a": ["fine", {"[sens:high]": 1}], "b": {"c": LABELLED}, "d": "[sens:low]"}

    assert list(places_above(document, Sensitivity.MEDIUM)) == ["a name in a[1]", "b.c"]
    assert list(places_above(LABELLED, Sensitivity.LOW)) == ["the text"]
    assert list(places_above(document, Sensitivity.HIGH)) == []


@pytest.mark.parametrize("space", ["", *filter(str.isspace, map(chr, range(0x3001)))], ids=ascii)
def test_a_label_is_one_whatever_spaces_are_in_it(space: str) -> None:
    """And however a document with it is written: whoever looks at its bytes first misses none."""
    for label in (
        f"[{space}sens:high]",
        f"[{space}\N{LATIN SMALL LETTER LONG S}EN\N{LATIN SMALL LETTER LONG S}:high]",
    ):
        assert list(places_above(label, Sensitivity.MEDIUM)) == ["the text"]
        assert all(
            may_hold_label(json.dumps({"a": label}, ensure_ascii=flag).encode()) for flag in (False, True)
        )
        assert may_hold_label(orjson.dumps({"a": label}))


@pytest.mark.parametrize("label", [LABELLED, "[\N{NO-BREAK SPACE}sens:high]"])
@pytest.mark.parametrize("place", ["arguments", "answer", "bytes", "number"])
def test_a_call_of_a_tool_is_passed_on_and_not_kept(tmp_path: Path, label: str, place: str) -> None:
    encoded = base64.b64encode(label.encode()).decode()
    said: dict[str, Any] = {
        "answer": {"type": "text", "text": label},
        "bytes": {"type": "resource", "resource": {"uri": "a:b", "blob": encoded}},
        "number": {"type": "text", "text": label, "_meta": {"size": 2**70}},
    }
    reply = {"content": [said.get(place, {"type": "text", "text": "fine"})]}
    arguments = {"text": label if place == "arguments" else "fine"}

    async def act(client: Client) -> None:
        assert (await client.call("t", 1, **arguments))["result"] == reply

    record_calls(tmp_path, act, lambda message: [{"id": message["id"], "result": reply}])

    assert Store.open_or_create(tmp_path).exchange_keys() == {}
