"""A batch of Anthropic's, as its SDK polls it and follows the link to its results."""

from __future__ import annotations

import json

import anthropic
import pytest

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.links import lead_through
from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.gateway.conftest import Opened

RESULT = {"custom_id": "a", "result": {"type": "canceled"}}


class _Batches:
    """A provider whose batch ends with a later look at it, or with the first."""

    def __init__(self, last_look: int) -> None:
        self.url = ""
        self.looks = 0
        self._last_look = last_look

    async def answer(self, exchange: Exchange) -> None:
        if exchange.received.path.endswith("/results"):
            await exchange.whole(json.dumps(RESULT).encode() + b"\n")
            return
        self.looks += 1
        is_over = self.looks >= self._last_look
        link = f"{self.url}/v1/messages/batches/b1/results" if is_over else None
        batch = {
            "id": "b1",
            "type": "message_batch",
            "processing_status": "ended" if is_over else "in_progress",
            "results_url": link,
        }
        await exchange.whole(json.dumps(batch).encode())


def poll(gateway: Gateway, key: str) -> list[str]:
    """What a program sees that waits for a batch and reads its results."""
    with anthropic.Anthropic(
        base_url=gateway.url("anthropic", scope="batches"), api_key=key, max_retries=0
    ) as client:
        seen = [client.messages.batches.retrieve("b1").processing_status for _ in range(2)]
        return [*seen, *(result.custom_id for result in client.messages.batches.results("b1"))]


@pytest.mark.parametrize(("last_look", "seen"), [(3, "in_progress"), (1, "ended")])
def test_a_batch_is_polled_and_its_results_come_through_the_gateway(
    opened: Opened, last_look: int, seen: str
) -> None:
    batches = _Batches(last_look)
    with serving_in_thread(batches.answer) as provider:
        batches.url = provider.url
        with opened("record", provider.url) as gateway:
            recorded = poll(gateway, "cortex-replay-dummy-key")
    asked = [received.path for received in provider.received]

    with opened() as gateway:
        replayed = poll(gateway, "none")

    assert recorded == [seen, seen, "a"]
    assert replayed == recorded
    assert asked == ["/v1/messages/batches/b1"] * 3 + ["/v1/messages/batches/b1/results"]


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (
            "https://api.example.com/team/v1/messages/batches/b/results",
            "http://127.0.0.1:1/s-a/anthropic/v1/messages/batches/b/results",
        ),
        ("https://files.example.com/b.jsonl", "https://files.example.com/b.jsonl"),
    ],
)
def test_only_links_to_results_at_the_provider_s_api_are_changed(link: str, expected: str) -> None:
    reply = HttpReply(200, (), json.dumps({"data": [{"results_url": link, "other": link}]}).encode())

    led = lead_through(reply, "http://127.0.0.1:1/s-a/anthropic")

    assert json.loads(led.body) == {"data": [{"results_url": expected, "other": link}]}
