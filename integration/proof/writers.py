"""Many processes that write at once."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from cortex_replay import Store
from cortex_replay.store.fixture import Answer
from integration.mocks import AIMOCK_VERSION, start_aimock
from integration.proof.figures import Row, Scale, Tell
from integration.proof.vcr_cassettes import VCRPY, load, record
from tests.builder import ask, fixture_of
from tests.gateway.upstream import REAL_KEY, model_server
from tests.torture.plans import SCRATCH
from tests.torture.rekeying import RECORDERS, race

__all__ = ["prove"]

_WRITERS: Final = 8
_TWO: Final = 2
_LOST: Final = "answers lost"
_FAILED: Final = "writers that failed"


def prove(scale: Scale, tell: Tell) -> list[Row]:
    each, races = scale.pick(5, 50, 200), scale.pick(3, 200, 500)
    ours = _together(_WRITERS, each, _commit, _count_ours)
    theirs = _together(_WRITERS, each, _save, _count_theirs)
    two = _together(_TWO, each, _save, _count_theirs)
    aimocks = _aimock_together(_WRITERS, each)
    tell(1, races + 1)
    outcomes: Counter[str] = Counter()
    lost = kept = 0
    with TemporaryDirectory(dir=SCRATCH) as folder:
        for seed in range(races):
            found = race(Path(folder) / f"{seed}", seed)
            outcomes += found.outcomes
            lost += len(found.lost)
            kept += found.kept
            tell(seed + 2, races + 1)
    failed = sum(outcomes.values()) - outcomes["done"] - outcomes["colliding"]
    return [
        Row("ours", "cortex-replay", f"{_WRITERS} processes, {each} answers each", _WRITERS * each, ours),
        Row("vcrpy", VCRPY, f"{_WRITERS} processes, {each} answers each", _WRITERS * each, theirs),
        Row("vcrpy-two", VCRPY, f"{_TWO} processes, {each} answers each", _TWO * each, two),
        Row(
            "aimock",
            f"aimock {AIMOCK_VERSION}",
            f"{_WRITERS} servers that record into one folder, {each} answers each",
            _WRITERS * each,
            aimocks,
        ),
        Row(
            "rekey",
            "cortex-replay",
            f"`rekey` beside {RECORDERS} recorders, {races:,} times",
            kept + lost,
            {_LOST: lost, _FAILED: failed},
        ),
    ]


def _together(
    writers: int, each: int, write: Callable[[Path, int, int], None], tally: Callable[[Path], int | None]
) -> dict[str, int]:
    """Write at once; gives how many answers are gone, and how many writers gave up."""
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory(dir=SCRATCH) as folder:
        gate = context.Barrier(writers)
        place = Path(folder)
        processes = [
            context.Process(target=_write, args=(gate, write, place, n, each)) for n in range(writers)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        failed = sum(process.exitcode != 0 for process in processes)
        return {_LOST: writers * each - (tally(place) or 0), _FAILED: failed}


def _write(
    gate: Barrier, write: Callable[[Path, int, int], None], place: Path, writer: int, each: int
) -> None:
    gate.wait()
    try:
        for number in range(each):
            write(place, writer, number)
    except Exception:  # noqa: BLE001 - it is counted, and need not be printed
        sys.exit(1)


def _commit(place: Path, writer: int, number: int) -> None:
    store = Store.open_or_create(place / "llm", verify="on-read")
    store.add(fixture_of(ask(_question(writer, number)), Answer("yes")))
    store.commit()


def _count_ours(place: Path) -> int:
    return len(Store.open(place / "llm").list())


def _save(place: Path, writer: int, number: int) -> None:
    record(place / "cassette.yaml", [(_question(writer, number), "yes")])


def _count_theirs(place: Path) -> int | None:
    there = load(place / "cassette.yaml")
    return None if there is None else len(there)


def _aimock_together(writers: int, each: int) -> dict[str, int]:
    """Each server has a client of its own; an answer is lost if no file that can be read has its question."""
    with TemporaryDirectory(dir=SCRATCH) as name, model_server() as provider, ExitStack() as stack:
        shared = Path(name) / "fixtures"
        shared.mkdir()
        options = ["--record", "--provider-openai", provider.url]
        urls = []
        for writer in range(writers):
            (place := Path(name) / f"{writer}").mkdir()
            urls.append(stack.enter_context(start_aimock(place, shared, options)).url)

        def ask_all(writer: int) -> bool:
            with httpx.Client(trust_env=False, timeout=60) as client:
                return all(_is_answered(client, urls[writer], _question(writer, n)) for n in range(each))

        with ThreadPoolExecutor(writers) as clients:
            failed = list(clients.map(ask_all, range(writers))).count(False)
        there = "".join(path.read_text() for path in shared.rglob("*.json") if _is_json(path))
        asked = [_question(writer, number) for writer in range(writers) for number in range(each)]
        return {_LOST: sum(json.dumps(question) not in there for question in asked), _FAILED: failed}


def _question(writer: int, number: int) -> str:
    return f"question {number} of {writer}"


def _is_answered(client: httpx.Client, url: str, question: str) -> bool:
    body = {"model": "m", "messages": [{"role": "user", "content": question}]}
    headers = {"authorization": f"Bearer {REAL_KEY}"}
    return client.post(f"{url}/v1/chat/completions", json=body, headers=headers).is_success


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True
