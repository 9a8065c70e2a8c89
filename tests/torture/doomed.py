"""A store that processes die on, one after the other, and what must be true of it all the while."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, get_args

from cortex_replay import Store, StoreIo
from tests.torture.plans import (
    BASE,
    SCRATCH,
    Answers,
    Op,
    after,
    assert_tidy,
    fixture,
    is_locked,
    perform,
    sound_answers,
)
from tests.torture.shim import Counter, Ended, Hook, IndexSyncFails, Killer, When, hooked, in_child

Say = Callable[[str], None]
LONG: Final = "long " * 1000
KINDS: Final = ("record", "prune", "both", "retreat", "adopt")


@dataclass(frozen=True)
class Run:
    """What a process sets out to do: its commits, one after the other."""

    kind: str
    commits: list[list[Op]]

    def __str__(self) -> str:
        ops = (", ".join(f"{op.kind} {op.question!r}" for op in ops) for ops in self.commits)
        return f"{self.kind} [{' | '.join(ops)}]"

    def __call__(self, root: Path, hook: Hook, say: Say) -> None:
        store = Store.open(root)
        with hooked(IndexSyncFails(hook) if self.kind == "retreat" else hook):
            if self.kind == "adopt":
                store.adopt_abandoned()
            for ops in self.commits:
                for op in ops:
                    perform(store, op)
                    say("staged")
                try:
                    store.commit()
                except StoreIo:
                    assert self.kind == "retreat"
                    store.commit()
                say("committed")


@dataclass
class DoomedStore:
    """One store and its story."""

    root: Path
    random: Random
    answers: Answers = field(default_factory=lambda: dict(BASE))
    """What it says."""
    staged: Answers = field(default_factory=dict)
    """What was staged by those that died, and must not be lost."""
    unsure: Answers = field(default_factory=dict)
    """What was being staged when they died."""
    story: list[str] = field(default_factory=list)

    def kill_one(self, number: int) -> None:
        """Kill some process at some call."""
        run = self._plan(number)
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            copy = shutil.copytree(self.root, Path(folder) / "store")
            count = count_calls(run, copy)
        when: When = self.random.choice(get_args(When))
        self.kill(run, Killer(self.random.randint(1, count), when))

    def kill(self, run: Run, killer: Killer) -> None:
        """Start a process, kill it, and look at what it leaves as a reader does."""
        self.story.append(f"{run} killed {killer.when} call {killer.at}")
        ended = in_child(lambda say: run(self.root, killer, say))
        assert ended.was_killed
        self._look(run, ended)

    def _plan(self, number: int) -> Run:
        kind = self.random.choice(KINDS)
        new = [
            Op("add", f"{self.random.choice('abc')} new {number}.{i}", self.random.choice(["short", LONG]))
            for i in range(self.random.randint(1, 4))
        ]
        # One staged answer per question, so that adopting them has one right outcome.
        there = sorted(self.answers.keys() - self.staged.keys() - self.unsure.keys())
        prune = [
            Op("remove", question) if i % 2 else Op("replace", question, f"replaced by {number}")
            for i, question in enumerate(self.random.sample(there, self.random.randint(0, len(there))))
        ]
        commits = {"record": [new], "prune": [prune or new], "both": [new, prune]}
        return Run(kind, commits.get(kind, [new + prune]))

    def _look(self, run: Run, ended: Ended) -> None:
        done = ended.said.count("committed")
        has_adopted = run.kind == "adopt"
        answers = self.answers
        for ops in run.commits[:done]:
            answers = after(answers | self.staged if has_adopted else answers, ops)
        under_way = run.commits[done] if done < len(run.commits) else []
        new = after(answers | self.staged if has_adopted and not done else answers, under_way)

        found = sound_answers(self.root)
        is_new = self._agree(found, new, has_adopted)
        assert is_new or self._agree(found, answers, has_adopted and done > 0), (found, answers, new)
        self.answers = found
        if has_adopted and (is_new or done):
            self.staged, self.unsure = {}, {}
        if not is_new:
            count = ended.said[::-1].index("committed") if done else len(ended.said)
            self.staged |= {op.question: op.text for op in under_way[:count] if op.kind != "remove"}
            self.unsure |= {
                op.question: op.text for op in under_way[count : count + 1] if op.kind != "remove"
            }

    def _agree(self, found: Answers, expected: Answers, has_adopted: bool) -> bool:
        """Whether they are the same, but for what a process died over while it staged it."""
        unsure = self.unsure.items() if has_adopted else ()
        return not {item for item in found.items() ^ expected.items() if item not in unsure} - {
            (question, expected.get(question)) for question, _ in unsure
        }

    def check_next_writer(self) -> None:
        """It waits for nobody, commits, cleans up, and can have what the dead had staged."""
        assert not is_locked(self.root)
        store = Store.open(self.root)
        store.add(fixture("d next", "next"))
        store.commit()
        self.answers = after(self.answers, [Op("add", "d next", "next")])
        assert sound_answers(self.root) == self.answers
        left = store.abandoned()
        assert_tidy(self.root, abandoned=left.answers)
        assert left.answers >= len(self.staged)

        assert len(self.staged) <= store.adopt_abandoned() <= left.answers  # some were cut short
        store.commit()
        assert self._agree(sound_answers(self.root), self.answers | self.staged, has_adopted=True)
        assert_tidy(self.root)


def count_calls(run: Run, root: Path) -> int:
    """How many calls that change something ``run`` makes."""

    def rehearse(say: Say) -> None:
        counter = Counter()
        run(root, counter, say)
        say(f"{len(counter.changed)}")

    return int(in_child(rehearse).said[-1])
