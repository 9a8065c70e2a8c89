"""What a disk may hold after a loss of power: every state that the calls up to then allow.

The model, harsher than any one file system:

* the content of a file is only sure as of its last fsync; what was written after that may be missing,
  cut at the end of a sector, zeros, or all there;
* a name in a folder is only sure as of the last fsync of that folder; of the creations, renames and
  removals after that any may have reached the disk and any not, in whatever order;
* a rename within one folder is one change; between two folders it is one in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Final

from tests.torture.strace import Event

SECTOR: Final = 512
State = tuple[tuple[str, bytes | None], ...]
"""Every path that a reader looks at, in order, with its content; ``None`` for a folder."""


@dataclass(eq=False)
class File:
    durable: bytes = b""
    content: bytes = b""

    def variants(self) -> list[bytes]:
        """What may be found in it."""
        if not self.content.startswith(self.durable):  # it was emptied, and is written anew
            cuts = range(0, len(self.content), SECTOR)
            found = [self.durable, self.content, bytes(len(self.content))]
            return list(dict.fromkeys([*found, *(self.content[:cut] for cut in cuts)]))
        new = self.content[len(self.durable) :]
        cuts = range(SECTOR, len(new), SECTOR)
        found = [self.durable, self.content, self.durable + bytes(len(new))]
        return list(dict.fromkeys([*found, *(self.durable + new[:cut] for cut in cuts)]))


@dataclass(eq=False)
class Folder:
    durable: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def after(self, changes: list[dict[str, File | Folder | None]]) -> dict[str, File | Folder]:
        """The names if these changes have reached the disk."""
        names: dict[str, File | Folder | None] = dict(self.durable)
        for change in changes:
            names |= change
        return {name: node for name, node in names.items() if node is not None}

    def now(self) -> dict[str, File | Folder]:
        """The names as every process sees them."""
        return self.after(self.pending)


class Disk:
    """One store's folder, as the processes see it and as the disk may have it."""

    def __init__(self) -> None:
        self.top = Folder()

    def apply(self, event: Event) -> bool:
        """Make a change; gives whether there was anything to it."""
        folder, name = self._parent(event.path)
        node = folder.now().get(name) if name else folder
        match event.call:
            case "create" if node is None:
                folder.pending.append({name: File()})
            case "truncate" if isinstance(node, File):
                node.content = b""
            case "truncate":
                folder.pending.append({name: File()})
            case "mkdir":
                folder.pending.append({name: Folder()})
            case "write" if isinstance(node, File):
                node.content += event.data
            case "sync" if isinstance(node, File):
                node.durable = node.content
            case "sync" if isinstance(node, Folder):
                node.durable, node.pending = node.now(), []
            case "rename":
                target, new_name = self._parent(event.target)
                if target is folder:
                    folder.pending.append({name: None, new_name: node})
                else:
                    folder.pending.append({name: None})
                    target.pending.append({new_name: node})
            case "unlink" | "rmdir":
                folder.pending.append({name: None})
            case _:
                return False
        return True

    def _parent(self, path: str) -> tuple[Folder, str]:
        *folders, name = path.split("/")
        folder = self.top
        for step in folders:
            below = folder.now()[step]
            assert isinstance(below, Folder)
            folder = below
        return folder, name

    def states(self, random: Random, most: int) -> Iterator[State]:
        """What a reader may find after a loss of power now; all of it, or ``most`` samples."""
        slots = list(self._slots(self.top, ""))
        sizes = [2 if isinstance(node, Folder) else len(node.variants()) for node, _ in slots]
        if math.prod(sizes) <= most:
            choices: Iterator[tuple[int, ...]] = product(*map(range, sizes))
        else:
            choices = (tuple(map(random.randrange, sizes)) for _ in range(most))
        for choice in choices:
            chosen = dict(zip(slots, choice, strict=True))
            yield tuple(sorted(_found(self.top, "", chosen), key=lambda item: item[0]))

    def _slots(self, folder: Folder, prefix: str) -> Iterator[tuple[File | Folder, int]]:
        """Whatever is open: each change of a folder, and the content of each file that is in doubt."""
        nodes: dict[File | Folder, str] = {}
        changes: list[dict[str, File | Folder | None]] = [dict(folder.durable), *folder.pending]
        for change in changes:
            for name, node in change.items():
                if node is not None and _matters(prefix + name):
                    nodes[node] = prefix + name
        for number, change in enumerate(folder.pending):
            if any(_matters(prefix + name) for name in change):
                yield folder, number
        for node, path in nodes.items():
            if isinstance(node, Folder):
                yield from self._slots(node, f"{path}/")
            elif node.durable != node.content:
                yield node, 0


