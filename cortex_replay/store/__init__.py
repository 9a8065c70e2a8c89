"""Fixtures on disk: the index that vouches for them, and the rules by which they are trusted."""

from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk
from cortex_replay.store.store import Store, StoredFixture
from cortex_replay.store.trust import Layout

__all__ = ["Answer", "Fixture", "FixtureKey", "Layout", "Store", "StoredFixture", "TimedChunk"]
