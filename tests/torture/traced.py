"""A program to be traced: it writes stores, says when a commit is tried and when it has returned.

``python traced.py FOLDER WHAT MOST [ROWS]``: ``calm`` is one store on which nothing goes wrong; else there
are up to ``MOST``, and on each something goes wrong at another call of its first or second commit, as in
``"killed second"``. A store with more than ``ROWS`` rows has shards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from cortex_replay import Store, StoreIo, blake3_hex
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index import shards
from tests.sampling import IS_TORTURE
from tests.torture.faults import Fault, FaultySystem
from tests.torture.plans import BASE, Op, digests, fixture, perform, sound_answers
from tests.torture.shim import CHANGING, Hook, IndexSyncFails, Killer, hooked, in_child

FIRST: Final = [Op("add", question, text) for question, text in BASE.items()]
CHANGE: Final = [
    Op("add", "c new", "5" * 1500),
    Op("replace", "a one", "uno"),
    Op("remove", "b one"),
    Op("remove", "b two"),
]
LAST: Final = [Op("add", f"{model} last", "6") for model in "abc"]
MOST_CALLS: Final = 90
# What is lost with the power is what waits for its fsync: before one, most of it is at stake.
KILLING: Final = CHANGING if IS_TORTURE else frozenset(["fsync"])


def say(root: Path, word: str, *ops: Op) -> None:
    """Into the trace: what the store at ``root`` lists, or will list."""
    listed = digests(root)
    for op in ops:
        made = fixture(op.question, op.text)
        listed[made.key] = blake3_hex(render_fixture(made))
        if op.kind == "remove":
            del listed[made.key]
    os.write(1, " ".join([root.name, word, *sorted(listed.values())]).encode())


def commit(root: Path, ops: list[Op], hook: Hook | None = None) -> None:
    """Change a store in one commit; if that fails, once more."""
    store = Store.open(root)
    say(root, "trying", *ops)
    todo = list(ops)
    with hooked(hook) if hook else nullcontext():
        try:
            _go_on(store, todo)
        except StoreIo:
            _go_on(store, todo)
    say(root, "committed")


def _go_on(store: Store, todo: list[Op]) -> None:
    while todo:
        perform(store, todo[0])
        todo.pop(0)
    store.commit()


def calm(root: Path) -> None:
    """Fill, change, empty and fill again."""
    Store.create(root)
    say(root, "committed")
    commit(root, FIRST)
    commit(root, CHANGE)
    commit(root, LAST)
    commit(root, [Op("remove", question) for question in sound_answers(root)])
    commit(root, FIRST)


def disturbed(root: Path, first: list[Op], change: Callable[[Path], bool]) -> bool:
    """Make a store, change it in a way that goes wrong, and then commit as if nothing had been."""
    Store.create(root)
    if first:
        commit(root, first)
    say(root, "committed")
    say(root, "look")  # what comes before is as it is elsewhere
    has_gone_wrong = change(root)
    commit(root, LAST)
    return has_gone_wrong


def killed(at: int, ops: list[Op], root: Path) -> bool:
    return in_child(lambda _: commit(root, ops, Killer(at, "before", KILLING))).was_killed


def refused(at: int, ops: list[Op], root: Path) -> bool:
    system = FaultySystem([Fault("fsync", at, 5)])
    commit(root, ops, system)
    return bool(system.refused)


def retreating(at: int, ops: list[Op], root: Path) -> bool:
    """Killed while it takes a commit back that could not be made durable."""
    hook = IndexSyncFails(Killer(at, "before", KILLING), is_only_after=True)
    return in_child(lambda _: commit(root, ops, hook)).was_killed


def recovering(at: int, ops: list[Op], root: Path) -> bool:
    """Killed while it takes back the commit of one that was killed when its files were in place."""
    moved = Killer(1 + sum(op.kind != "remove" for op in ops), "after", frozenset(["replace"]))
    in_child(lambda _: commit(root, ops, moved))
    return killed(at, [Op("add", "a second", "7")], root)


def stumbling(seed: int, ops: list[Op], root: Path) -> bool:
    """Two processes that are killed anywhere, some of them while they retreat."""
    random = Random(seed)
    for todo in (ops, [Op("add", "a second", "7"), Op("add", "b second", "8")]):
        killer = Killer(random.randint(1, MOST_CALLS), "before")
        hook = IndexSyncFails(killer) if random.random() < 0.5 else killer
        in_child(partial(_doomed_commit, root, todo, hook))
    return True


def _doomed_commit(root: Path, ops: list[Op], hook: Hook, _: Callable[[str], None]) -> None:
    commit(root, ops, hook)


WAYS: Final = {way.__name__: way for way in (killed, refused, retreating, recovering, stumbling)}


def main(folder: Path, what: str, most: int) -> None:
    if what == "calm":
        calm(folder / what)
        return
    name, _, which = what.partition(" ")
    first, ops = ([], FIRST) if which == "first" else (FIRST, CHANGE)
    for number in range(1, most + 1):
        if not disturbed(folder / f"{number}", first, partial(WAYS[name], number, ops)):
            break


if __name__ == "__main__":
    if sys.argv[4:]:
        shards.MOST_ROWS_IN_ONE_FILE = int(sys.argv[4])  # type: ignore[misc]
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
