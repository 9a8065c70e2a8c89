"""[cache]: what a prompt cache would do with 10,000 calls of agents, whose conversations grow.

The peer is BLAKE3 over the text of every block of every call, once: whoever looks at a prompt at all
has to do as much. The simulator gets digests; what it does for a block is to be less than that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from blake3 import blake3

from benchmarks.data import Texts
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.simulator import simulate, simulator_for
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["run"]

_ROUNDS = 3
_AGENTS = 100
_TURNS = 100
_BLOCKS = 117
"""Of the longest prompt: 60 on average."""


def run(_folder: Path, _wanted: Collection[str]) -> list[Row]:
    say("measuring the simulation of a prompt cache")
    texts = Texts(seed=20)
    stock = {f"{n}": texts.between(400, 400).encode() for n in range(_BLOCKS)}
    calls = [call for agent in range(_AGENTS) for call in _conversation(agent)]
    prompts = [[stock[block.digest.partition(" ")[0]] for block in call.blocks] for call in calls]
    taken = smallest(
        _ROUNDS,
        {
            "ours": lambda: cpu_of(lambda: simulate(simulator_for("anthropic"), calls)),
            "peer": lambda: cpu_of(lambda: _hash_all(prompts)),
        },
    )
    what = f"simulate(), Anthropic, {len(calls):,} calls"
    name = "blake3 of the blocks"
    return [Row("cache", what, taken["ours"], name, taken["peer"], Goal("slower", 2))]


def _hash_all(prompts: Sequence[Sequence[bytes]]) -> None:
    for prompt in prompts:
        for text in prompt:
            blake3(text).digest()


def _conversation(agent: int) -> Iterator[CacheCall]:
    """Marked tools and system text that all agents share, and a marker that moves on with every turn."""
    head = [
        CacheBlock("tools", Place.TOOLS, "0 tools", 2000, CachePolicy.EPHEMERAL_5M),
        CacheBlock("system", Place.SYSTEM, "1 system", 2000, CachePolicy.EPHEMERAL_5M),
    ]
    plain, marked = (
        [
            CacheBlock(
                f"turn {n}",
                Place.MESSAGES,
                f"{n} of {agent}",
                100,
                time,
                "tool_result" if n % 2 else "tool_use",
            )
            for n in range(2, _BLOCKS)
        ]
        for time in (CachePolicy.NONE, CachePolicy.EPHEMERAL_5M)
    )
    for turn in range(_TURNS):
        last = turn * len(plain) // _TURNS
        blocks = (*head, *plain[:last], marked[last])
        yield CacheCall("anthropic", "claude-sonnet-5", agent * 1000.0 + turn * 5, blocks)
