"""Commands that record by a gateway or by the pytest plugin, killed with all their processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from cortex_replay import Store
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.fixture import Answer
from integration.proof.doomed_children import LOST, STUCK, UNREADABLE, Results, killed_command
from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.builder import ask, fixture_of
from tests.gateway.upstream import REAL_KEY, answer

__all__ = ["kill_command", "kill_suite"]

_CALLS: Final = 12
_MOMENTS: Final = (0, *range(1, _CALLS), *[_CALLS] * 4)
"""After how many calls: at the last one everything is committed, so it comes more often."""
_START_S: Final = 0.5
_DELAY_S: Final = 0.1
_SAID: Final = "said"
_ASK: Final = """
import json, os, urllib.request
def ask(text):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), key)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(request))["choices"][0]["message"]["content"]
"""
"""With a client that the plugin intercepts."""
_KEEP: Final = f"""
def get(text):
    ask(text)
    with open({_SAID!r}, "a") as file: file.write(text + "\\n")
"""
_ASKING: Final = f"{_ASK}{_KEEP}\nfor n in range({_CALLS}): get(f'question {{n}}')"
_TESTS: Final = f"""{_ASK}{_KEEP}
import pytest

@pytest.mark.llm_replay
@pytest.mark.parametrize("n", range({_CALLS // 2}))
def test_asks(n):
    get(f"question {{n}}.0")
    get(f"question {{n}}.1")
"""
_RECORD: Final = [sys.executable, "-m", "cortex_replay", "record", "--store", "llm", "--"]
_PLUGINS: Final = ["-p", "xdist.plugin", "-p", "cortex_replay.pytest_plugin", "-p", "no:cacheprovider"]
_PYTEST: Final = [sys.executable, "-m", "pytest", "-q", *_PLUGINS, "-n", "2"]


def kill_command(folder: Path, random: Random) -> Results | None:
    """``record -- COMMAND``."""
    return _kill([*_RECORD, sys.executable, "-c", _ASKING], folder, random)


def kill_suite(folder: Path, random: Random) -> Results | None:
    """pytest with two workers of xdist, whose tests record."""
    (folder / "test_asking.py").write_text(_TESTS)
    return _kill([*_PYTEST, "--llm-store", "llm", "--llm-mode", "once"], folder, random)


def _kill(command: Sequence[str], folder: Path, random: Random) -> Results | None:
    """Kill at a moment after some call, and look; gives nothing if it had ended before.

    Raises:
        AssertionError: It ended without what it had to record.
    """
    number = random.choice(_MOMENTS)
    reached = Event()

    async def count(exchange: Exchange) -> None:
        if len(exchange.provider.received) >= number:
            reached.set()
        await answer(exchange)

    if number == 0:
        reached.set()
    with serving_in_thread(count) as provider:
        delay = random.uniform(0, _DELAY_S if number else _START_S)
        out, was_killed = killed_command(command, folder, _environment(provider.url), delay, reached)
    if was_killed:
        return _look_at(folder)
    if len(Store.open(folder / "llm").list()) != _CALLS:
        raise AssertionError(f"it does not record when it is left alone: {out}")
    return None


def _look_at(folder: Path) -> Results:
    """What the program was told before it was killed has to be there, or to be had by adopting it."""
    said = folder / _SAID
    got = said.read_text().splitlines() if said.exists() else []
    if not (folder / "llm/INDEX.toml").exists() and not got:
        return Results()
    try:
        store = Store.open_or_create(folder / "llm")
    except FixtureIntegrityFailed:
        return Results({UNREADABLE: 1, LOST: len(got)})
    found = Results()
    try:
        store.adopt_abandoned()
        store.add(fixture_of(ask("the next"), Answer("one")))
        store.commit()
    except Exception:  # noqa: BLE001 - whatever it is, the next one is in trouble
        found[STUCK] += 1
    fixtures = [store.get(item.model, item.prompt_hash) for item in store.list()]
    asked = {fixture.request.messages[-1].content for fixture in fixtures if fixture.request}
    found[LOST] = sum(question not in asked for question in got)
    return found


def _environment(url: str) -> dict[str, str]:
    here = Path(__file__).resolve().parents[2]
    kept = {
        name: os.environ[name] for name in ("PATH", "LANG", "HOME", "XDG_STATE_HOME") if name in os.environ
    }
    own = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": REAL_KEY}
    # Others that happen to be installed take longer to load than the tests take.
    return kept | own | {"PYTHONPATH": str(here), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
