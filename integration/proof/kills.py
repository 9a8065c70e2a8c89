"""``kill -9`` while something is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from cortex_replay import Store
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.fixture import Answer
from integration.proof.doomed_children import killed_command, killed_fork
from integration.proof.figures import Row, Scale, Tell
from integration.proof.vcr_cassettes import VCRPY, load, record
from tests.builder import ask, fixture_of
from tests.cli.programs import ASK
from tests.gateway.upstream import REAL_KEY, model_server
from tests.torture.plans import SCRATCH
from tests.torture.test_kill import failures

__all__ = ["prove"]

_SEED: Final = 24
_LOST: Final = "answers lost"
_DONE: Final = "kills"
_UNREADABLE: Final = "unreadable"
_STUCK: Final = "next one fails"
_LONGEST_S: Final = 0.12
_AT_ONCE: Final = 2
_PATIENCE_S: Final = 120
_LARGE: Final = "an answer of some length " * 40
_CALLS: Final = 12
_ASKING: Final = f"{ASK}\nfor n in range({_CALLS}): print('got', ask(f'question {{n}}'), flush=True)"
_TESTS: Final = """
import json, os, pathlib, urllib.request
import pytest

@pytest.mark.llm_replay
@pytest.mark.parametrize("n", range(6))
def test_asks(n):
    for part in range(2):
        body = {"model": "m", "messages": [{"role": "user", "content": f"question {n}.{part}"}]}
        key = "Bearer " + os.environ["OPENAI_API_KEY"]
        headers = {"authorization": key, "content-type": "application/json"}
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
"""
Results = Counter[str]
Kill = Callable[[Path, Random], Results | None]
"""Kills something in a folder, and looks; gives nothing if it had ended before."""


def prove(scale: Scale, tell: Tell) -> list[Row]:
    calls, moments = scale.pick(40, 1300, 5000), scale.pick(40, 1300, 5000)
    commands, suites = scale.pick(6, 348, 700), scale.pick(4, 249, 500)
    commits = scale.pick(20, 300, 1300)
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
            _kill_commands(commands, step),
        ),
        _row(
            "pytest",
            "cortex-replay",
            "pytest with two workers of xdist, recording",
            suites,
            _kill_suites(suites, step),
        ),
        _row("git", _git_version(), "`git commit`, for comparison", commits, _many(_kill_git, commits, step)),
    ]


def _row(name: str, who: str, what: str, cases: int, found: Results) -> Row:
    return Row(name, who, what, cases, {one: found[one] for one in (_LOST, _UNREADABLE, _STUCK)})


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
    return Results({_LOST: len(failures(random.randrange(2**32), 1))})


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
        return Results({_UNREADABLE: 1, _LOST: len(said)})
    found[_LOST] = sum(not store.has_any(store.key(ask(f"question {number}"))) for number in said)
    store.add(fixture_of(ask("the next"), Answer("one")))
    try:
        store.commit()
    except Exception:  # noqa: BLE001 - whatever it is, the next one is in trouble
        found[_STUCK] += 1
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
        return Results({_UNREADABLE: 1, _LOST: len(said), _STUCK: 1})
    bodies = b"".join(there)
    return Results({_LOST: sum(f'"question {number}"'.encode() not in bodies for number in said)})


def _kill_git(folder: Path, random: Random) -> Results | None:
    """The lock that a killed one leaves has to be removed by hand."""
    _git(folder, "init", "-q")
    command = ["git", *_WHO, "commit", "-q", "--allow-empty", "-m", "one"]
    _, was_killed = killed_command(command, folder, os.environ, random.uniform(0, 0.02))
    if not was_killed:
        return None
    (folder / "file").write_text("more")
    is_well = all(_git(folder, *words) for words in (["add", "file"], ["commit", "-q", "-m", "two"]))
    return Results({_STUCK: int(not is_well)})


_WHO: Final = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "core.fsync=all")


def _git(folder: Path, *words: str) -> bool:
    return (
        subprocess.run(["git", *_WHO, *words], cwd=folder, capture_output=True, check=False).returncode == 0
    )


def _git_version() -> str:
    said = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout
    return said.strip().replace("git version", "git")


def _environment(url: str) -> dict[str, str]:
    here = Path(__file__).resolve().parents[2]
    kept = {
        name: os.environ[name] for name in ("PATH", "LANG", "HOME", "XDG_STATE_HOME") if name in os.environ
    }
    own = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": REAL_KEY}
    return kept | own | {"PYTHONPATH": str(here), "PYTHONDONTWRITEBYTECODE": "1"}


def _kill_commands(times: int, step: Callable[[], None]) -> Results:
    """What the program was told before it was killed has to be there, or to be had by adopting it."""
    command = [
        sys.executable,
        "-m",
        "cortex_replay",
        "record",
        "--store",
        "llm",
        "--",
        sys.executable,
        "-c",
        _ASKING,
    ]

    def look(folder: Path, out: str) -> Results:
        got = [line.removeprefix("got You said: ") for line in out.splitlines() if line.startswith("got ")]
        return _look_at(folder, got)

    return _in_groups(command, times, look, step)


def _kill_suites(times: int, step: Callable[[], None]) -> Results:
    """The store opens, and the run that comes next records what is missing."""
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "--llm-store", "llm", "--llm-mode", "once"]
    return _in_groups(
        [sys.executable, "-m", "pytest", *options], times, lambda folder, _: _look_at(folder, []), step
    )


def _look_at(folder: Path, got: list[str]) -> Results:
    found = Results()
    if not (folder / "llm/INDEX.toml").exists() and not got:
        return found
    try:
        store = Store.open_or_create(folder / "llm")
    except FixtureIntegrityFailed:
        return Results({_UNREADABLE: 1, _LOST: len(got)})
    try:
        store.adopt_abandoned()
        store.add(fixture_of(ask("the next"), Answer("one")))
        store.commit()
    except Exception:  # noqa: BLE001 - whatever it is, the next one is in trouble
        found[_STUCK] += 1
    fixtures = [store.get(item.model, item.prompt_hash) for item in store.list()]
    asked = {fixture.request.messages[-1].content for fixture in fixtures if fixture.request}
    found[_LOST] = sum(question not in asked for question in got)
    return found


def _in_groups(
    command: list[str], times: int, look: Callable[[Path, str], Results], step: Callable[[], None]
) -> Results:
    """Kill a command with all its processes, that many times, and look at what each leaves."""
    with model_server() as server:
        environment = _environment(server.url)

        def run(after: float) -> tuple[Results, bool]:
            with TemporaryDirectory(dir=SCRATCH) as name:
                folder = Path(name)
                (folder / "test_asking.py").write_text(_TESTS)
                out, was_killed = killed_command(command, folder, environment, after)
                return look(folder, out), was_killed

        start = time.monotonic()
        with TemporaryDirectory(dir=SCRATCH) as name:
            (Path(name) / "test_asking.py").write_text(_TESTS)
            out, was_killed = killed_command(command, Path(name), environment, _PATIENCE_S)
            if was_killed or len(Store.open(Path(name) / "llm").list()) != _CALLS:
                raise AssertionError(f"it does not record when it is left alone: {out}")
        whole = time.monotonic() - start
        random = Random(_SEED)
        found = Results()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while (missing := times - found[_DONE]) > 0:
                for results, was_killed in pool.map(run, [random.uniform(0, whole) for _ in range(missing)]):
                    if was_killed:
                        found += results + Results({_DONE: 1})
                        step()
    return found
