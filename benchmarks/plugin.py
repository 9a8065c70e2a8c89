"""[plugin]: what the pytest plugin costs a test, against pytest-recording; and where nothing is replayed.

Two hundred tests, each with a call of its own and a recording of its own. What a test itself costs is taken
off: the same call is answered by a mock in a run without any plugin.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final

from benchmarks.measure import say
from benchmarks.table import Goal, Row
from cortex_replay import Fixture, Store
from cortex_replay.wire import WIRES

__all__ = ["run"]

_TESTS: Final = 200
_FEW: Final = 20
_ROUNDS: Final = 3
_URL: Final = "https://api.openai.com/v1/chat/completions"
_ROOT: Final = Path(__file__).resolve().parent.parent
_BENCH: Final = _ROOT / ".bench" / "pytest_recording-0.14.0"
_PACKAGES: Final = ("pytest-recording==0.14.0", "httpx==0.28.1", "pytest==9.2.0")

_TEST: Final = """
import httpx, pytest

def handler(request):
    return httpx.Response(200, json={{"choices": [{{"message": {{"content": "x"}}}}]}})

if {mocked}:  # below the client, so that a client costs the same in every run
    httpx.HTTPTransport.handle_request = lambda self, request: handler(request)

@pytest.mark.parametrize("i", range({count}))
{mark}
def test_call(i):
    with httpx.Client(verify=False) as client:
        body = {{"model": "m", "messages": [{{"role": "user", "content": f"Question {{i}}?"}}]}}
        assert client.post("{url}", json=body).status_code == 200
"""


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say(f"measuring {_TESTS} tests with the plugin")
    empty = folder / "empty"
    empty.mkdir()
    with_plugin = _cpu([sys.executable], empty)
    without = _cpu([sys.executable], empty, "-p", "no:cortex_replay")
    loading = Row(
        "plugin",
        "an empty run with the plugin, beyond one without",
        with_plugin - without,
        goal=Goal("seconds", 0.03),
    )
    ours = {count: _ours(folder, count) for count in (_FEW, _TESTS)}
    absolute = Row(
        "plugin", f"added to a test, of {_TESTS}", ours[_TESTS] / _TESTS, goal=Goal("seconds", 1e-3)
    )
    python = _peer()
    if python is None:
        return [absolute, loading]
    theirs = {count: _theirs(python, folder, count) for count in (_FEW, _TESTS)}
    peer = "pytest-recording 0.14.0"
    return [
        Row(
            "plugin",
            f"added to a test, of {_TESTS}, all told",
            ours[_TESTS] / _TESTS,
            peer_name=peer,
            peer=theirs[_TESTS] / _TESTS,
            goal=Goal("faster", 3.0),
        ),
        absolute,
        Row(
            "plugin",
            "added to each further test",
            (ours[_TESTS] - ours[_FEW]) / (_TESTS - _FEW),
            peer_name=peer,
            peer=(theirs[_TESTS] - theirs[_FEW]) / (_TESTS - _FEW),
        ),
        loading,
    ]


def _ours(folder: Path, count: int) -> float:
    """What the plugin adds to a run of so many tests."""
    place = folder / f"ours-{count}"
    _write(place, "@pytest.mark.llm_replay", count, mocked=False)
    _write_store(place / "llm", count)
    return _cpu([sys.executable], place, "--llm-store", "llm") - _bare([sys.executable], folder, count)


def _theirs(python: str, folder: Path, count: int) -> float:
    place = folder / f"theirs-{count}"
    _write(place, "@pytest.mark.vcr", count, mocked=False)
    _write_cassettes(place, count)
    return _cpu([python], place) - _bare([python], folder, count)


def _bare(python: list[str], folder: Path, count: int) -> float:
    """The same tests before a mock, without any plugin of the two."""
    place = folder / f"bare-{count}"
    _write(place, "", count, mocked=True)
    plugins = ("-p", "no:cortex_replay", "-p", "no:recording")
    return _cpu(python, place, *plugins)


def _write(folder: Path, mark: str, count: int, *, mocked: bool) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = _TEST.format(mocked=mocked, count=count, mark=mark, url=_URL)
    (folder / "test_calls.py").write_text(text, encoding="utf-8")


def _body(i: int) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": f"Question {i}?"}]}


def _write_store(root: Path, count: int) -> None:
    store = Store.create(root)
    for i in range(count):
        store.add(Fixture.of(WIRES["openai-chat"].lift(_body(i)), f"Answer {i}."))
    store.commit()


def _write_cassettes(folder: Path, count: int) -> None:
    """As vcrpy writes them, one for each test."""
    cassettes = folder / "cassettes" / "test_calls"
    cassettes.mkdir(parents=True)
    answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Answer."}}]})
    for i in range(count):
        text = (
            "interactions:\n- request:\n"
            f"    body: '{json.dumps(_body(i))}'\n    headers: {{}}\n    method: POST\n    uri: {_URL}\n"
            f"  response:\n    body:\n      string: '{answer}'\n"
            "    headers: {content-type: [application/json]}\n    status: {code: 200, message: OK}\n"
            "version: 1\n"
        )
        (cassettes / f"test_call[{i}].yaml").write_text(text, encoding="utf-8")


def _cpu(python: list[str], folder: Path, *options: str) -> float:
    """The CPU time of a test run, the least of several."""
    # What is measured is the code beside this file, whichever was installed.
    environment = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "none", "PYTHONPATH": os.fspath(_ROOT)}
    least = float("inf")
    for _ in range(_ROUNDS):
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run(
            [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        after = getrusage(RUSAGE_CHILDREN)
        if done.returncode not in (0, 5):  # 5 is a run without tests
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least


def _peer() -> str | None:
    """The Python that has pytest-recording; ``None`` if it cannot be had."""
    python = os.fspath(_BENCH / "bin" / "python")
    if not (_BENCH / ".complete").exists():
        say("installing pytest-recording")
        shutil.rmtree(_BENCH, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", os.fspath(_BENCH)],
            [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *_PACKAGES],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                say(f"skipped: pytest-recording cannot be installed:\n{done.stderr.strip()}")
                return None
        (_BENCH / ".complete").touch()
    return python
