"""The lines of a batch are read before the first is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.run.batch import read_jobs

REQUEST = {"model": "m", "messages": "q"}


def lines(*documents: Any) -> list[bytes]:
    return [json.dumps(document).encode() + b"\n" for document in documents]


def test_blank_lines_are_passed_over_and_counted() -> None:
    jobs = read_jobs([b"\n", *lines(REQUEST), b"  \n", *lines(REQUEST | {"timeout_ms": 5})], 700)

    assert [job.line for job in jobs] == [2, 4]
    assert [job.request.timeout_ms for job in jobs] == [700, 5]


@pytest.mark.parametrize("last", [b"{", b"[]", b'{"model": 5}', b"\xff", b'{"model": "a", "model": "b"}'])
def test_a_slip_in_the_last_line_refuses_the_batch(last: bytes) -> None:
    with pytest.raises(InvalidRequest, match="line 3"):
        read_jobs([*lines(REQUEST, REQUEST), last], 700)
