"""A disk that is full, broken or read-only, and a process that is out of descriptors."""

from __future__ import annotations

import errno
import gc
import shutil
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from cortex_replay import Store, StoreIo
from cortex_replay.errors import LlmError
from tests.sampling import IS_TORTURE, chance, sample
from tests.torture.doomed import Run
from tests.torture.faults import SHORT, Fault, FaultySystem
from tests.torture.plans import (
    SCRATCH,
    Answers,
    Op,
    after,
    assert_tidy,
    make_store,
    perform,
    sound_answers,
    temporaries,
)
from tests.torture.shim import Killer, hooked, in_child

FAULTS: Final = {
    "create": (errno.ENOSPC, errno.EMFILE),
    "open": (errno.ENFILE, errno.EIO),
    "read": (errno.EIO,),
    "write": (SHORT, errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC),
    "close": (errno.EIO,),
    "replace": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO,),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "rmdir": (errno.EIO,),
    "flock": (errno.ENOLCK,),
}
OPS: Final = [
    Op("add", "a new", "5" * 3000),
    Op("add", "c new", "6"),
    Op("replace", "a one", "uno"),
    Op("remove", "b one"),
    Op("remove", "b two"),
]
OTHER: Final = Op("add", "c other", "8")
# How the process before this one ended: well, or killed after that many renames of its commit.
BASES: Final = {"sound": 0, "to be undone": 2, "to be finished": 3}
PAIRS: Final = 2000 if IS_TORTURE else 10
# Of each family of faults, in `make test`; there are about 2,500 in all.
SINGLE: Final = 1
RETREATING: Final = 4
GIVING_UP: Final = 2


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store for each way in which the last writer ended."""
    folder = tmp_path_factory.mktemp("bases")
    roots = {name: make_store(folder / name) for name in BASES}
    run = Run("", [[Op("replace", "b two", "due"), Op("remove", "a two")]])
    for name, renames in BASES.items():
        if renames:
            killer = Killer(renames, "after", frozenset(["replace"]))
            in_child(partial(run, roots[name], killer))
    return roots


class Attempt:
    """A process that records and commits on a faulty system, and again on one that was mended."""

    def __init__(self, base: Path, system: FaultySystem, *, gives_up: bool = False) -> None:
        self.base = base
        self.system = system
        self.gives_up = gives_up
        self.error: LlmError | None = None

    def run(self) -> None:
        with TemporaryDirectory(dir=SCRATCH) as folder:
            root = shutil.copytree(self.base, Path(folder) / "store")
            store = Store.open(root)
            old = sound_answers(root)
            descriptors = count_descriptors()
            todo = list(OPS)
            with hooked(self.system):
                try:
                    self._go_on(store, todo)
                except LlmError as error:
                    self.error = error
            if self.error is None:
                if self.system.refused_sync:
                    raise AssertionError("an fsync that failed is reported as success")
            else:
                self._check_failure(root, old)
                if self.gives_up:
                    store.discard()
                    self._go_on(store, [OTHER])
                else:
                    self._go_on(store, todo)
            self._check_answers(root, old)
            if count_descriptors() != descriptors:
                gc.collect()  # what earlier failures left to the collector is not this one's
                assert count_descriptors() <= descriptors
            self._check_rest(root)

    @staticmethod
    def _go_on(store: Store, todo: list[Op]) -> None:
        while todo:
            perform(store, todo[0])
            todo.pop(0)
        store.commit()

    def _check_failure(self, root: Path, old: Answers) -> None:
        if type(self.error) is not StoreIo:
            raise AssertionError(f"a refusal of the system became {type(self.error).__name__}")
        assert any(reason in str(self.error) for reason in self.system.refused)
        is_one = len(self.system.refused) == 1
        assert sound_answers(root) in ([old] if is_one else [old, after(old, OPS)])
        assert not is_one or not temporaries(root)

    def _check_answers(self, root: Path, old: Answers) -> None:
        found = sound_answers(root)
        if not (self.gives_up and self.error):
            assert found == after(old, OPS)
        elif len(self.system.refused) == 1:
            assert found == after(old, [OTHER])
        else:  # a commit that could neither be made nor taken back may end either way
            assert found in (after(old, [OTHER]), after(old, [*OPS, OTHER]))

    def _check_rest(self, root: Path) -> None:
        files = [path.stat() for path in root.rglob("*") if path.is_file()]
        lost = [self.system.lost.get((file.st_dev, file.st_ino)) for file in files]
        if any(lost):
            raise AssertionError(f"committed, though its fsync failed: {list(filter(None, lost))}")
        store = Store.open(root)  # the next writer clears up what this one could not
        perform(store, Op("add", "d next", "7"))
        store.commit()
        assert_tidy(root, abandoned=store.abandoned().answers)


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wrong_after(base: Path, *faults: Fault, retreats: bool = False, gives_up: bool = False) -> list[str]:
    attempt = Attempt(base, FaultySystem(list(faults), retreats), gives_up=gives_up)
    try:
        attempt.run()
    except (AssertionError, LlmError) as error:
        said = f" after {attempt.error}" if attempt.error else ""
        return [f"{', '.join(map(str, faults))}: {type(error).__name__}: {error}{said}"]
    return []


@cache
def counts(base: Path, *, retreats: bool = False) -> dict[str, int]:
    """How often each call is made when nothing else is wrong."""
    faults = [Fault(name, 0, errno.EIO) for name in FAULTS]
    Attempt(base, FaultySystem(faults, retreats)).run()
    return {fault.name: fault.count for fault in faults}


def report(wrong: list[str]) -> None:
    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} failures", *wrong]), pytrace=False)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("name", FAULTS)
def test_it_succeeds_or_says_why_and_changes_nothing(
    bases: dict[str, Path], name: str, lasting: bool, base: str
) -> None:
    """At every call; once the system is mended the same store can commit, and nothing is left behind."""
    calls = range(1, counts(bases[base])[name] + 1)
    cases = sample([Fault(name, at, error, lasting) for at in calls for error in FAULTS[name]], SINGLE)

    assert cases
    report([line for fault in cases for line in wrong_after(bases[base], fault)])


@pytest.mark.parametrize("gives_up", [False, True], ids=["tries again", "gives up"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_a_second_fault_while_it_retreats(bases: dict[str, Path], lasting: bool, gives_up: bool) -> None:
    """The new index is in place but cannot be made durable, and then something else fails too."""
    base = bases["sound"]
    cases = [
        Fault(name, at, error, lasting)
        for name, count in counts(base, retreats=True).items()
        for at in range(1, count + 1)
        for error in FAULTS[name]
    ]

    assert len(cases) > 20
    some = sample(cases, RETREATING)
    report([line for case in some for line in wrong_after(base, case, retreats=True, gives_up=gives_up)])


@pytest.mark.parametrize("name", ["write", "fsync", "replace", "create"])
def test_giving_up_after_a_fault_that_lasted(bases: dict[str, Path], name: str) -> None:
    """What was staged is dropped, and the same store goes on with something else."""
    calls = sample(range(1, counts(bases["sound"])[name] + 1), GIVING_UP)
    cases = [Fault(name, at, FAULTS[name][-1], lasting=True) for at in calls]

    report([line for case in cases for line in wrong_after(bases["sound"], case, gives_up=True)])


@pytest.mark.parametrize("batch", range(10))
def test_two_faults_at_once(bases: dict[str, Path], batch: int) -> None:
    """Anywhere, also in the cleaning up after the first."""
    random = chance(f"two faults {batch}")
    base = bases[random.choice(list(BASES))]
    number = counts(base)
    wrong = []
    for _ in range(PAIRS // 10):
        names = random.choices(list(FAULTS), k=2)
        faults = [
            Fault(name, random.randint(1, number[name] + 2), random.choice(FAULTS[name])) for name in names
        ]
        wrong += wrong_after(base, *faults)
    report(wrong)
