"""What has happened, by looking at it: files, sockets, marks, output. Never by what a command says."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

__all__ = [
    "Entry",
    "canaries_in",
    "changes",
    "foreign_connections",
    "output_complaints",
    "snapshot",
    "unexpected",
]

# Written down here, and not taken from the package: a judge must not share the mistakes of the accused.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REORDERING: Final = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""What makes a text look like another one; in JSON for programs it does no harm."""
_WORKFLOW_COMMAND: Final = re.compile(r"^\s*(?:::[a-z]|##\[)", re.MULTILINE)
_TRACEBACK: Final = re.compile(r"^(?:Traceback \(most recent call last\)|INTERNALERROR>)", re.MULTILINE)
_INET: Final = re.compile(
    r"connect\(.*sa_family=AF_INET6?, .*?"
    r"(?:inet_addr\(\"(?P<v4>[^\"]+)\"\)|inet_pton\(AF_INET6, \"(?P<v6>[^\"]+)\")"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at a path."""

    kind: str
    mode: int
    size: int
    content: str
    """The digest of a file, the target of a link."""
    changed_at: int
    """Zero inside the clone, where a write that changes nothing does no harm."""


def snapshot(top: Path, clone: str) -> dict[str, Entry]:
    """Everything below ``top`` by its path there; no link is followed."""
    return {path: _entry(top, path, clone) for path in _walk(os.fsencode(top))}


def _walk(top: bytes) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            yield os.fsdecode(os.path.relpath(os.path.join(folder, name), top))  # noqa: PTH118 - bytes


def _entry(top: Path, path: str, clone: str) -> Entry:
    full = top / path
    status = full.lstat()
    kind = stat.S_IFMT(status.st_mode)
    is_inside = path == clone or path.startswith(f"{clone}/")
    if stat.S_ISLNK(kind):
        return Entry("link", 0, 0, os.readlink(full), 0)  # noqa: PTH115 - may be no UTF-8
    if stat.S_ISREG(kind):
        digest = hashlib.sha256(full.read_bytes()).hexdigest()
        at = 0 if is_inside else status.st_mtime_ns
        return Entry("file", stat.S_IMODE(status.st_mode), status.st_size, digest, at)
    if stat.S_ISDIR(kind):
        # A file that came and went again has left its trace in the time of the folder.
        at = status.st_mtime_ns if path.startswith("work/beside") else 0
        return Entry("folder", stat.S_IMODE(status.st_mode), 0, "", at)
    return Entry("special", stat.S_IMODE(status.st_mode), 0, "", 0)


def changes(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, str]:
    """What came, went or became another, in words."""
    found = {}
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if new is None:
            found[path] = "was removed"
        elif old is None:
            found[path] = f"was made ({new.kind})"
        elif old.kind != new.kind:
            found[path] = f"was a {old.kind} and is a {new.kind}"
        elif (old.content, old.size) != (new.content, new.size):
            found[path] = "has another content"
        elif old.mode != new.mode:
            found[path] = f"had mode {old.mode:o} and has {new.mode:o}"
        else:
            found[path] = "was written to, or something in it came and went"
    return found


def unexpected(found: Mapping[str, str], allowed: Iterable[str]) -> dict[str, str]:
    """Those changes that no pattern allows; one that ends in ``/**`` allows the folder, too."""
    patterns = [*allowed]
    patterns += [pattern.removesuffix("/**") for pattern in patterns if pattern.endswith("/**")]
    return {
        path: what
        for path, what in found.items()
        if not any(fnmatchcase(path, pattern) for pattern in patterns)
    }


def canaries_in(data: bytes, canaries: Mapping[str, str], but: Iterable[str] = ()) -> list[str]:
    """The names of the secrets that stand in some bytes, as they are or in an encoding."""
    passed = set(but)
    return [
        name
        for name, value in canaries.items()
        if name not in passed and any(form in data for form in _forms(value))
    ]


@functools.cache
def _forms(value: str) -> tuple[bytes, ...]:
    """A secret as it is, backwards, in hex, and in base64 at each place that it may start at."""
    plain = value.encode()
    shifted = (base64.b64encode(b"\0" * skip + plain)[4 * (skip > 0) : -4] for skip in range(3))
    return (plain, plain[::-1], plain.hex().encode(), *shifted)


def output_complaints(data: bytes, *, for_people: bool) -> Iterator[str]:
    """What a terminal or a CI runner would act upon, and crashes."""
    text = data.decode("utf-8", "surrogateescape")
    if found := _CONTROLS.search(text) or (for_people and _REORDERING.search(text)):
        yield f"printed {found[0]!r} as it is: {text[max(0, found.start() - 60) : found.end() + 20]!r}"
    if re.search("[\udc80-\udcff]", text):
        yield f"printed bytes that are no UTF-8: {data[:200]!r}"
    if found := _WORKFLOW_COMMAND.search(text):
        yield f"printed a command for a CI runner: {text[found.start() : found.end() + 60]!r}"
    if _TRACEBACK.search(text):
        yield f"crashed: {text[-700:]}"


def foreign_connections(trace: str) -> list[str]:
    """The addresses, other than this machine's loopback, that a traced program connected to."""
    found = []
    for match in _INET.finditer(trace):
        address = match["v4"] or match["v6"]
        if not address.startswith("127.") and address not in ("::1", "::ffff:127.0.0.1"):
            found.append(address)
    return found
