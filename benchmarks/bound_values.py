"""[bound]: what bindings cost: the gateway's plain replay, and opening a store, with them and without.

Without them means with all of them switched off, as a user would do it. Both gateways have the same questions
and give the same answers; where something is bound, one has it as placeholders and the other as it is.
"""

from __future__ import annotations

import json
import os
import random
import sys
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.data import MODEL, Texts, small_fixtures, write_store
from benchmarks.load import answers, drive, rendered
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.peers import Server, can_measure, running
from benchmarks.table import Goal, Row
from cortex_replay import Store, TokenUsage
from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.bindings.surroundings import KNOWN
from cortex_replay.config import Settings
from cortex_replay.run import Run
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.wire.openai_chat import openai_chat

__all__ = ["run"]

_PATH = "/v1/chat/completions"
_QUESTIONS = 1_000
_ROUNDS, _SECONDS = 7, 1.5
_ROWS, _OPENINGS = 20_000, 7
_MOST = Goal("slower", 1.15)
_OFF = f"[bindings]\noff = {json.dumps(KNOWN)}\nshapes = []\n"


class _Case(NamedTuple):
    """The same calls, answered by two gateways."""

    what: str
    servers: dict[bool, Server]
    """By whether bindings are on."""
    requests: list[bytes]


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    rows = [_opening(folder)]
    if not can_measure():
        say("skipped: the gateway with bindings, because this system does not tell what other processes use")
        return rows
    with ExitStack() as stack:
        cases = [
            _start(stack, folder / "plain", "nothing is bound", is_bound=False),
            _start(stack, folder / "bound", "cwd, date and an id are bound", is_bound=True),
        ]
        for case in cases:
            rows += _measure(case)
    return rows


def _start(stack: ExitStack, folder: Path, what: str, *, is_bound: bool) -> _Case:
    """Both gateways of a case, which are held against each other."""
    say(f"starting two gateways; {what}")
    place = folder / "place"
    place.mkdir(parents=True)
    texts = Texts(seed=19)
    asked = [_question(texts, number, place if is_bound else None) for number in range(_QUESTIONS)]
    servers = {}
    for is_on in (True, False):
        root = folder / str(is_on)
        write_store(root, _fixtures(asked, Surroundings.of(_environment(), place) if is_on else None))
        if not is_on:
            (root / "cortex-replay.toml").write_text(_OFF)
        options = ["--store", str(root), "--mode", "replay", "--port", "0", "--json"]
        command = [sys.executable, "-m", "cortex_replay", "serve", *options]
        servers[is_on] = stack.enter_context(running(command, place))
    requests = [rendered(_PATH, json.dumps(_body(question)).encode()) for question in asked]
    random.Random(12).shuffle(requests)
    on, off = ([_said(body) for body in answers(server.port, requests)] for server in servers.values())
    if on != off or not all(text.startswith("You said: ") for text in on):
        raise RuntimeError("with bindings the gateway says something else than without")
    return _Case(what, servers, requests)


def _environment() -> dict[str, str]:
    """That of a server, as :func:`running` gives it."""
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def _question(texts: Texts, number: int, place: Path | None) -> str:
    text = f"{number:05}: {texts.between(40, 200).strip()}"
    if place is None:
        return text
    return f"In {place} on {datetime.now(UTC):%Y-%m-%d}, session {uuid.UUID(int=number, version=4)}: {text}"


def _body(question: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": question}], "max_tokens": 256}


def _fixtures(questions: Sequence[str], surroundings: Surroundings | None) -> Iterator[Fixture]:
    binder = None if surroundings is None else Binder(BindingRules(), surroundings)
    for question in questions:
        request = openai_chat().lift(_body(question))
        text = f"You said: {question}"
        names: tuple[str, ...] = ()
        if binder is not None:
            bound = binder.bind(request)
            request, text, names = bound.request, bound.binding.text(text), bound.names
        answer = Answer(text, usage=TokenUsage(60, 50), finish_reason="stop")
        meta: dict[str, Any] | None = {"bindings": [*names]} if names else None
        yield Fixture(FixtureKey(MODEL, request.prompt_hash()), (answer,), request, meta)


def _said(body: bytes) -> str:
    return str(json.loads(body)["choices"][0]["message"]["content"])


def _measure(case: _Case) -> list[Row]:
    say(f"measuring plain answers; {case.what}")
    best: dict[tuple[bool, str], float] = {}
    for _ in range(_ROUNDS):
        for is_on, server in case.servers.items():
            before = server.cpu()
            load = drive(server.port, case.requests, 1, seconds=_SECONDS, count=sys.maxsize)
            for clock, taken in (("wall", load.p50), ("CPU", (server.cpu() - before) / load.requests)):
                best[is_on, clock] = min(taken, best.get((is_on, clock), taken))
    return [
        Row("bound", f"gateway, plain, {case.what}", *_pair(best, "CPU"), _MOST, "call"),
        Row("bound", "  p50 to the last byte", *_pair(best, "wall"), None, "call", "wall"),
    ]


def _pair(best: dict[tuple[bool, str], float], clock: str) -> tuple[float, str, float]:
    return best[True, clock], "bindings off", best[False, clock]


def _opening(folder: Path) -> Row:
    """A run that is ready to look something up."""
    say(f"measuring the opening of a store of {_ROWS:,} fixtures")
    roots = {is_on: folder / f"store {is_on}" for is_on in (True, False)}
    for is_on, root in roots.items():
        write_store(root, small_fixtures(_ROWS))
        if not is_on:
            (root / "cortex-replay.toml").write_text(_OFF)
    tasks = {str(is_on): lambda root=root: cpu_of(lambda: _open(root)) for is_on, root in roots.items()}
    taken = smallest(_OPENINGS, tasks)
    what = f"opening a store of {_ROWS:,}, ready for a call"
    return Row("bound", what, taken["True"], "bindings off", taken["False"], _MOST)


def _open(root: Path) -> Run:
    opened = Run(Settings(), "replay", Store.open(root, verify="on-read"))
    opened.binder(opened.store.key_rules.bindings)
    return opened
