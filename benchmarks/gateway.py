"""[gateway]: ``cortex-replay serve`` beside aimock and llmposter, asked for chat completions by one client.

Each is a process with the same questions and answers, and each is held against them before it is
measured. What they do for an answer differs: ours makes the key of the whole request and finds it at
once, whatever else is in the store. aimock looks for every fixture's text in the last user message, and
llmposter does until one is found, so their time grows with the number of fixtures.

The client takes a core of its own while it is busy, and one that is busy all the time is what was
measured: how busy it was is told. It never counts in a server's CPU time. It acknowledges what it gets
as every client does, which is late: a server that lets Nagle's algorithm wait for that, as llmposter does
when it streams, answers after 40 ms.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.data import MODEL, Texts, write_store
from benchmarks.load import answers, drive, rendered
from benchmarks.measure import Times, say, smallest_times
from benchmarks.peers import (
    AIMOCK,
    LLMPOSTER,
    Server,
    aimock_command,
    can_measure,
    llmposter_command,
    running,
)
from benchmarks.table import Goal, Row
from cortex_replay import StreamChunk, TokenUsage
from cortex_replay.store.fixture import Answer, Fixture, TimedChunk
from cortex_replay.wire.openai_chat import openai_chat

__all__ = ["first_answer", "run"]

_OURS = "ours"
_PATH = "/v1/chat/completions"
_SYSTEM = "You are a terse assistant in a test suite."
_FEW, _MANY = 1_000, 10_000
_EVENTS, _PIECE = 50, 4
_CONNECTIONS = (1, 8)
_ROUNDS, _SECONDS = 5, 1.5
_STARTS = 5
_SOON, _LATE = 1_000, 100_000
_GROWTH_BYTES = 5e6
_BUSY = 0.8
_WAYS = ("plain", "streamed")
_GOALS = {
    ("plain", "wall"): Goal("faster", 1.5),
    ("plain", "cpu"): Goal("faster", 1.5),
    ("streamed", "p50"): Goal("faster", 2),
    ("streamed", "cpu"): Goal("faster", 2),
}
"""Against aimock, with one connection and with many."""
_COMPILED_GOALS = {("plain", "cpu"): Goal("slower", 3)}
"""Against llmposter, which is a compiled program."""

_Questions = dict[str, str]
"""Answers by prompts."""


class _Figures(NamedTuple):
    """Seconds per request, the smallest of several rounds; all but CPU by the wall clock."""

    wall: float
    p50: float
    p99: float
    cpu: float


_Measured = dict[tuple[str, str, int], _Figures]
"""By server, way and number of connections."""


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    if not can_measure():
        say("skipped: gateway, because this system does not tell what other processes use")
        return []
    many = _questions(_MANY)
    few = dict(list(many.items())[:_FEW])
    say(f"writing stores of {_FEW:,} and of {_MANY:,} fixtures")
    commands = {
        _OURS: _served(folder / "few", few),
        AIMOCK: aimock_command(folder, few, _PIECE),
        LLMPOSTER: llmposter_command(folder, few, _PIECE),
    }
    present = {name: command for name, command in commands.items() if command is not None}
    requests = {way: _requests(few, way) for way in _WAYS}
    measured = _under_load(folder, present, few, requests)
    present = {name: command for name, command in present.items() if (name, "plain", 1) in measured}
    return [
        *_load_rows(measured),
        *_start_rows(folder, present, _served(folder / "many", many), requests["plain"][0]),
        _memory_row(folder, present[_OURS], requests["plain"]),
    ]


def _questions(count: int) -> _Questions:
    """Prompts of which none is in another, as the peers look for parts; llmposter trims what it gets."""
    texts = Texts(seed=11)
    length = _EVENTS * _PIECE
    return {f"{i:05}: {texts.between(40, 200).strip()}": texts.between(length, length) for i in range(count)}


def _body(prompt: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": prompt}]
    return {"model": MODEL, "messages": messages, "temperature": 0.0, "max_tokens": 256}


def _requests(questions: _Questions, way: str) -> list[bytes]:
    """One for each prompt, in an order that favours nobody who looks for the first."""
    extra = {"stream": True} if way == "streamed" else {}
    made = [rendered(_PATH, json.dumps(_body(prompt) | extra).encode()) for prompt in questions]
    random.Random(12).shuffle(made)
    return made


def _served(root: Path, questions: _Questions) -> list[str]:
    """How to serve a store, which is written for it."""
    write_store(root, (_fixture(prompt, answer) for prompt, answer in questions.items()))
    options = ["--store", str(root), "--mode", "replay", "--port", "0", "--json"]
    return [sys.executable, "-m", "cortex_replay", "serve", *options]


def _fixture(prompt: str, answer: str) -> Fixture:
    """A recorded stream without its pauses, whose whole is the plain answer."""
    pieces = [StreamChunk(answer[i : i + _PIECE]) for i in range(0, len(answer), _PIECE)]
    stream = tuple(TimedChunk(0, chunk) for chunk in (*pieces, StreamChunk("", "stop")))
    recorded = Answer(answer, usage=TokenUsage(60, _EVENTS), finish_reason="stop", stream=stream)
    return Fixture.of(openai_chat().lift(_body(prompt)), recorded)


def _under_load(
    folder: Path,
    commands: Mapping[str, Sequence[str]],
    questions: _Questions,
    requests: Mapping[str, Sequence[bytes]],
) -> _Measured:
    """All servers run at once and are measured in turn; one that waits takes no time from another."""
    best: _Measured = {}
    busiest: dict[str, float] = {}
    with ExitStack() as stack:
        servers = {}
        for name, command in commands.items():
            say(f"starting {name}, and holding its answers against what they should be")
            try:
                server = stack.enter_context(running(command, _made(folder / name)))
                _check(server, questions, requests)
            except (RuntimeError, OSError) as error:
                if name == _OURS:
                    raise
                say(f"skipped: {name}: {error}")
            else:
                servers[name] = server
        for way in _WAYS:
            for connections in _CONNECTIONS:
                say(f"measuring {way} answers, {_connections(connections)}")
                for _ in range(_ROUNDS):
                    for name, server in servers.items():
                        figures, busy = _measure(server, requests[way], connections)
                        key = name, way, connections
                        best[key] = _Figures._make(map(min, best.get(key, figures), figures))
                        busiest[name] = max(busiest.get(name, 0), busy)
    for name, busy in busiest.items():
        limits = ", which limits its throughput" if busy > _BUSY else ""
        say(f"the client of {name} was busy for {busy:.0%} of the time at most{limits}")
    return best


def _measure(server: Server, requests: Sequence[bytes], connections: int) -> tuple[_Figures, float]:
    before = server.cpu()
    load = drive(server.port, requests, connections, seconds=_SECONDS, count=sys.maxsize)
    cpu = (server.cpu() - before) / load.requests
    return _Figures(load.per_request, load.p50, load.p99, cpu), load.busy


def _check(server: Server, questions: _Questions, requests: Mapping[str, Sequence[bytes]]) -> None:
    """Every answer, in both ways: who answers something else might well be faster."""
    for way in _WAYS:
        got = answers(server.port, requests[way])
        for request, body in zip(requests[way], got, strict=True):
            asked = json.loads(request.partition(b"\r\n\r\n")[2])["messages"][-1]["content"]
            if way == "plain":
                pieces = [json.loads(body)["choices"][0]["message"]["content"]]
            else:
                pieces = list(_deltas(body))
            if "".join(pieces) != questions[asked] or len(pieces) != (1 if way == "plain" else _EVENTS):
                raise RuntimeError(f"another {way} answer than the one to {asked!r}: {pieces!r}")


def _deltas(body: bytes) -> Iterator[str]:
    """The texts of a stream, but for empty ones, with which some begin or end."""
    lines = body.decode().split("\n")
    events = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    if not events or events.pop() != "[DONE]":
        raise RuntimeError("a stream without an end")
    for event in events:
        for choice in json.loads(event)["choices"]:
            if text := choice["delta"].get("content"):
                yield text


def _load_rows(measured: _Measured) -> list[Row]:
    rows = []
    for way in _WAYS:
        for connections in _CONNECTIONS:
            ours = measured[_OURS, way, connections]
            aimock = measured.get((AIMOCK, way, connections))
            llmposter = measured.get((LLMPOSTER, way, connections))
            rates = f"{1 / ours.wall:,.0f} a second" + (f", aimock {1 / aimock.wall:,.0f}" if aimock else "")
            against_aimock = partial(_row, way, ours, AIMOCK, aimock, _GOALS)
            rows += [
                against_aimock("wall", f"{way}, {_connections(connections)}", rates),
                against_aimock("p50", "  p50 to the last byte"),
                against_aimock("p99", "  p99 to the last byte"),
                against_aimock("cpu", "  the server's own time"),
            ]
            if llmposter:
                against_llmposter = partial(_row, way, ours, LLMPOSTER, llmposter, _COMPILED_GOALS)
                rows += [
                    against_llmposter("p50", "  p50 to the last byte"),
                    against_llmposter("p99", "  p99 to the last byte"),
                    against_llmposter("cpu", "  the server's own time"),
                ]
    return rows


def _row(
    way: str,
    ours: _Figures,
    peer_name: str,
    peer: _Figures | None,
    goals: Mapping[tuple[str, str], Goal],
    figure: str,
    what: str,
    note: str = "",
) -> Row:
    return Row(
        "gateway",
        what,
        getattr(ours, figure),
        peer_name,
        None if peer is None else getattr(peer, figure),
        goals.get((way, figure)),
        "call",
        "CPU" if figure == "cpu" else "wall",
        note,
    )


def _start_rows(
    folder: Path, commands: Mapping[str, Sequence[str]], many: Sequence[str], request: bytes
) -> list[Row]:
    say("measuring how long after its start a server answers")
    tasks = {
        name: partial(_times_to_answer, folder, command, request)
        for name, command in {**commands, "many": many}.items()
    }
    taken = smallest_times(_STARTS, tasks)
    ours, aimock = taken[_OURS], taken.get(AIMOCK)
    wall, cpu = (None, None) if aimock is None else (aimock.wall, aimock.cpu)
    what, few = f"first answer, {_FEW:,} fixtures", f"{AIMOCK}, {_FEW:,} fixtures"
    rows = [
        Row("gateway", what, ours.wall, AIMOCK, wall, clock="wall"),
        Row(
            "gateway",
            f"first answer, {_MANY:,} fixtures",
            taken["many"].wall,
            few,
            wall,
            Goal("slower", 1),
            clock="wall",
        ),
        # The wall clock also counts whoever else uses the machine, and a start is long enough for that.
        Row("gateway", "  the server's own time until then", taken["many"].cpu, few, cpu),
    ]
    if LLMPOSTER in taken:
        rows.insert(1, Row("gateway", what, ours.wall, LLMPOSTER, taken[LLMPOSTER].wall, clock="wall"))
    return rows


def first_answer(folder: Path, command: Sequence[str], request: bytes) -> float:
    """How long after its start a server has answered a request."""
    return _times_to_answer(folder, command, request).wall


def _times_to_answer(folder: Path, command: Sequence[str], request: bytes) -> Times:
    start = time.perf_counter()
    with running(command, folder) as server:
        next(answers(server.port, [request]))
        return Times(server.cpu(), time.perf_counter() - start)


def _memory_row(folder: Path, command: Sequence[str], requests: Sequence[bytes]) -> Row:
    say(f"measuring memory, over {_LATE:,} answers")
    load = partial(drive, connections=max(_CONNECTIONS), seconds=inf)
    with running(command, folder) as server:
        load(server.port, requests, count=_SOON)
        soon = server.memory()
        load(server.port, requests, count=_LATE - _SOON)
        late = server.memory()
    what, note = f"memory that answers {_SOON:,} to {_LATE:,} add", f"from {soon / 1e6:.1f} MB"
    return Row("gateway", what, late - soon, goal=Goal("bytes", _GROWTH_BYTES), clock="bytes", note=note)


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
