"""Workers on many machines make one call per answer, and tell of what they recorded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from cortex_replay import ConfigError, LlmError, LlmRequest, RecordingAdapter, Store, StreamChunk, Upstream
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.exchanges import look_up_call, take_turn
from cortex_replay.engine.fleet import Fleet
from cortex_replay.errors import StoreIo
from cortex_replay.redact.process import process_redactor
from cortex_replay.redact.redactor import Redactor
from cortex_replay.remote.bucket import Stamped
from cortex_replay.remote.leases import Contender, Lease, drive
from cortex_replay.sharing.collect import plan_collection
from cortex_replay.store import Fixture
from tests.builder import ask
from tests.engine.counting import DIE, Counting, read, run, texts
from tests.fleets import RUN, SEAL, MemoryBucket, enter_fleet
from tests.waiting import until, wait_until


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    return enter_fleet(monkeypatch)


def collected(root: Path, bucket: MemoryBucket) -> Store:
    """A store with all that the workers published."""
    store = Store.open_or_create(root)
    found = plan_collection(store, bucket, SEAL)
    assert not found.findings
    assert not found.conflicts
    found.apply(store)
    return Store.open(root)


def claim_name(store: Store, request: LlmRequest = DIE, n: int = 1) -> str:
    key = store.key(request)
    return SEAL.name("claims", key.model, key.prompt_hash, f"{n}")


@pytest.mark.parametrize("way", ["complete", "stream", "mixed"])
def test_machines_that_need_the_same_answer_make_one_call(
    way: str, tmp_path: Path, bucket: MemoryBucket
) -> None:
    inner = Counting(delay_s=0.02)

    async def machine(number: int) -> list[str]:
        said = []
        async with RecordingAdapter(inner, tmp_path / str(number)) as recorder:
            for _ in range(2):
                if way == "stream" or (way == "mixed" and number % 2):
                    said.append("".join(chunk.delta for chunk in await read(recorder)))
                else:
                    said.append((await recorder.complete(DIE)).text)
            await recorder.complete(ask(f"Only {number}?"))
        return said

    async def main() -> list[list[str]]:
        return await asyncio.gather(*(machine(number) for number in range(4)))

    assert run(main()) == [["Answer 1.", "Answer 2."]] * 4
    assert inner.calls == 2 + 4
    store = collected(tmp_path / "all", bucket)
    assert texts(store) == ["Answer 1.", "Answer 2."]
    assert len(store) == 1 + 4
    runs = {(store.get(item.model, item.prompt_hash).meta or {})["run"] for item in store.list()}
    assert len(runs) == 1
    assert RUN not in runs


def test_a_claim_whose_call_failed_goes_to_the_next(tmp_path: Path, bucket: MemoryBucket) -> None:
    """At once, and not when its lease ends."""
    inner = Counting(delay_s=0.02, fails=lambda call: call == 1)

    async def machine(number: int) -> object:
        async with RecordingAdapter(inner, tmp_path / str(number)) as recorder:
            try:
                return (await recorder.complete(DIE)).text
            except LlmError as error:
                return type(error)

    async def main() -> list[object]:
        return list(await asyncio.gather(*(machine(number) for number in range(3))))

    said = run(main())
    assert said.count(Upstream) == 1
    assert said.count("Answer 2.") == 2
    assert inner.calls == 2
    assert texts(collected(tmp_path / "all", bucket)) == ["Answer 2."]


def test_a_recorded_failure_is_shared(tmp_path: Path, bucket: MemoryBucket) -> None:
    inner = Counting(fails=lambda call: call == 1)

    async def machine(number: int) -> list[object]:
        said: list[object] = []
        async with RecordingAdapter(inner, tmp_path / str(number), record_failures=True) as recorder:
            for _ in range(2):
                try:
                    said.append((await recorder.complete(DIE)).text)
                except Upstream as error:
                    said.append(error.status)
        return said

    async def main() -> list[list[object]]:
        return [await machine(0), await machine(1)]

    assert run(main()) == [[529, "Answer 2."]] * 2
    assert inner.calls == 2
    store = collected(tmp_path / "all", bucket)
    assert list(store.failures(*store.key(DIE))) == [1]


def test_other_calls_are_shared(tmp_path: Path, bucket: MemoryBucket) -> None:
    """What is no completion, too: each is asked once."""
    asked = []

    async def machine(number: int) -> object:
        core = RunCore(Store.open_or_create(tmp_path / str(number)), "once", Redactor)
        scope = core.open_scope("tests/test_a.py::test_it")
        look = look_up_call(
            scope, {"upstream": "openai", "method": "POST", "path": "/embeddings", "query": [], "body": "{}"}
        )
        async with take_turn(scope, look) as turn:
            if turn.stored is None:
                asked.append(number)
                turn.keep({"status": 200, "body": f"of {number}"}, "embeddings", "")
                said = turn.kept
            else:
                turn.serve()
                turn.end()
                said = turn.stored
        core.commit()
        return None if said is None else said.wire["body"]

    async def main() -> list[object]:
        return [await machine(0), await machine(1)]

    assert run(main()) == ["of 0", "of 0"]
    assert asked == [0]
    assert len(collected(tmp_path / "all", bucket).list_exchanges()) == 1


def test_a_dead_worker_is_taken_over(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_LEASE_S", "0.2")
    store = Store.open_or_create(tmp_path / "one")
    dead = drive(bucket, Contender(claim_name(store), SEAL, 0.2, time.monotonic).look())
    assert isinstance(dead, Lease)
    inner = Counting()

    async def main() -> str:
        async with RecordingAdapter(inner, store) as recorder:
            return (await recorder.complete(DIE)).text

    assert run(main()) == "Answer 1."
    assert inner.calls == 1
    assert not drive(bucket, dead.finish(b"late"))


def test_a_worker_shows_that_it_is_alive(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as it holds a claim, and not longer."""
    monkeypatch.setenv("CORTEX_REPLAY_LEASE_S", "0.1")
    fleet = Fleet.join(bucket, RUN)
    store = Store.open_or_create(tmp_path)
    name = claim_name(store)
    held = run(fleet.contend(store.key(DIE), 1, 1000))
    assert not isinstance(held, bytes)
    begun = bucket.puts.count(name)
    wait_until(lambda: bucket.puts.count(name) >= begun + 3)

    fleet.settle(store.key(DIE), held, None, [])
    fleet.publisher.flush()
    assert held not in fleet._keeper._held


