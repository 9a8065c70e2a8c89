"""Calls that go on from a response which the provider holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import LlmRequest
from cortex_replay.history.cache_report import CacheReport, report_cache
from cortex_replay.history.calls import read_calls
from cortex_replay.history.continuations import whole_requests
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.types import TokenUsage

MODEL = "gpt-5.1"
LONG = "And why is that? " * 400


def answer(name: str, usage: TokenUsage, *, is_stream: bool) -> Answer:
    text = {"type": "output_text", "text": "Because.", "annotations": []}
    body = {
        "id": name,
        "object": "response",
        "status": "completed",
        "model": MODEL,
        "output": [{"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}],
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
    }
    wire: dict[str, Any] = {"body": json.dumps(body)}
    if is_stream:
        parts: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**body, "status": "in_progress", "output": []}},
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "delta": "Because.",
            },
            {"type": "response.completed", "response": body},
        ]
        texts = [f"event: {part['type']}\ndata: {json.dumps(part)}\n\n" for part in parts]
        wire = {"events": [{"at_ms": at, "text": text} for at, text in enumerate(texts)]}
    head: dict[str, Any] = {"protocol": "openai-responses", "stream": is_stream, "status": 200, "headers": {}}
    return Answer("Because.", usage=usage, wire={**head, **wire})


def report(root: Path, *rows: tuple[str, dict[str, Any], int, int], is_stream: bool = False) -> CacheReport:
    """Of calls: what is asked, what it goes on from, what was counted and read."""
    store = Store.create(root)
    for i, (text, extra, tokens, read) in enumerate(rows):
        request = LlmRequest(MODEL, "Be kind.", [{"role": "user", "content": text}], extra=extra)
        meta: Any = {
            "wire": "openai-responses",
            "provider": "openai",
            "asked_at": f"2026-11-16T06:30:{i:02}.000Z",
        }
        said = answer(f"resp_{i}", TokenUsage(tokens, 9, read), is_stream=is_stream)
        store.add(Fixture.of(request, said, meta=meta))
    store.commit()
    return report_cache(read_calls(Store.open(root)).calls)


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_the_provider_held_comes_first(tmp_path: Path, is_stream: bool) -> None:
    found = report(
        tmp_path,
        (LONG, {}, 2710, 0),
        ("So?", {"previous_response_id": "resp_0"}, 2722, 2688),
        ("And?", {"previous_response_id": "resp_1"}, 2990, 2688),
        is_stream=is_stream,
    )

    assert [call.simulated.read for call in found.calls if call.simulated] == [0, 2688, 2688]
    assert not any(call.differs or call.is_estimate for call in found.calls)
    assert found.notes == ()


@pytest.mark.parametrize(
    "extra",
    [
        {"previous_response_id": "resp_of_yesterday"},
        {"previous_response_id": {"id": ["resp_1"]}},
        {"conversation": "conv_1"},
    ],
)
def test_what_nobody_recorded_is_not_made_up(tmp_path: Path, extra: dict[str, Any]) -> None:
    found = report(
        tmp_path, ("So?", extra, 2722, 2688), ("And?", {"previous_response_id": "resp_0"}, 2740, 2688)
    )

    assert [call.simulated for call in found.calls] == [None, None]
    assert [call.reported.read for call in found.calls if call.reported] == [2688, 2688]
    (note,) = found.notes
    assert note == (
        "2 calls were not simulated, because what the provider held before is not among these calls."
    )


def test_calls_are_joined_one_by_one(tmp_path: Path) -> None:
    """Whoever bounds what is replayed stops before all of it is there."""
    rows = [(f"{i}?", {"previous_response_id": f"resp_{i - 1}"} if i else {}, 20 + i, 0) for i in range(3)]
    report(tmp_path, *rows)
    calls = read_calls(Store.open(tmp_path)).calls

    joined = whole_requests(calls)

    assert next(joined) is calls[0].request
    assert [len(request.messages) for request in joined if request is not None] == [3, 5]
