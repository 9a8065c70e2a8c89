"""Many machines record one run over S3: every answer is asked for once, and none is lost.

A machine is a process with a home, a store and a folder of its own (``fleet_worker.py``). It has nothing in
common with others but the bucket and the name of the run. The model counts who asks it what, and never says
the same twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from cortex_replay import LlmRequest, ReplayAdapter
from integration.remote.upstream import MODEL, Upstream, start_upstream
from tests.sampling import IS_TORTURE
from tests.servers.s3 import S3Server

WORKER: Final = Path(__file__).with_name("fleet_worker.py")
COMMAND: Final = Path(sys.executable).with_name("cortex-replay")
PROJECT: Final = Path(__file__).parents[2]
WORKERS: Final = 64 if IS_TORTURE else 12
QUESTIONS: Final = 200 if IS_TORTURE else 40
KILLED: Final = 10 if IS_TORTURE else 4
AT_ONCE: Final = 2
"""How many questions a worker has under way."""
LEASE_S: Final = "60" if IS_TORTURE else "10"
"""64 machines share the cores of one here, so each may get none for longer than a lease usually lasts."""
LONGEST_S: Final = 1200
SEEDS: Final = range(int(os.environ.get("FLEET_SEED", "1")), int(os.environ.get("FLEET_SEED", "1")) + 1)

Said = dict[tuple[str, int], set[str]]


@dataclass
class Fleet:
    """Machines that share a bucket, and the name of a run."""

    folder: Path
    url: str
    variables: dict[str, str]
    upstream: Upstream
    secret: str
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def machine(self, name: str, endpoint: dict[str, str] | None = None) -> tuple[Path, dict[str, str]]:
        """A project with a remote in a folder of its own, and the environment of a machine of its own."""
        project = self.folder / name / "project"
        project.mkdir(parents=True)
        (project / "cortex-replay.toml").write_text(f'store = "llm"\n[remote]\nurl = "{self.url}"\n')
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        return project, kept | self.variables | {
            "HOME": os.fspath(project.parent),
            "CORTEX_REPLAY_RUN": self.secret,
            "PYTHONUNBUFFERED": "1",
            "CORTEX_REPLAY_LEASE_S": LEASE_S,
        }

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def start(self, name: str, questions: Sequence[tuple[str, int]]) -> None:
        project, environment = self.machine(name)
        with (
            (project / "said").open("w") as said,
            (project / "errors").open("w") as errors,
            (project / "questions").open("w+") as asked,
        ):
            json.dump(questions, asked)
            asked.seek(0)
            self.processes[name] = subprocess.Popen(
                [sys.executable, WORKER, self.upstream.url, name],
                cwd=project,
                env=environment,
                stdin=asked,
                stdout=said,
                stderr=errors,
                text=True,
            )

    def kill(self, name: str) -> None:
        """Kill a worker as a machine that loses its power does."""
        self.processes[name].send_signal(signal.SIGKILL)

    def wait(self) -> set[str]:
        """Wait for all; who was killed. Everyone else has to end well."""
        ended = {name: process.wait(LONGEST_S) for name, process in self.processes.items()}
        killed = {name for name, code in ended.items() if code == -signal.SIGKILL}
        wrong = {name: code for name, code in ended.items() if code and name not in killed}
        assert not wrong, {name: self.errors(name) for name in wrong}
        return killed

    def errors(self, name: str) -> str:
        return (self.folder / name / "project" / "errors").read_text()

    def said_to(self, names: Iterable[str]) -> Said:
        """What workers were told, by question and by which time they asked it."""
        said: Said = {}
        for name in names:
            for line in (self.folder / name / "project" / "said").read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # a worker may die in the middle of one
                    question, n, answer = json.loads(line)
                    said.setdefault((question, n), set()).add(answer)
        return said

    def collect(self, *options: str) -> tuple[Path, dict[str, Any]]:
        """Collect the run on another machine; the project, and what the command says."""
        project, environment = self.machine("collector")
        done = subprocess.run(
            [COMMAND, "collect", self.secret, "--json", *options],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        verified = subprocess.run(
            [COMMAND, "verify", "--strict"],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr
        return project, json.loads(done.stdout)


@pytest.fixture(params=SEEDS)
def random(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)


@pytest.fixture
def fleet(minio: S3Server, tmp_path: Path, random: Random) -> Iterator[Fleet]:
    with start_upstream() as upstream, ExitStack() as ending:
        secret = random.randbytes(16).hex()
        made = Fleet(tmp_path, f"s3://{minio.new_bucket()}/agents", minio.variables, upstream, secret)
        ending.callback(made.stop)
        yield made


def plans(random: Random) -> dict[str, list[tuple[str, int]]]:
    """What each worker asks: overlapping questions, in an order of its own, some of them twice."""
    pool = [f"What is {number}?" for number in range(2 * QUESTIONS)]
    times = {question: 2 if random.random() < 0.2 else 1 for question in pool}
    made = {}
    for number in range(WORKERS):
        chosen, count = [], 0
        for question in random.sample(pool, len(pool)):
            if count >= QUESTIONS:
                break
            chosen.append((question, times[question]))
            count += times[question]
        made[f"worker-{number}"] = chosen
    return made


def answers_wanted(plan: dict[str, list[tuple[str, int]]]) -> set[tuple[str, int]]:
    return {(question, n) for chosen in plan.values() for question, times in chosen for n in range(times)}


def replayed(project: Path, wanted: set[tuple[str, int]]) -> Said:
    """What the collected store says, in the same order."""
    llm = ReplayAdapter(project / "llm").sync
    return {
        (question, n): {llm.complete(LlmRequest(MODEL, messages=question, max_tokens=64)).text}
        for question, n in sorted(wanted)
    }


def test_every_answer_is_asked_for_once(fleet: Fleet, random: Random) -> None:
    """All workers get the same answer to the same question, and the store that is collected has it."""
    plan = plans(random)
    for name, questions in plan.items():
        fleet.start(name, questions)
    assert fleet.wait() == set()
    wanted = answers_wanted(plan)
    said = fleet.said_to(plan)

    assert said.keys() == wanted
    assert {place: answers for place, answers in said.items() if len(answers) > 1} == {}
    assert Counter(question for _, question in fleet.upstream.calls) == Counter(
        question for question, _ in wanted
    )
    project, told = fleet.collect()
    assert replayed(project, wanted) == said, told


def test_workers_that_die_lose_only_what_they_were_asking(fleet: Fleet, random: Random) -> None:
    """Half of them die while the model thinks, half with the answer just in their hands."""
    plan = plans(random)
    wanted = answers_wanted(plan)
    moments = random.sample(range(len(wanted) // 10, len(wanted) * 9 // 10), KILLED)
    for place, moment in enumerate(moments):
        hooks = fleet.upstream.when_asked if place % 2 else fleet.upstream.when_answered
        hooks[moment] = fleet.kill
    for name, questions in plan.items():
        fleet.start(name, questions)
    killed = fleet.wait()
    living = plan.keys() - killed
    said = fleet.said_to(living)

    assert 0 < len(killed) <= KILLED
    assert said.keys() == answers_wanted({name: plan[name] for name in living})
    assert {place: answers for place, answers in said.items() if len(answers) > 1} == {}
    calls = Counter(question for _, question in fleet.upstream.calls)
    once = Counter(question for question, _ in wanted)
    again = calls - once
    assert again.total() <= AT_ONCE * len(killed)
    asked_in_vain = Counter(question for name, question in fleet.upstream.calls if name in killed)
    assert again <= asked_in_vain
    project, told = fleet.collect()
    assert replayed(project, set(said)) == said, told
    # Who died may have seen an answer that it could not tell anyone of; all others are there, too.
    seen = fleet.said_to(killed)
    kept = replayed(project, {place for place in seen if place in said or len(said) == 0})
    unknown = {place for place, answers in kept.items() if answers != seen[place]}
    assert len(unknown) <= AT_ONCE * len(killed)
