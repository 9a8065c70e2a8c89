"""A model that was recorded, and then does something else: a scripted upstream for tests of drift."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.engine.http.harness import ask, run_over
from tests.gateway.upstream import REAL_KEY

__all__ = ["Model", "calls", "drifting_model", "says"]

Message = Mapping[str, Any]
Script = Callable[[int], Message | None]
"""What is said the n-th time, counted from 0; ``None`` for an error."""
_PATH: Final = "/openai/v1/chat/completions"


def says(text: str | None = None, finish_reason: str = "stop", **more: Any) -> Message:
    """An answer in words."""
    message = {"role": "assistant", "content": text, **more}
    return {"index": 0, "message": message, "finish_reason": finish_reason}


def calls(*named: tuple[str, Any], text: str | None = None) -> Message:
    """An answer that calls tools, each with its arguments."""
    made = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(named)
    ]
    return says(text, "tool_calls", tool_calls=made)


@dataclass
class Model:
    """What it says to each question, by the first word of it."""

    scripts: dict[str, Script] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    url: str = ""

    def learn(self, question: str, *messages: Message | None) -> None:
        """From now on it gives these answers in turn, the last one again and again."""
        self.scripts[question] = lambda n: messages[min(n, len(messages) - 1)]
        self.counts[question] = 0

    def record(self, bodies: Sequence[Mapping[str, Any]], times: int = 1, scope: str = "") -> None:
        """Have a client ask, and its answers recorded in this folder, whatever is there already."""
        with run_over(Path(), "record", self.url, every_answer=True) as run:
            for body in bodies:
                for _ in range(times):
                    got = ask(run, "POST", _PATH, body, scope=scope)
                    assert got.status == 200, got.body

    async def answer(self, exchange: Exchange) -> None:
        question = exchange.received.json["messages"][-1]["content"]
        number = self.counts[question]
        self.counts[question] += 1
        choice = self.scripts[question](number)
        if choice is None:
            await exchange.whole(b'{"error": {"message": "not now"}}', 400)
            return
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        body = {"id": f"c{number}", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
        await exchange.whole(json.dumps({**body, "choices": [choice]}).encode())


@contextmanager
def drifting_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """A model that the environment names, as it does for SDKs."""
    model = Model()
    with serving_in_thread(model.answer) as server:
        model.url = server.url
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
        yield model
