"""A bucket that fails, before each command: a clear error, once; nothing wrong served or kept; then it works.

A proxy stands before a real MinIO. What happens to objects, to listings and to puts is chosen by command.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from cortex_replay.remote.bucket import Bucket
from integration.agents.install import elsewhere
from integration.remote.fault_proxy import FAULTS, FaultProxy, start_fault_proxy, trickle
from integration.remote.team import Done, Machine
from tests.servers.s3 import S3Server

OBJECT: Final = r"GET \S*/b3/\w\w/\w{64}"
LISTING: Final = r"(GET \S*\?\S*list-type|HEAD )"
PUT: Final = r"PUT \S*/b3/"
WRONG_BYTES: Final = ("shortened", "empty", "a bit flipped", "bloated")
"""What only the hash tells: exit 5."""
SLOW: Final = ("hang", "stall")
"""They take as long as the program waits, so that one command has to do."""
MOST_TIMES: Final = 3
"""How often a command may say that it cannot ask the bucket; there are four times as many files."""


@dataclass(frozen=True, slots=True)
class Task:
    """A command, and what of the bucket it needs."""

    do: Callable[[Machine], Done]
    needs: str
    is_reading: bool = True
    """Whether it reads objects, whose bytes may be wrong."""


TASKS: Final = {
    "push": Task(lambda machine: machine.cortex("push"), PUT, is_reading=False),
    "pull": Task(lambda machine: machine.cortex("pull"), OBJECT),
    "pytest": Task(Machine.test, OBJECT),
    "gateway": Task(Machine.serve, OBJECT),
    "verify": Task(lambda machine: machine.cortex("verify"), OBJECT),
    "verify --remote": Task(lambda machine: machine.cortex("verify", "--remote"), LISTING, is_reading=False),
    "gc": Task(lambda machine: machine.cortex("gc", "--remote", "--apply"), LISTING, is_reading=False),
}


@pytest.fixture(scope="module")
def proxy(minio: S3Server) -> Iterator[FaultProxy]:
    with start_fault_proxy(minio.endpoint) as started:
        yield started


@pytest.fixture
def author(minio: S3Server, proxy: FaultProxy, tmp_path: Path) -> Machine:
    """Who has the files, and has pushed them."""
    proxy.mend()
    variables = minio.variables | {"AWS_ENDPOINT_URL": proxy.endpoint}
    machine = Machine(tmp_path / "author", f"s3://{minio.new_bucket()}/agents", variables, keep="git")
    machine.begin()
    pushed = machine.cortex("push")
    assert pushed.code == 0, pushed.said
    return machine


def machine_for(task: str, author: Machine, place: Path) -> Machine:
    """The machine on which a task is tried: who pushes has files that the bucket lacks, others have none."""
    if task != "push":
        return author.clone(place)
    machine = Machine(place, author.url + "-new", author.variables, keep="git")
    machine.begin()
    return machine


def cases() -> Iterator[tuple[str, str]]:
    for name, task in TASKS.items():
        for fault in FAULTS:
            is_about_bytes = fault in (*WRONG_BYTES, "truncated", "reset halfway", "stall")
            if (is_about_bytes and not task.is_reading) or (fault in SLOW and name not in ("pull", "gc")):
                continue
            yield name, fault


@pytest.mark.parametrize(("name", "fault"), list(cases()))
def test_a_command_says_what_is_wrong_and_works_when_it_is_mended(
    author: Machine, proxy: FaultProxy, tmp_path: Path, name: str, fault: str
) -> None:
    task = TASKS[name]
    machine = machine_for(name, author, tmp_path / "other")
    before = sorted(author.store.rglob("*"))
    proxy.add(FAULTS[fault], task.needs)
    failed = task.do(machine)

    assert failed.code != 0, failed.said
    assert "Traceback" not in failed.said
    assert "INTERNALERROR" not in failed.said
    if fault in WRONG_BYTES and name != "gateway":  # a program's exit status is its own
        assert failed.code == (1 if name == "pytest" else 5), failed.said
    assert machine.url in failed.said
    if fault not in WRONG_BYTES and name != "pytest":  # each test fails for itself
        assert failed.said.count(machine.url) <= MOST_TIMES, failed.said
    assert machine.wrong_entries() == []
    assert sorted(author.store.rglob("*")) == before
    proxy.mend()
    mended = task.do(machine)
    assert mended.code == 0, mended.said
    assert machine.wrong_entries() == []


@pytest.mark.parametrize("name", ["pull", "pytest", "gateway", "verify"])
@pytest.mark.parametrize("fault", ["500", "503 slow down", "reset", "truncated", "a bit flipped"])
def test_what_goes_wrong_once_is_tried_again(
    author: Machine, proxy: FaultProxy, tmp_path: Path, name: str, fault: str
) -> None:
    """No one hears of it, except of bytes that were wrong: these are asked for once more, or refused."""
    machine = author.clone(tmp_path / "other")
    proxy.add(FAULTS[fault], OBJECT, times=1)
    done = TASKS[name].do(machine)

    assert machine.wrong_entries() == []
    if fault != "a bit flipped":
        assert done.code == 0, done.said


@pytest.mark.parametrize("name", ["pull", "pytest"])
def test_a_slow_body_is_no_fault(author: Machine, proxy: FaultProxy, tmp_path: Path, name: str) -> None:
    machine = author.clone(tmp_path / "other")
    proxy.add(trickle, OBJECT)
    done = TASKS[name].do(machine)

    assert done.code == 0, done.said


@pytest.mark.parametrize("name", TASKS)
def test_a_bucket_that_is_gone(author: Machine, minio: S3Server, tmp_path: Path, name: str) -> None:
    """Really, and not only for the proxy."""
    machine = machine_for(name, author, tmp_path / "other")
    assert minio.data is not None
    shutil.rmtree(minio.data / author.url.removeprefix("s3://").partition("/")[0])
    failed = TASKS[name].do(machine)

    assert failed.code != 0
    assert "Traceback" not in failed.said
    assert author.url in failed.said
    if name != "pytest":
        assert failed.said.count(author.url) <= MOST_TIMES, failed.said


@pytest.mark.parametrize("name", ["pull", "pytest", "push"])
def test_a_bucket_that_vanishes_halfway(
    author: Machine, proxy: FaultProxy, tmp_path: Path, name: str
) -> None:
    """What was fetched by then is kept, and right; when it is back, only the rest is asked for."""
    machine = machine_for(name, author, tmp_path / "other")
    proxy.add(FAULTS["no bucket"], TASKS[name].needs, after=5)
    failed = TASKS[name].do(machine)

    assert failed.code != 0
    assert machine.wrong_entries() == []
    proxy.mend()
    mended = TASKS[name].do(machine)
    assert mended.code == 0, mended.said
    if name != "push":
        assert sum("GET" in line and "/b3/" in line for line in proxy.requests) < len(author.questions)


@pytest.mark.parametrize("days", [-3, 3])
@pytest.mark.parametrize("name", ["push", "pull"])
def test_a_clock_that_is_days_off(author: Machine, tmp_path: Path, name: str, days: int) -> None:
    """A server refuses the signature; the error says that the clock is why."""
    program = elsewhere()
    machine = machine_for(name, author, tmp_path / "other")
    failed = machine.cortex(name, before=[program, str(days), "6.1.0"])

    assert failed.code != 0
    assert "Traceback" not in failed.said
    assert "clock" in failed.said, failed.said
    assert machine.cortex(name).code == 0


def test_no_request_is_made_when_everything_is_there(
    author: Machine, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Neither for files of the work tree, nor for those in the cache."""
    machine = author.clone(tmp_path / "other")
    assert machine.cortex("pull").code == 0
    proxy.mend()
    for owner in (author, machine):
        for name in ("pytest", "gateway", "verify"):
            done = TASKS[name].do(owner)
            assert done.code == 0, done.said

    assert proxy.requests == []


