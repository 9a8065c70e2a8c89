"""Random conversations with llama.cpp's server, token by token, and what it says that it read of each prompt.

Run as a program it writes the few that ``make test`` goes by::

    python -m integration.llamacpp_conversations
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from tests.servers.llamacpp import start_llamacpp

__all__ = ["LETTERS", "SERVERS", "Call", "Kind", "talk"]

VECTORS: Final = Path(__file__).parents[1] / "tests" / "vectors" / "llamacpp_cache.jsonl"
FIRST_BYTE: Final = 3
"""The token of the byte 0 in the tiny model."""
LETTERS: Final = (390, 391, 397)
"""Tokens of single letters. The model speaks in words that its own tokenizer takes apart, so an answer that
comes back is read only if it was made to consist of these."""
WORDS: Final = (
    *("hello", "weather", "in", "Paris", "umbrella", "tell", "me", "more", "café", "日本", "🙂"),
    *("#json", "#unicode", "#forever", "#think"),
)


class Kind(NamedTuple):
    """How a server is started."""

    slots: int
    is_unified: bool
    has_host: bool

    @property
    def options(self) -> list[str]:
        more = ["--cache-slots", str(self.slots), "--cache-ram", "512" if self.has_host else "0"]
        return [*more, *["--unified"] * self.is_unified]


SERVERS: Final = (
    Kind(1, False, False),
    Kind(1, False, True),
    Kind(3, False, False),
    Kind(3, False, True),
    Kind(4, True, True),
)


class Call(NamedTuple):
    """A call as the server had it."""

    prompt: list[int]
    reply: list[int]
    """What it generated and evaluated: all but the last token, which only ends the answer."""
    read: int
    """How many tokens of the prompt it says it had."""


def talk(client: httpx.Client, lot: random.Random, most_words: int = 30) -> Iterator[Call]:
    """A conversation, and one that it is switched with: they grow, fork and are edited anywhere."""
    turns, others = _start(lot, most_words), _start(lot, most_words)
    if lot.random() < 0.5:
        others[0] = turns[0]
    for _ in range(lot.randint(4, 9)):
        match lot.choice(["grow", "grow", "grow", "edit", "fork", "switch", "again"]):
            case "switch":
                turns, others = others, turns
            case "fork":
                del turns[lot.randint(1, len(turns)) :]
            case "edit":
                at = lot.choice([0, len(turns) // 2, len(turns) - 1])
                content = turns[at]["content"]
                kept = content[: lot.randint(0, len(content))]
                turns[at] = {**turns[at], "content": f"{kept} {_text(lot, most_words)}"}
            case "again" if turns[-1]["role"] == "assistant":
                turns.pop()
        if turns[-1]["role"] != "user":
            turns.append({"role": "user", "content": _text(lot, most_words)})
        # The bytes of a character that was cut are not named.
        is_whole = any("#unicode" in turn["content"] for turn in turns)
        letter = lot.choice([None, *LETTERS])
        call, answer = _ask(client, turns, 40 if is_whole else lot.choice([1, 2, 5, 40]), letter)
        yield call
        turns.append({"role": "assistant", "content": answer})


def _start(lot: random.Random, most_words: int) -> list[dict[str, str]]:
    system = lot.choice(["", _text(lot, most_words), _text(lot, most_words)])
    return [{"role": "system", "content": system}, {"role": "user", "content": _text(lot, most_words)}]


def _text(lot: random.Random, most_words: int) -> str:
    return " ".join(lot.choice(WORDS) for _ in range(lot.randint(1, most_words)))


def _ask(
    client: httpx.Client, turns: list[dict[str, str]], most: int, letter: int | None
) -> tuple[Call, str]:
    question: dict[str, Any] = {
        "model": "tiny",
        "messages": turns,
        "max_tokens": most,
        "logprobs": True,  # the only place where it names the tokens that it generated
        "top_logprobs": 1,
    }
    if letter is not None:
        question["logit_bias"] = [[letter, 100]]
    text = _post(client, "/apply-template", question)["prompt"]
    prompt = _post(client, "/tokenize", {"content": text, "add_special": True, "parse_special": True})[
        "tokens"
    ]
    answer = _post(client, "/v1/chat/completions", question)
    usage = answer["usage"]
    read = usage["prompt_tokens_details"]["cached_tokens"]
    choice = answer["choices"][0]
    generated = [token for named in choice["logprobs"]["content"] for token in _tokens(named)]
    assert usage["prompt_tokens"] == len(prompt), "the template and the tokenizer are not those of the call"
    evaluated = usage["completion_tokens"] - 1
    assert len(generated) == evaluated + 1, "not every token was named"
    assert answer["timings"]["cache_n"] == read
    return Call(prompt, generated[:evaluated], read), choice["message"].get("content") or ""


def _tokens(named: Any) -> list[int]:
    """A token, or those of the bytes of a character, of which only the last is named."""
    spelled = named["bytes"]
    if len(spelled) > 1 and named["id"] == FIRST_BYTE + spelled[-1]:
        return [FIRST_BYTE + byte for byte in spelled]
    return [named["id"]]


def _post(client: httpx.Client, path: str, body: Any) -> Any:
    return client.post(path, json=body).raise_for_status().json()


def main() -> None:
    lines = []
    for number, kind in enumerate(SERVERS):
        with (
            tempfile.TemporaryDirectory() as folder,
            start_llamacpp(Path(folder), options=kind.options) as url,
            httpx.Client(base_url=url, trust_env=False) as client,
        ):
            calls = [call for i in range(3) for call in talk(client, random.Random(100 * number + i), 4)]
        lines.append(json.dumps({"server": kind, "calls": calls}, separators=(",", ":")) + "\n")
    VECTORS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
