"""TypeScript with vitest, and JavaScript with jest: recorded in parallel workers, green in every replay.

Four files ask the same questions, whose answers vary, at the same time, and build on what they heard: if it
were chance who gets which answer, the next question would be one that nobody recorded.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.install import needed
from integration.roads.newcomer import KEY, Newcomer, listen, live, shell
from tests.servers import tiny_model
from tests.servers.llamacpp import start_llamacpp

SDKS: Final = ("openai@6.49.0", "@anthropic-ai/sdk@1.8.0")
FILES: Final = ("alpha", "beta", "gamma", "delta")
REPLAYS: Final = 6
TEST: Final = """
const model = MODEL;

async function chat(content: string): Promise<string> {
  const client = new OpenAI();
  const messages = [{ role: "user" as const, content }];
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 24, temperature: 1 });
  return answer.choices[0].message.content ?? "";
}

async function claude(content: string): Promise<string> {
  const client = new Anthropic();
  const stream = client.messages.stream({ model, messages: [{ role: "user", content }], max_tokens: 24 });
  return stream.finalText();
}

test("a day of dice", async () => {
  writeFileSync("ran.txt", "it ran");
  const rolls: string[] = [];
  for (const hour of ["morning", "noon", "evening", "morning"]) {
    rolls.push(await chat(`#dice in the ${hour}`));
  }
  expect(rolls.join(" ")).toContain("You rolled");
  expect(await chat(`In NAME: ${rolls.join(" ")} What now?`)).not.toBe("");
  expect(await claude(`In NAME: ${rolls.join(" ")} Good night?`)).toContain("tiny test model");
});
"""
IMPORTS: Final = """\
import { writeFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, test } from "vitest";
"""
REQUIRES: Final = """\
const { writeFileSync } = require("node:fs");
const Anthropic = require("@anthropic-ai/sdk");
const OpenAI = require("openai");
"""


@dataclass(frozen=True)
class Runner:
    """A program that runs tests, each file in a worker."""

    name: str
    packages: tuple[str, ...]
    test_script: str
    suffix: str
    settings: tuple[str, str]
    """Its settings file, and what wires the file of ``init --js``."""

    def render(self, name: str) -> str:
        text = TEST.replace("MODEL", json.dumps(tiny_model.MODEL)).replace("NAME", name)
        if self.name == "vitest":
            return IMPORTS + text
        for typed in (": string[]", ": string", ": Promise<string>", " as const"):
            text = text.replace(typed, "")
        return REQUIRES + text


VITEST = Runner(
    "vitest",
    ("vitest@4.1.12", "typescript@5.9.3"),
    "vitest run",
    "test.ts",
    ("vitest.config.ts", 'export default { test: { setupFiles: ["./cortex-replay.setup.mjs"] } };\n'),
)
JEST = Runner(
    "jest",
    ("jest@30.5.2",),
    "jest --workers=4",
    "test.js",
    ("jest.config.js", 'module.exports = { setupFilesAfterEnv: ["<rootDir>/cortex-replay.setup.cjs"] };\n'),
)


@dataclass(frozen=True)
class Recording:
    """A project with what its tests asked, and the address of the server that is gone."""

    newcomer: Newcomer
    runner: Runner
    server: str

    def clone(self, into: Path) -> Newcomer:
        """A fresh clone, with its packages."""
        cloned = self.newcomer.clone(self.newcomer.folder, into / "clone")
        cloned.run("npm install --silent")
        return cloned


@pytest.fixture(
    scope="module", params=["vitest", "vitest with a scope for each test", "jest with a scope for each test"]
)
def recording(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    """From nothing: npm install, init, no key, a key, commit; then the server is stopped."""
    needed("npm", "install packages")
    runner = JEST if request.param.startswith("jest") else VITEST
    newcomer = shell(tmp_path_factory.mktemp("typescript"), wheel)
    newcomer.write("package.json", json.dumps({"private": True, "scripts": {"test": runner.test_script}}))
    newcomer.run(shlex.join(["npm", "install", "--silent", "--save-exact", *SDKS, *runner.packages]))
    newcomer.write(".gitignore", "node_modules/\nran.txt\n")
    for name in FILES:
        newcomer.write(f"tests/{name}.{runner.suffix}", runner.render(name))
    newcomer.commit("Four files that ask a model")
    if "scope" in request.param:
        step = newcomer.run("cortex-replay init --js")
        setup = "cortex-replay.setup.mjs" if runner is VITEST else "cortex-replay.setup.cjs"
        step.says(setup, "setupFiles", "cortex-replay record -- npm test")
        newcomer.write(*runner.settings)

    step = newcomer.run("cortex-replay record --store llm -- npm test", status=2)
    step.says("OPENAI_API_KEY", "ANTHROPIC_API_KEY").hides("pyproject.toml")
    assert not (newcomer.folder / "ran.txt").exists(), "the command did not run"
    assert not (newcomer.folder / "llm").exists(), "and there is no store"

    with start_llamacpp(tmp_path_factory.mktemp("model"), KEY, seed=-1) as url:
        step = newcomer.run("cortex-replay record --store llm -- npm test", variables=live(url))
    step.says("0 misses", "recorded")
    newcomer.run("cortex-replay verify llm --strict")
    newcomer.commit("Record what they ask")
    (newcomer.folder / "ran.txt").unlink()
    for path in (newcomer.folder / "llm").rglob("*.json"):
        assert KEY not in path.read_text()
    return Recording(newcomer, runner, url)


@pytest.fixture
def clone(recording: Recording, tmp_path: Path) -> Iterator[Newcomer]:
    """A fresh clone without keys; whoever asks the server that was recorded is found out."""
    cloned = recording.clone(tmp_path)
    with listen(recording.server):
        yield cloned


def _ledger(newcomer: Newcomer) -> dict[str, Any]:
    step = newcomer.run("cortex-replay replay --store llm --json --fail-on miss --fail-on unused -- npm test")
    ledger: dict[str, Any] = json.loads(step.out.splitlines()[-1])
    return ledger


def test_every_replay_is_green(clone: Newcomer) -> None:
    """Six of six, whoever comes first."""
    hits = {_ledger(clone)["hits"] for _ in range(REPLAYS)}

    assert hits == {len(FILES) * 6}
    assert clone.run("git status --porcelain -- llm").out == "", "replay writes nothing"


def test_a_changed_prompt_is_told_by_the_test(clone: Newcomer, recording: Recording) -> None:
    """In the report of the runner: what changed, and the command that records it."""
    name = f"tests/beta.{recording.runner.suffix}"
    clone.edit(name, "What now?", "What next?")

    step = clone.run("cortex-replay replay --store llm -- npm test", status=1)
    step.says("beta", "cortex-replay record --store llm -- npm test", "1 miss").hides("pyproject.toml")
    assert step.text.count("What [-now-]{+next+}?") > 1, f"only our summary tells it:\n{step.text}"


def test_where_the_dashes_go(recording: Recording) -> None:
    newcomer = recording.newcomer
    for verb in ("record", "replay"):
        newcomer.run(f"cortex-replay {verb} npm test", status=2).says(f"cortex-replay {verb} -- npm test")
    assert not (newcomer.folder / "ran.txt").exists()