def test_every_object_of_a_bucket_with_a_bit_flipped(
    author: Machine, minio: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time, at another place in each: exit 5, and what is right is still there."""
    machine = author.clone(tmp_path / "other")
    minio.enter(monkeypatch)
    bucket = Bucket.open(author.url)
    names = sorted(entry.name for entry in bucket.list("b3"))
    assert len(names) == len(author.questions)
    for place, name in enumerate(names):
        seen = bucket.get(name)
        assert seen is not None
        changed = bytearray(seen.data)
        changed[place * len(changed) // len(names)] ^= 1 << place % 8
        bucket.delete([name])
        bucket.put_new(name, bytes(changed))
        shutil.rmtree(machine.cache, ignore_errors=True)
        for task in ("pull", "verify"):
            failed = TASKS[task].do(machine)
            assert failed.code == 5, failed.said
            assert name.rpartition("/")[2][:12] in failed.said or "fixtures/" in failed.said
        assert machine.wrong_entries() == []
        bucket.delete([name])
        bucket.put_new(name, seen.data)
    assert TASKS["pull"].do(machine).code == 0


def test_every_file_of_a_cache_with_a_bit_flipped(author: Machine, tmp_path: Path) -> None:
    """It is fetched again, and no one gets the wrong one."""
    machine = author.clone(tmp_path / "other")
    assert machine.cortex("pull").code == 0
    entries = [path for path in machine.entries() if "b3" in path.parts]
    assert len(entries) == len(author.questions)
    for place, path in enumerate(entries):
        data = bytearray(path.read_bytes())
        data[place * len(data) // len(entries)] ^= 1 << place % 8
        path.chmod(0o600)
        path.write_bytes(data)
    assert len(machine.wrong_entries()) == len(entries)
    done = machine.test()

    assert done.code == 0, done.said
    assert machine.wrong_entries() == []
    assert len([path for path in machine.entries() if "b3" in path.parts]) == len(entries)
