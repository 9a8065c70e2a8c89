"""A failure is recorded when that is asked for, and gives way to an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay import (
    NoFixture,
    RecordingAdapter,
    ReplayAdapter,
    Store,
    Upstream,
)
from cortex_replay.store.exchange import Exchange
from tests.engine.counting import DIE, Counting, run


def test_a_failure_is_recorded_when_asked(tmp_path: Path) -> None:
    """And replayed in its turn, then the success; by the recorder too."""
    inner = Counting(fails=lambda call: call == 2)

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, record_failures=True) as recorder:
            await recorder.complete(DIE)
            with pytest.raises(Upstream):
                await recorder.complete(DIE)
            await recorder.complete(DIE)

    run(main())

    for adapter in (ReplayAdapter(tmp_path), RecordingAdapter(inner, tmp_path)):
        assert adapter.sync.complete(DIE).text == "Answer 1."
        with pytest.raises(Upstream) as caught:
            adapter.sync.complete(DIE)
        error = caught.value
        assert (error.status, error.message, error.error_type) == (529, "overloaded", "overloaded_error")
        assert adapter.sync.complete(DIE).text == "Answer 3."
    assert inner.calls == 3
    spent = ReplayAdapter(tmp_path)
    spent.sync.complete(DIE)
    with pytest.raises(Upstream):
        spent.sync.complete(DIE)
    spent.sync.complete(DIE)
    with pytest.raises(NoFixture):
        spent.sync.complete(DIE)


def test_only_failures_are_no_answer(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add_exchange(Exchange.failure(store.key(DIE), 1, {"status": 500, "headers": {}, "body": "{}"}))
    store.commit()
    replay = ReplayAdapter(store)

    with pytest.raises(Upstream):
        replay.sync.complete(DIE)
    with pytest.raises(NoFixture):
        replay.sync.complete(DIE)


def test_an_answer_takes_the_place_of_a_failure(tmp_path: Path) -> None:
    async def main(inner: Counting, mode: Any) -> None:
        async with RecordingAdapter(inner, tmp_path, mode, record_failures=True) as recorder:
            for _ in range(2):
                try:
                    await recorder.complete(DIE)
                except Upstream:
                    continue

    run(main(Counting(fails=lambda call: call == 1), "once"))
    assert Store.open(tmp_path).has_failures(DIE.model, DIE.prompt_hash())
    run(main(Counting(), "record"))
    replay = ReplayAdapter(tmp_path)
    assert [replay.sync.complete(DIE).text for _ in range(2)] == ["Answer 1.", "Answer 2."]


def test_a_failure_that_was_replaced_meanwhile_is_read_anew(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    key = store.key(DIE)
    store.add_exchange(Exchange.failure(key, 1, {"status": 500, "headers": {}, "body": "{}"}))
    store.commit()
    reader = Store.open(tmp_path, verify="on-read")
    other = Store.open(tmp_path)
    other.add_exchange(Exchange.failure(key, 1, {"status": 503, "headers": {}, "body": "{}"}), overwrite=True)
    other.commit()

    assert reader.failures(*key)[1].wire["status"] == 503
