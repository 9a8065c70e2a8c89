"""What happened in a run of tests, in all of its processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from cortex_replay.engine.mcp.counts import ServerCounts
from cortex_replay.engine.money import PriceList
from cortex_replay.engine.tokens import Tally
from cortex_replay.store import StoredFixture
from cortex_replay.store.tool_calls import StoredCall

__all__ = ["MissOfTest", "Summary"]


class MissOfTest(NamedTuple):
    """A test that missed something, and what."""

    test: str
    explanation: str
    is_probe: bool = False


@dataclass
class Summary:
    """What happened in all processes."""

    mode: str
    counts: dict[str, int]
    misses: list[MissOfTest]
    not_recorded: list[str]
    bypassed: Counter[str]
    """Hosts that somebody wanted to ask around us, and how often."""
    is_inner: bool = False
    """Whether a command around these tests is told of all this."""
    is_relayed: bool = False
    """Whether calls went through the gateway of a command around these tests, which records them."""
    fixtures: int = 0
    unused: list[StoredFixture] = field(default_factory=list)
    unjudged: int = 0
    """Fixtures that nobody asked for in this run, but that a test may ask for that did not run."""
    errors: list[str] = field(default_factory=list)
    """Why the run failed, besides its tests, and what to do."""
    warnings: list[str] = field(default_factory=list)
    paid: Tally = field(default_factory=dict)
    saved: Tally = field(default_factory=dict)
    servers: dict[str, ServerCounts] = field(default_factory=dict)
    """What MCP servers were asked; the counts have it, too."""
    remarks: Counter[str] = field(default_factory=Counter)
    """What the user should know of them, and how often it came up."""
    unused_calls: list[StoredCall] = field(default_factory=list)
    """Recorded calls of them that no test makes."""
    prices: PriceList = field(default_factory=PriceList)
