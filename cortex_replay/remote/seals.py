"""What the workers of one run tell each other through a bucket that others may write to as well.

Who knows the name of a run can find its objects, and make ones that count. So the name is a secret. Where
they are, and what they are called, is derived from it, and each carries a keyed hash of its name and content.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final, Self

from cortex_replay.hashing import derive_key, keyed_hex

__all__ = ["RUNS", "SHORTEST_SECRET", "Seal"]

RUNS: Final = "runs/"
"""Where the runs of a bucket are."""
SHORTEST_SECRET: Final = 16
"""How many characters the name of a run has at least. It has to be one that cannot be guessed."""
_PURPOSE: Final = "cortex-replay 2026-11 run of a fleet"
_MARK: Final = 64
_FOLDER: Final = 32


@dataclass(frozen=True, slots=True)
class Seal:
    """Makes and knows the objects of one run."""

    key: bytes

    @classmethod
    def of(cls, run: str) -> Self:
        """That of the run with this name."""
        return cls(derive_key(_PURPOSE, run.encode("utf-8", "surrogateescape")))

    def __repr__(self) -> str:
        return f"Seal({self.folder!r})"  # without the key

    @property
    def folder(self) -> str:
        """Where everything of the run is."""
        return f"{RUNS}{keyed_hex(self.key, b'folder')[:_FOLDER]}/"

    def name(self, kind: str, *about: str) -> str:
        """The name of the object of a kind that is about something; it does not show what."""
        parts = "".join(f"{len(part)}:{part}" for part in about)
        return f"{self.folder}{kind}/{keyed_hex(self.key, f'{kind} {parts}'.encode(errors='surrogatepass'))}"

    def close(self, name: str, content: bytes) -> bytes:
        """An object of the run: its mark, and what it says."""
        return f"{self._mark(name, content)}\n".encode() + content

    def open(self, name: str, data: bytes) -> bytes | None:
        """What an object of the run says; ``None`` if a stranger made it, or it was made for another name."""
        mark, newline, content = data[:_MARK], data[_MARK : _MARK + 1], data[_MARK + 1 :]
        is_ours = newline == b"\n" and hmac.compare_digest(mark, self._mark(name, content).encode())
        return content if is_ours else None

    def _mark(self, name: str, content: bytes) -> str:
        return keyed_hex(self.key, f"{len(name)}:{name} ".encode() + content)
