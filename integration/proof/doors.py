"""Requests that nobody meant, sent to servers that replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from integration.mocks import AIMOCK_VERSION, start_aimock
from integration.proof.figures import Row
from integration.proof.gateways import serving
from tests.gateway.fuzzing import (
    CRASH,
    HANG,
    QUESTIONS,
    REFUSED,
    WRONG,
    answer_to,
    is_served,
    record,
    text_of,
    verdict_of,
)

__all__ = ["attack_both"]

_SEED: Final = 24
_GONE: Final = "gone afterwards"
_LOOKS: Final = 20
_CLIENTS: Final = 8
_PATIENCE_S: Final = 15


def attack_both(times: int, step: Callable[[], None]) -> list[Row]:
    """The same requests for each; ``step`` is told of every one."""
    servers = (("doors", "cortex-replay", _ours), ("aimock", f"aimock {AIMOCK_VERSION}", _aimock))
    rows = []
    for name, who, start in servers:
        found: Counter[str] = Counter()
        with (
            TemporaryDirectory() as folder,
            start(Path(folder)) as port,
            ThreadPoolExecutor(_CLIENTS) as clients,
        ):
            for verdict in clients.map(partial(_verdict, port), range(times)):
                found[verdict] += 1
                step()
            served = [is_served(port, Random(number), _PATIENCE_S) for number in range(_LOOKS)]
            found[_GONE] = served.count(False)
        results = {one: found[one] for one in (REFUSED, CRASH, WRONG, HANG, _GONE)}
        rows.append(Row(name, who, "requests to a server that replays", times, results))
    return rows


def _verdict(port: int, number: int) -> str:
    return verdict_of(port, Random(f"{_SEED} {number}"), _PATIENCE_S)


@contextmanager
def _ours(folder: Path) -> Iterator[int]:
    record(folder / "llm")
    with serving(folder / "llm", folder / "log") as (url, _):
        yield _port(url)


@contextmanager
def _aimock(folder: Path) -> Iterator[int]:
    fixtures = [
        {"match": {"userMessage": text_of(number)}, "response": {"content": answer_to(number)}}
        for number in range(QUESTIONS)
    ]
    with start_aimock(folder, fixtures) as aimock:
        yield _port(aimock.url)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
