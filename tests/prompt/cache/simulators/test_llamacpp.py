"""llama.cpp's cache, by what its server said of a few conversations, and by runs worked out by hand.

``integration/test_llamacpp_cache.py`` holds 200 conversations against the server itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.simulators.llamacpp import LlamaCppCache, LlamaCppServer

VECTORS = (Path(__file__).parents[3] / "vectors" / "llamacpp_cache.jsonl").read_text(encoding="utf-8")
ONE = LlamaCppServer(slots=1, is_unified=False, host_tokens=0)


def blocks(text: str) -> tuple[CacheBlock, ...]:
    """A token for each character."""
    return tuple(CacheBlock(token, Place.MESSAGES, token, 1) for token in text)


def call(prompt: str, reply: str = "", model: str = "tiny") -> CacheCall:
    return CacheCall("llamacpp", model, 0.0, blocks(prompt), reply=blocks(reply))


def reads(server: LlamaCppServer, *calls: CacheCall) -> list[int]:
    cache = LlamaCppCache(server=server)
    outcomes = [cache.ask(call) for call in calls]
    assert [outcome.tokens for outcome in outcomes] == [call.tokens for call in calls]
    return [outcome.read for outcome in outcomes]


@pytest.mark.parametrize("line", VECTORS.splitlines(), ids=lambda line: line[11:30])
def test_it_reads_what_a_server_said_that_it_read(line: str) -> None:
    document = json.loads(line)
    slots, is_unified, has_host = document["server"]
    cache = LlamaCppCache(server=LlamaCppServer(slots, is_unified, 10**9 if has_host else 0))

    simulated = []
    for *sent, _ in document["calls"]:
        prompt, reply = [
            tuple(CacheBlock("", Place.MESSAGES, str(token), 1) for token in tokens) for tokens in sent
        ]
        simulated.append(cache.ask(CacheCall("llamacpp", "tiny", 0.0, prompt, reply=reply)).read)

    assert simulated == [read for _, _, read in document["calls"]]


def test_at_least_one_token_is_evaluated() -> None:
    assert reads(ONE, call("abcd"), call("abcd"), call("abc")) == [0, 3, 2]


def test_what_was_generated_is_read_too() -> None:
    """A client that sends the answer back as it came has it read."""
    assert reads(ONE, call("ab", "cd"), call("abcdef")) == [0, 4]
    assert reads(ONE, call("ab"), call("abcdef")) == [0, 2]


def test_a_slot_forgets_what_it_does_not_share() -> None:
    """There is no step and no minimum; but what a prompt did not share is gone with it."""
    assert reads(ONE, call("abcdef"), call("abxxxx"), call("abcdef")) == [0, 2, 2]


def test_a_prompt_goes_to_the_slot_that_it_shares_most_with() -> None:
    two = LlamaCppServer(slots=2, is_unified=False, host_tokens=0)

    assert reads(two, call("abcdef"), call("uvwxyz"), call("abcdefg"), call("uvwxyz")) == [0, 0, 6, 5]


def test_a_tenth_is_not_enough_for_a_slot() -> None:
    """One token of ten is shared: the other slot, unused so far, gets the prompt. Two of ten are enough."""
    two = LlamaCppServer(slots=2, is_unified=False, host_tokens=0)

    assert reads(two, call("abcdefghij"), call("a123456789"), call("abcdefghij")) == [0, 0, 9]
    assert reads(two, call("abcdefghij"), call("ab23456789"), call("abcdefghij")) == [0, 2, 2]


def test_the_host_keeps_what_a_slot_loses() -> None:
    """Half of it may be lost without being put aside; here five of six are."""
    host = LlamaCppServer(slots=1, is_unified=False, host_tokens=100)

    assert reads(host, call("abcdef"), call("uvwxyz"), call("abcdef")) == [0, 0, 5]
    assert reads(host, call("abcdef"), call("abcxyz"), call("abcdef")) == [0, 3, 3]
    assert reads(ONE, call("abcdef"), call("uvwxyz"), call("abcdef")) == [0, 0, 0]


def test_the_host_has_what_an_idle_slot_held() -> None:
    """The third call takes half of the first one's slot, which is not enough to put it aside then."""
    calls = call("abcdefgh"), call("uvwxyz"), call("abcd" + "." * 12), call("abcdefgh")

    assert reads(LlamaCppServer(2, is_unified=False), *calls) == [0, 0, 4, 7]
    assert reads(LlamaCppServer(2, is_unified=False, host_tokens=0), *calls) == [0, 0, 4, 4]


def test_idle_slots_that_share_their_memory_are_cleared() -> None:
    """An eighth is enough for a slot that holds the prompt still, and too little for the host."""
    calls = call("abcdefgh"), call("uvwxyz"), call("a.......")

    assert reads(LlamaCppServer(2, is_unified=False), *calls) == [0, 0, 1]
    assert reads(LlamaCppServer(2, is_unified=True), *calls) == [0, 0, 0]


def test_the_host_drops_what_it_has_had_for_longest() -> None:
    host = LlamaCppServer(slots=1, is_unified=False, host_tokens=8)
    prompts = [call("abcd"), call("efgh"), call("ijkl"), call("mnop")]

    assert reads(host, *prompts, call("efgh"), call("abcd")) == [0, 0, 0, 0, 3, 0]


def test_each_model_has_a_server_of_its_own() -> None:
    assert reads(
        LlamaCppServer(slots=1, is_unified=False), call("abcd"), call("abcd", model="large"), call("abcd")
    ) == [0, 0, 3]


def test_the_block_that_differs_is_named() -> None:
    cache = LlamaCppCache()

    first, again, changed, longer = [
        cache.ask(call(text)).reasons for text in ("abcd", "abcd", "abxd", "abxdef")
    ]

    assert [(r.why, r.block, r.tokens) for r in (*first, *changed)] == [
        ("first", "a", 4),
        ("changed", "x", 2),
    ]
    assert (again, longer) == ((), ())


def test_the_start_of_a_changed_block_counts_as_an_estimate() -> None:
    texts = {"old": "same" * 5 + "old!", "new": "same" * 5 + "new!"}
    cache = LlamaCppCache(texts.__getitem__)
    block = [CacheBlock(name, Place.SYSTEM, name, 240) for name in ("old", "new")]
    cache.ask(CacheCall("llamacpp", "tiny", 0.0, (block[0],)))

    outcome = cache.ask(CacheCall("llamacpp", "tiny", 0.0, (block[1],)))

    assert (outcome.read, outcome.fresh, outcome.is_estimate) == (200, 40, True)
