"""``kill -9`` while something is recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from cortex_replay import Store
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.fixture import Answer
from integration.proof.doomed_children import LOST, STUCK, UNREADABLE, Results, killed_command, killed_fork
from integration.proof.figures import Row, Scale, Tell
from integration.proof.git_peer import NAMES, git, git_version
from integration.proof.killed_groups import kill_command, kill_suite
from integration.proof.vcr_cassettes import VCRPY, load, record
from tests.builder import ask, fixture_of
from tests.torture.plans import SCRATCH
from tests.torture.test_kill import failures

__all__ = ["prove"]

_SEED: Final = 24
_DONE: Final = "kills"
_LONGEST_S: Final = 0.12
_AT_ONCE: Final = 2
_LARGE: Final = "an answer of some length " * 40
Kill = Callable[[Path, Random], Results | None]
"""Kills something in a folder, and looks; gives nothing if it had ended before."""


def prove(scale: Scale, tell: Tell) -> list[Row]:
    calls, moments = scale.pick(40, 300, 1300), scale.pick(40, 500, 1300)
    commands, suites = scale.pick(6, 120, 348), scale.pick(4, 60, 249)
    commits = scale.pick(20, 200, 1300)
    total, done = calls + 2 * moments + commands + suites + commits, count(1)

    def step() -> None:
        tell(next(done), total)

    return [
        _row(
            "calls",
            "cortex-replay",
            "a recorder, at a random system call",
            calls,
            _many(_kill_by_call, calls, step),
        ),
        _row(
            "recorder",
            "cortex-replay",
            "a recorder, at a random moment",
            moments,
            _many(_kill_recorder, moments, step),
        ),
        _row("vcrpy", VCRPY, "a recorder, at a random moment", moments, _many(_kill_vcrpy, moments, step)),
        _row(
            "command",
            "cortex-replay",
            "`record -- COMMAND`, at a random moment",
            commands,
            _many(kill_command, commands, step),
        ),
        _row(
            "pytest",
            "cortex-replay",
            "pytest with two workers of xdist, recording",
            suites,
            _many(kill_suite, suites, step),
        ),
        _row("git", git_version(), "`git commit`, for comparison", commits, _many(_kill_git, commits, step)),
    ]


def _row(name: str, who: str, what: str, cases: int, found: Results) -> Row:
    return Row(name, who, what, cases, {one: found[one] for one in (LOST, UNREADABLE, STUCK)})


def _many(kill: Kill, times: int, step: Callable[[], None]) -> Results:
    """That many kills, two at a time; an attempt that came too late is none."""
    found = Results()
    numbers = count()
    with ProcessPoolExecutor(_AT_ONCE, mp_context=get_context("fork")) as pool:
        while (missing := times - found[_DONE]) > 0:
            for results in pool.map(_kill_one, [kill] * missing, islice(numbers, missing)):
                found += results
                if results[_DONE]:
                    step()
    return found


def _kill_one(kill: Kill, number: int) -> Results:
    with TemporaryDirectory(dir=SCRATCH) as folder:
        found = kill(Path(folder), Random(f"{_SEED} {number}"))
    return Results() if found is None else found + Results({_DONE: 1})


def _kill_by_call(_: Path, random: Random) -> Results:
    return Results({LOST: len(failures(random.randrange(2**32), 1))})


def _kill_recorder(folder: Path, random: Random) -> Results:
    """One answer after the other, each committed; what was said to be committed has to be there."""
    root = folder / "llm"

    def work(say: Callable[[str], None]) -> None:
        store = Store.open_or_create(root)
        for number in count():
            store.add(fixture_of(ask(f"question {number}"), Answer(_LARGE)))
            store.commit()
            say(str(number))

    said = killed_fork(work, random, _LONGEST_S)
    found = Results()
    try:
        store = Store.open(root)
    except FixtureIntegrityFailed:
        return Results({UNREADABLE: 1, LOST: len(said)})
    found[LOST] = sum(not store.has_any(store.key(ask(f"question {number}"))) for number in said)
    store.add(fixture_of(ask("the next"), Answer("one")))
    try:
        store.commit()
    except Exception:  # noqa: BLE001 - whatever it is, the next one is in trouble
        found[STUCK] += 1
    return found


def _kill_vcrpy(folder: Path, random: Random) -> Results:
    """The same: one test after the other adds a call to the cassette."""
    path = folder / "cassette.yaml"

    def work(say: Callable[[str], None]) -> None:
        for number in count():
            record(path, [(f"question {number}", _LARGE)])
            say(str(number))

    said = killed_fork(work, random, _LONGEST_S)
    there = load(path)
    if there is None:
        return Results({UNREADABLE: 1, LOST: len(said), STUCK: 1})
    bodies = b"".join(there)
    return Results({LOST: sum(f'"question {number}"'.encode() not in bodies for number in said)})


def _kill_git(folder: Path, random: Random) -> Results | None:
    """The lock that a killed one leaves has to be removed by hand."""
    git(folder, "init", "-q")
    command = ["git", *NAMES, "-c", "core.fsync=all", "commit", "-q", "--allow-empty", "-m", "one"]
    _, was_killed = killed_command(command, folder, os.environ, random.uniform(0, 0.02))
    if not was_killed:
        return None
    (folder / "file").write_text("more")
    is_well = all(
        git(folder, *words).returncode == 0 for words in (["add", "file"], ["commit", "-q", "-m", "two"])
    )
    return Results({STUCK: int(not is_well)})