def test_a_worker_that_has_ended_shows_no_life(tmp_path: Path, bucket: MemoryBucket) -> None:
    """Also if it could not tell so: the claims that it leaves behind are for others."""
    fleet = Fleet.join(bucket, RUN)
    held = run(fleet.contend(Store.open_or_create(tmp_path).key(DIE), 1, 1000))
    assert held in fleet._keeper._held
    bucket.is_gone.append(True)
    with pytest.raises(StoreIo, match="cannot be asked"):
        fleet.end()
    assert not fleet._keeper._held


class Overtaken(Counting):
    """While it asks, another worker takes over, and leaves an answer."""

    def __init__(self, bucket: MemoryBucket, store: Store) -> None:
        super().__init__()
        self._bucket = bucket
        self._store = store

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        clock = iter([0.0, 1e9])
        other = Contender(claim_name(self._store), SEAL, 10, lambda: next(clock))
        assert drive(self._bucket, other.look()) is None
        lease = drive(self._bucket, other.look())
        assert isinstance(lease, Lease)
        assert drive(self._bucket, lease.renew())
        async for chunk in super().stream(request):
            yield chunk


@pytest.mark.parametrize("scope", ["", "tests/test_a.py::test_it"])
def test_what_comes_too_late_is_for_its_scope_alone(
    scope: str, tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no answer for everybody any more; but a test that got it has to get it again."""
    monkeypatch.setattr(time, "monotonic", iter(range(0, 10**9, 100)).__next__)  # a worker that was stopped
    store = Store.open_or_create(tmp_path / "one")
    core = RunCore(store, "once", Redactor)
    inner = Overtaken(bucket, store)

    async def main() -> str:
        opened = core.open_scope(scope) if scope else core.scope("")
        return (await ScopeAdapter(opened, inner).complete(DIE)).text

    assert run(main()) == "Answer 1."
    core.commit()
    fleet = core.join_fleet()
    assert fleet is not None
    assert fleet.late == 1
    assert texts(Store.open(tmp_path / "one")) == ["Answer 1."]
    rows = plan_collection(Store.open_or_create(tmp_path / "all"), bucket, SEAL).run.rows
    assert [row.scope for _, row in rows] == ([scope] if scope else [])


def test_a_bucket_that_goes_away_costs_no_recording(tmp_path: Path, bucket: MemoryBucket) -> None:
    store = Store.open_or_create(tmp_path / "one")
    core = RunCore(store, "once", Redactor)
    adapter = RecordingAdapter(Counting(), store, commit_on_close=False)

    class Going(Counting):
        async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
            async for chunk in super().stream(request):
                yield chunk
            bucket.is_gone.append(True)

    async def main() -> None:
        recorder = RecordingAdapter(Going(), store, commit_on_close=False)
        assert (await recorder.complete(DIE)).text == "Answer 1."
        with pytest.raises(StoreIo, match="cannot be asked"):
            await adapter.complete(ask("Another?"))

    run(main())
    with pytest.raises(StoreIo, match=r"not told of 1 answer: .*cannot be asked.* The store on this machine"):
        core.commit()
    assert texts(Store.open(tmp_path / "one")) == ["Answer 1."]

    bucket.is_gone.clear()
    left = plan_collection(Store.open_or_create(tmp_path / "all"), bucket, SEAL)
    assert left.run.rows == [], "no row counts whose answer others cannot have"
    assert core.publish() == 1
    assert texts(collected(tmp_path / "all", bucket)) == ["Answer 1."]


def test_a_name_that_can_be_guessed_is_refused(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_RUN", "nightly")
    with pytest.raises(ConfigError, match="cannot be guessed"):
        RecordingAdapter(Counting(), tmp_path)
    assert not bucket.puts


@pytest.mark.parametrize("mode", ["replay", "live"])
def test_who_records_nothing_is_no_worker(mode: str, tmp_path: Path, bucket: MemoryBucket) -> None:
    store = Store.create(tmp_path)
    store.add(Fixture.of(DIE, "First."))
    store.commit()

    async def main() -> str:
        async with RecordingAdapter(Counting(), tmp_path, mode) as adapter:  # type: ignore[arg-type]
            return (await adapter.complete(DIE)).text

    assert run(main()) == ("First." if mode == "replay" else "Answer 1.")
    assert not bucket.puts


@pytest.mark.parametrize("variable", ["CORTEX_REPLAY_REMOTE", "CORTEX_REPLAY_RUN", "named by us"])
def test_a_run_of_one_machine_asks_no_bucket(
    variable: str, tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a remote, without a name, and as a part of a run that a command named."""
    if variable == "named by us":
        monkeypatch.setenv("CORTEX_REPLAY_RUN", "20261116T063024Z-3f2a")
    else:
        monkeypatch.delenv(variable)

    async def main() -> None:
        async with RecordingAdapter(Counting(), tmp_path) as adapter:
            await adapter.complete(DIE)

    run(main())
    assert texts(tmp_path) == ["Answer 1."]
    assert not bucket.puts


def test_the_name_of_a_run_is_a_secret(tmp_path: Path, bucket: MemoryBucket) -> None:
    fleet = Fleet.join(bucket, RUN)
    fleet.end()
    assert RUN not in process_redactor().text(f"it is {RUN}")[0]
    assert not any(RUN in name for name in bucket.puts)


def test_a_forked_process_is_told_what_to_do(tmp_path: Path, bucket: MemoryBucket) -> None:
    store = Store.open_or_create(tmp_path)
    core = RunCore(store, "once", Redactor)
    fleet = core.join_fleet()
    assert fleet is not None
    fleet._pid = 0
    with pytest.raises(StoreIo, match="spawn"):
        store.add(Fixture.of(DIE, "First."))


def test_a_lease_has_a_time(bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv("CORTEX_REPLAY_LEASE_S", said)
        with pytest.raises(ConfigError, match="seconds"):
            Fleet.join(bucket, RUN)


def test_who_gives_up_leaves_the_claim_to_others(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is cancelled while it asks for a claim holds nothing afterwards."""
    monkeypatch.setenv("CORTEX_REPLAY_LEASE_S", "3600")
    fleet = Fleet.join(bucket, RUN)
    store = Store.open_or_create(tmp_path)
    key = store.key(DIE)

    class Gate(threading.Event):
        is_reached = False

        def wait(self, timeout: float | None = None) -> bool:
            self.is_reached = True
            return super().wait(timeout)

    async def main() -> None:
        gate = Gate()
        bucket.gates.append(gate)
        waiting = asyncio.ensure_future(fleet.contend(key, 1, 1000))
        await until(lambda: gate.is_reached)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        assert not isinstance(await fleet.contend(key, 1, 60_000), bytes)

    run(main())


def test_one_worker_of_a_fleet_looks_whether_the_bucket_keeps_conditions(
    bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe is many puts: 64 workers that start at once and all probe keep a server from answering."""
    monkeypatch.setattr("cortex_replay.engine.fleet._PROBED_LOOK_S", 0.01)
    barrier = threading.Barrier(6)

    def join() -> None:
        barrier.wait()
        Fleet.join(bucket, RUN).end()

    with ThreadPoolExecutor(6) as pool:
        for joined in [pool.submit(join) for _ in range(6)]:
            joined.result()

    races = {name for name in bucket.puts if name.startswith("probe/")}
    assert len(races) == 6, "those of one probe"
    assert len(bucket.names("workers/")) == 6


def test_each_worker_refuses_a_bucket_for_itself(
    bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next to look need not wait for the lease of one that refused."""

    def refuse(*_: object, **__: object) -> None:
        raise StoreIo("its server does not keep conditions")

    monkeypatch.setattr("cortex_replay.engine.fleet.refuse_unconditional", refuse)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("nothing to wait for"))
    monkeypatch.setattr("cortex_replay.engine.fleet.time", clock)
    for _ in range(3):
        with pytest.raises(StoreIo, match="does not keep conditions"):
            Fleet.join(bucket, RUN)
    assert not bucket.names("workers/")


def test_a_bucket_that_fails_once_fails_no_call(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either operation of a look may fail; the next one finds the claim, and the model is asked once."""
    inner = Counting()
    create, fetch = MemoryBucket.create, MemoryBucket.fetch
    failures = ["fetch", "create"]

    async def fail_after_create(self: MemoryBucket, name: str, data: bytes) -> bool:
        is_new = await create(self, name, data)
        if "/claims/" in name and failures[-1:] == ["create"]:
            failures.pop()
            raise StoreIo("it does not answer in time")
        return is_new

    async def fail_fetch(self: MemoryBucket, name: str) -> Stamped | None:
        if "/claims/" in name and failures[-1:] == ["fetch"]:
            failures.pop()
            raise StoreIo("it does not answer in time")
        return await fetch(self, name)

    monkeypatch.setattr(MemoryBucket, "create", fail_after_create)
    monkeypatch.setattr(MemoryBucket, "fetch", fail_fetch)

    async def main() -> str:
        async with RecordingAdapter(inner, tmp_path / "llm") as recorder:
            return (await recorder.complete(DIE)).text

    assert run(main()) == "Answer 1."
    assert failures == []
    assert inner.calls == 1
