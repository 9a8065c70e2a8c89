"""``kill -9`` while a store is written in another form."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cortex_replay import Store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.repack import plan_repack
from tests.linked import make_short, talk, write_whole
from tests.sampling import IS_TORTURE
from tests.torture.plans import SCRATCH
from tests.torture.shim import Counter, Hook, Killer, hooked, in_child


def repack(root: Path, hook: Hook, *, is_whole: bool) -> None:
    source = DirectorySource(root)
    plan = plan_repack(source, is_whole=is_whole)
    with hooked(hook):
        plan.apply(source)


def in_git(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    return {path: data for path, data in found.items() if not path.startswith(".")}


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_repack_killed_at_any_of_its_calls(is_whole: bool) -> None:
    """Readers find the old store or the new one at once, and the next writer leaves nothing else."""
    with TemporaryDirectory(dir=SCRATCH) as name:
        folder = Path(name)
        forms = [write_whole(folder / "whole", talk()[:2])]
        forms.append(make_short(forms[0], folder / "short"))
        old, new = reversed(forms) if is_whole else forms
        expected = [in_git(old), in_git(new)]
        for rehearsal in ("first", "second"):  # the first of a user also makes a key
            counter = Counter()
            repack(shutil.copytree(old, folder / rehearsal), counter, is_whole=is_whole)
            assert in_git(folder / rehearsal) == expected[1]
        ends = set()

        for at in range(1, len(counter.changed) + 1, 1 if IS_TORTURE else 6):
            root = shutil.copytree(old, folder / f"{at}")
            assert in_child(doomed(root, Killer(at, "before"), is_whole)).was_killed
            store = Store.open(root)
            assert len(store.list()) == 2
            assert store.adopt_abandoned() == 0  # nothing that was recorded is on its way
            store.commit()
            assert in_git(root) in expected, f"killed at call {at}, {counter.changed[at - 1]}"
            assert not list(root.glob(".cortex-replay/staging/*/*"))
            ends.add(expected.index(in_git(root)))

    assert ends == {0, 1}


def doomed(root: Path, killer: Killer, is_whole: bool) -> Callable[[Callable[[str], None]], None]:
    return lambda _: repack(root, killer, is_whole=is_whole)
