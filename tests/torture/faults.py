"""A system that refuses: one call, every call from one on, or two calls."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.torture.shim import Call

SHORT: Final = -1
"""Instead of an error number: the write takes half of what it is given."""


@dataclass
class Fault:
    """The ``at``-th call of that name is refused, and if it is ``lasting`` each one after it."""

    name: str
    at: int
    error: int
    lasting: bool = False
    count: int = 0

    def __str__(self) -> str:
        what = "short" if self.error == SHORT else errno.errorcode[self.error]
        return f"{what} at {self.name} {self.at}{' and after' if self.lasting else ''}"

    def hits(self, name: str) -> bool:
        self.count += name == self.name
        return name == self.name and (self.count == self.at or (self.lasting and self.count > self.at))


_INDEX_SYNC: Final = Fault("fsync", 1, errno.EIO)


@dataclass
class FaultySystem:
    """What stands between the writer and the disk while something is wrong."""

    faults: list[Fault]
    retreats: bool = False
    """Whether the new index cannot be made durable; the other faults come after that."""
    refused: list[str] = field(default_factory=list)
    """The system's words for each refusal."""
    refused_sync: bool = False
    """Whether an fsync failed before the index was durable."""
    lost: dict[tuple[int, int], Path] = field(default_factory=dict)
    """Files of which an fsync failed: their pages may be gone, whatever a second one says."""
    _written: set[int] = field(default_factory=set)
    _is_index_there: bool = False
    _is_index_durable: bool = False

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        hit = self._hit(name, *args)
        if name == "close":  # the descriptor is gone even if that fails
            self._written.discard(args[0])
            call(*args, **kwargs)
        if hit is not None and hit.error != SHORT:
            self._refuse(name, hit, *args)
        if name == "close":
            return None
        if hit is not None:
            args = (args[0], args[1][: max(1, len(args[1]) // 2)])
        result = call(*args, **kwargs)
        self._follow(name, *args)
        return result

    def _hit(self, name: str, *args: Any) -> Fault | None:
        if self.retreats and not self.refused:
            return _INDEX_SYNC if name == "fsync" and self._is_index_there else None
        if name == "close" and args[0] not in self._written:
            return None  # a close can only fail over what was written
        return next((fault for fault in self.faults if fault.hits(name)), None)

    def _refuse(self, name: str, fault: Fault, *args: Any) -> None:
        reason = os.strerror(fault.error)
        self.refused.append(reason)
        if name == "fsync":
            self.refused_sync |= not self._is_index_durable
            status = os.fstat(args[0])
            if stat.S_ISREG(status.st_mode):
                self.lost[status.st_dev, status.st_ino] = Path(f"/proc/self/fd/{args[0]}").readlink()
        paths = [os.fspath(arg) for arg in args if isinstance(arg, str | os.PathLike)]
        raise OSError(fault.error, reason, *paths[:1])

    def _follow(self, name: str, *args: Any) -> None:
        if name == "write":
            self._written.add(args[0])
            status = os.fstat(args[0])
            self.lost.pop((status.st_dev, status.st_ino), None)  # written anew
        elif name == "replace":
            self._is_index_there |= Path(args[1]).name == "INDEX.toml"
        elif name == "fsync":
            self._is_index_durable |= self._is_index_there and stat.S_ISDIR(os.fstat(args[0]).st_mode)
