"""The prompt hash of a request, message by message: what a conversation that goes on hashes to each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from blake3 import blake3

from cortex_replay.canonical import struct_item
from cortex_replay.types.message import LlmMessage, canonical_message
from cortex_replay.types.parts import CallNumbers

__all__ = ["PromptHasher"]


@dataclass(slots=True)
class PromptHasher:
    """Hashes a request that grows: 80 turns of a conversation cost what their text costs, and not its square.

    After each message it can say what :meth:`.LlmRequest.prompt_hash` says of the request so far.
    """

    hasher: blake3
    """Of what stands before the messages in the canonical bytes, and of the messages so far."""
    tail: bytes
    """What stands behind them."""
    is_empty: bool = True
    numbers: CallNumbers = field(default_factory=CallNumbers)
    """Those of tool calls. Copies share one dictionary."""
    count: int = 0
    """How many of them are ours: another copy may have gone on."""

    def add(self, message: LlmMessage) -> None:
        """Put a message behind the others."""
        if len(self.numbers) != self.count:
            self.numbers = CallNumbers(islice(self.numbers.items(), self.count))
        item = struct_item(canonical_message(message, self.numbers))
        self.hasher.update(item if self.is_empty else b"," + item)
        self.is_empty = False
        self.count = len(self.numbers)

    def copy(self) -> PromptHasher:
        """Another one that has come as far, to go on from here."""
        return PromptHasher(self.hasher.copy(), self.tail, self.is_empty, self.numbers, self.count)

    def prompt_hash(self) -> str:
        """The prompt hash of the request as it is now."""
        hasher = self.hasher.copy()
        hasher.update(self.tail)
        return hasher.digest().hex()
