"""Suites of vitest and jest in parallel workers, recorded once from a model whose answers vary."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pytest

from integration import install
from integration.gateway_clients import Ran, behind, cortex_replay, upstream
from tests.servers import tiny_model

Runner = Literal["vitest", "jest"]

HERE: Final = Path(__file__).parent / "js_project"
REPLAYS: Final = 6
FILES: Final = 4
_HEADS: Final = {
    "vitest": 'import { beforeAll, expect, test } from "vitest";\nimport ask from "./ask.cjs";\n',
    "jest": 'const ask = require("./ask.cjs");\n',
}
_SUFFIXES: Final = {"vitest": "test.mjs", "jest": "test.cjs"}
runners = pytest.mark.parametrize("runner", ["vitest", "jest"])


@pytest.fixture(scope="module")
def packages() -> Path:
    """The packages of a project, installed once."""
    npm = install.needed("npm", "install vitest and jest")
    manifest = HERE / "package.json"

    def fill(folder: Path) -> None:
        shutil.copy(manifest, folder)
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
        install.completed([npm, "install", "--prefix", folder, *options])

    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]
    return install.once(install.BENCH / "clients" / f"runners-{digest}", fill)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with upstream("llamacpp", tmp_path_factory.mktemp("server") / "llamacpp") as variables:
        yield variables


class Project:
    """A project of a user, with the runner of its choice."""

    def __init__(self, folder: Path, packages: Path, runner: Runner) -> None:
        self.folder, self.runner, self.store = folder, runner, folder / "llm"
        (folder / "node_modules").symlink_to(packages / "node_modules")
        for name in ("package.json", "ask.cjs"):
            shutil.copy(HERE / name, folder)
        self.configure([])

    def configure(self, setup: list[str]) -> None:
        shared = {"maxWorkers": FILES, "testTimeout": 60_000}
        tests = f"*.{_SUFFIXES[self.runner]}"
        if self.runner == "vitest":
            config = {"test": {"include": [tests], "setupFiles": setup, **shared}}
            (self.folder / "vitest.config.mjs").write_text(f"export default {json.dumps(config)};")
        else:
            options = {"testMatch": [f"**/{tests}"], "setupFilesAfterEnv": setup, **shared}
            (self.folder / "jest.config.cjs").write_text(f"module.exports = {json.dumps(options)};")

    def add(self, template: str, name: str) -> None:
        """A test file of its own name, in the language of the runner."""
        text = (HERE / f"{template}.test.js").read_text("utf-8")
        head = f"{_HEADS[self.runner]}const NAME = {json.dumps(name)};\n"
        (self.folder / f"{name}.{_SUFFIXES[self.runner]}").write_text(head + text)

    def wire(self) -> None:
        """As a user does: with the file that ``init --js`` writes, where it says."""
        done = cortex_replay(["init", "--js", self.runner, "--json"], self.store)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        (written,) = made["written"]
        assert written in made["wiring"]
        self.configure([f"./{written}" if self.runner == "vitest" else f"<rootDir>/{written}"])

    @property
    def command(self) -> list[str]:
        node = install.needed("node", "run tests")
        program = {"vitest": "vitest/vitest.mjs", "jest": "jest/bin/jest.js"}[self.runner]
        run = [node, os.fspath(self.folder / "node_modules" / program)]
        return [*run, *(["run", "--no-color"] if self.runner == "vitest" else ["--no-color"])]

    def record(self, server: dict[str, str]) -> Ran:
        return behind("record", self.store, self.command, {**server, "IS_RECORDED": "yes"})

    def replay(self) -> Ran:
        options = ("--fail-on", "miss")
        return behind("replay", self.store, self.command, {"IS_RECORDED": "no"}, options)


@pytest.fixture
def project(tmp_path: Path, packages: Path, runner: Runner) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, packages, runner)


@runners
def test_files_in_parallel_that_build_on_an_answer_pass_in_every_replay(
    project: Project, server: dict[str, str]
) -> None:
    """Without a helper and without a change to the tests; no key, and nobody to ask."""
    for i in range(FILES):
        project.add("chain", f"chain{i}")
    recorded = project.record(server)

    assert recorded.status == 0, recorded.said + recorded.told
    assert recorded.ledger["live"] == recorded.ledger["recorded"] == 1 + FILES
    assert recorded.ledger["repeated"] == FILES - 1
    assert f"{FILES - 1} questions came again" in recorded.told
    replayed = [project.replay() for _ in range(REPLAYS)]
    assert [ran.status for ran in replayed] == [0] * REPLAYS, replayed[-1].said + replayed[-1].told
    assert {ran.ledger["live"] for ran in replayed} == {0}


@runners
def test_each_test_has_its_own_count_of_answers(project: Project, server: dict[str, str]) -> None:
    """Three rolls in each test are the same three in every replay; what is asked elsewhere has one answer."""
    project.wire()
    for i in range(FILES):
        project.add("scopes", f"scopes{i}")
    recorded = project.record(server)

    assert recorded.status == 0, recorded.said + recorded.told
    for _ in range(3):
        replayed = project.replay()
        assert replayed.status == 0, replayed.said + replayed.told
        assert (replayed.ledger["live"], replayed.ledger["misses"]) == (0, [])


@runners
def test_a_miss_stands_in_the_report_of_its_test(project: Project, server: dict[str, str]) -> None:
    """With what is nearest and how to record it; also where the code under test catches the error."""
    project.wire()
    project.add("chain", "chain")
    assert project.record(server).status == 0
    project.add("miss", "miss")
    missed = project.replay()
    report = missed.said + missed.told.partition("\n| cortex-replay:")[0]

    assert missed.status == 1
    assert len(missed.ledger["misses"]) == 2
    for test in ("catches it", "does not catch it"):
        assert test in report
    assert "2 failed, 2 passed" in report.replace(" | ", ", ")
    readable = [line.strip() for line in report.splitlines()]
    assert sum(line.startswith("To record it: cortex-replay record --store") for line in readable) >= 2
    assert any("'#dice Never asked.'" in line for line in readable)


@runners
def test_without_a_gateway_the_file_does_nothing(project: Project, server: dict[str, str]) -> None:
    project.wire()
    project.add("chain", "chain")
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    variables = {**kept, "CLIENT_MODEL": tiny_model.MODEL, **server}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    install.completed(["env", "-i", "-C", project.folder, *assignments, *project.command])
