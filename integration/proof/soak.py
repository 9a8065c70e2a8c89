"""A server under thousands of calls: whether it errs, and whether it grows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from cortex_replay import Store
from cortex_replay.store.fixture import Answer
from cortex_replay.wire import WIRES
from integration.mocks import AIMOCK_VERSION, start_aimock
from integration.proof.figures import Row, Scale, Tell
from integration.proof.gateways import serving
from tests.builder import fixture_of

__all__ = ["prove"]

_CLIENTS: Final = 8
_QUESTIONS: Final = 100
_KIB: Final = 1024


def prove(scale: Scale, tell: Tell) -> list[Row]:
    calls = scale.pick(400, 10_000, 100_000)
    rows = []
    servers = (("ours", "cortex-replay", _ours), ("aimock", f"aimock {AIMOCK_VERSION}", _aimock))
    for number, (name, who, start) in enumerate(servers):
        with TemporaryDirectory() as folder, start(Path(folder)) as (url, pid):
            _ask_all(url, calls // 10)  # what is made once is made
            before = _size(pid)
            wrong = 0
            for part in range(10):
                wrong += _ask_all(url, calls // 10)
                tell(number * calls + (part + 1) * calls // 10, len(servers) * calls)
            after = _size(pid)
        growth = {"KiB more memory": after[0] - before[0], "more open files": after[1] - before[1]}
        rows.append(Row(name, who, f"{_CLIENTS} clients at once", calls, {"wrong or failed": wrong} | growth))
    return rows


def _body(number: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}


def _ask_all(url: str, calls: int) -> int:
    """How many calls got no answer, or another one."""

    def ask(client: int) -> int:
        with httpx.Client(trust_env=False, timeout=60) as session:
            return sum(_is_wrong(session, url, number) for number in range(client, calls, _CLIENTS))

    with ThreadPoolExecutor(_CLIENTS) as pool:
        return sum(pool.map(ask, range(_CLIENTS)))


def _is_wrong(session: httpx.Client, url: str, number: int) -> bool:
    number %= _QUESTIONS
    try:
        got = session.post(
            f"{url}/v1/chat/completions", json=_body(number), headers={"authorization": "Bearer x"}
        )
        return bool(got.json()["choices"][0]["message"]["content"] != f"answer {number}")
    except (httpx.HTTPError, ValueError, LookupError):
        return True


def _size(pid: int) -> tuple[int, int]:
    """The resident memory in KiB, and how many files are open."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]), len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - some are gone before they are looked at


@contextmanager
def _ours(folder: Path) -> Iterator[tuple[str, int]]:
    store = Store.create(folder / "llm")
    for number in range(_QUESTIONS):
        request = WIRES["openai-chat"].lift(_body(number))
        store.add(fixture_of(request, Answer(f"answer {number}", finish_reason="stop")))
    store.commit()
    with serving(folder / "llm", folder / "log") as (url, pid):
        yield f"{url}/openai", pid


@contextmanager
def _aimock(folder: Path) -> Iterator[tuple[str, int]]:
    fixtures = [
        {"match": {"userMessage": f"question {number}"}, "response": {"content": f"answer {number}"}}
        for number in reversed(range(_QUESTIONS))  # it takes the first whose text is part of the question
    ]
    with start_aimock(folder, fixtures) as aimock:
        yield aimock.url, aimock.pid