def _found(
    folder: Folder, prefix: str, chosen: dict[tuple[File | Folder, int], int]
) -> Iterator[tuple[str, bytes | None]]:
    changes = [change for number, change in enumerate(folder.pending) if chosen.get((folder, number))]
    for name, node in folder.after(changes).items():
        path = prefix + name
        if not _matters(path):
            continue
        if isinstance(node, Folder):
            yield path, None
            yield from _found(node, f"{path}/", chosen)
        else:
            yield path, node.variants()[chosen[node, 0]] if (node, 0) in chosen else node.durable


def _matters(path: str) -> bool:
    """Whether a reader looks at it; staging and temporary files are nobody's but the writer's."""
    return "/staging" not in path and not path.endswith(("/lock", ".tmp", "/.gitignore"))


@dataclass
class Outcome:
    """What a look at every instant of a trace found."""

    instants: int = 0
    states: set[State] = field(default_factory=set)
    bad: list[str] = field(default_factory=list)
    looks: int = 0
    """How many states were judged; one that may be found at several instants counts at each."""

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.instants + other.instants,
            self.states | other.states,
            self.bad + other.bad,
            self.looks + other.looks,
        )


Verdict = str | tuple[str, ...]
"""What is wrong with a state, or the hashes of the files that it lists."""


def look(
    events: list[Event],
    judge: Callable[[State], Verdict],
    random: Random,
    most: int,
    *,
    is_enough: Callable[[Outcome], bool] = lambda _: False,
) -> Outcome:
    """Have every state judged that a loss of power during ``events`` may leave.

    What must be found is what the program said last that it had committed, or what it said after that
    it was trying to. Before it has said anything there is nothing to lose. Once what was found is enough, the
    rest is left out.
    """
    disk, outcome = Disk(), Outcome()
    allowed: list[tuple[str, ...]] = []
    is_looking = not any(event.data.startswith(b"look") for event in events)
    for number, event in enumerate(events):
        has_news = False
        if event.call == "say":
            word, *digests = event.data.decode().split()
            is_looking |= word == "look"
            has_news = word != "trying"  # with that nothing can be wrong that was right before
            if word != "look":
                allowed = [tuple(digests)] if word == "committed" else [*allowed, tuple(digests)]
        elif disk.apply(event):
            # After a sync there are only fewer states.
            has_news = event.call != "sync" and (_matters(event.path) or _matters(event.target))
        if not (has_news and is_looking and allowed):
            continue
        outcome.instants += 1
        for state in disk.states(random, most):
            outcome.states.add(state)
            outcome.looks += 1
            verdict = judge(state)
            if verdict not in allowed:
                outcome.bad.append(f"after event {number}, {event.call} {event.path}: {verdict}")
        if is_enough(outcome):
            break
    return outcome


def by_store(events: list[Event]) -> dict[str, list[Event]]:
    """The events of each store by its name; in the paths, and in what is said, all get the same name."""
    stores: dict[str, list[Event]] = {}
    for event in events:
        if event.call == "say":
            name, _, words = event.data.decode().partition(" ")
            stores.setdefault(name, []).append(event._replace(data=words.encode()))
        elif event.path:
            name = event.path.partition("/")[0]
            renamed = event._replace(path=_renamed(event.path), target=_renamed(event.target))
            stores.setdefault(name, []).append(renamed)
        else:  # the folder that they all stand in
            for found in stores.values():
                found.append(event)
    return stores


def _renamed(path: str) -> str:
    name, slash, below = path.partition("/")
    return f"store{slash}{below}" if name else ""
