"""A model server on loopback that says what it is told to, and repeats what it should not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Exchange, Script, serving_in_thread, whole

__all__ = ["Upstream", "cuts", "upstream"]

_TAG: Final = re.compile(r"tag-\d{5}")
_BY_PATH: Final = {
    "/v1/messages": DIALECTS[0],
    "/v1/chat/completions": DIALECTS[1],
    "/v1/responses": DIALECTS[2],
    "/api/chat": DIALECTS[3],
}


@dataclass
class Upstream:
    """Answers by the tag that stands in a request."""

    url: str = ""
    answers: dict[str, Script] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    """The tags that came here."""

    @property
    def variables(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OLLAMA_HOST": self.url,
        }

    async def answer(self, exchange: Exchange) -> None:
        received = exchange.received
        text = "\n".join([received.path, *received.headers.values(), received.body.decode("latin-1")])
        tag = match[0] if (match := _TAG.search(text)) else ""
        self.asked.add(tag)
        script = self.answers.get(tag)
        if script is None:
            dialect = _BY_PATH.get(received.path.partition("?")[0])
            script = whole({"fine": True} if dialect is None else dialect.answer(f"Fine, {tag}."))
        await script(exchange)


@contextmanager
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    with serving_in_thread(made.answer) as provider:
        made.url = provider.url
        yield made


def cuts(random: Random, text: str) -> list[str]:
    """The text in pieces, cut at random places: some of one character, none empty."""
    pieces = []
    while text:
        size = random.choice([1, 2, 3, 5, 8, 13, 21])
        pieces.append(text[:size])
        text = text[size:]
    return pieces
