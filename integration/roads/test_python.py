"""Python with pytest: from an empty folder to a clone that is green without a key or a server.

The project is made and recorded once; every test then starts from a fresh clone, as a colleague or CI does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.roads.newcomer import KEY, Newcomer, listen, live, shell
from tests.servers import tiny_model
from tests.servers.llamacpp import start_llamacpp

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
PACKAGES = ("anthropic==2.8.0", "openai==3.49.0", "pytest==9.2.0", "pytest-xdist==3.8.0")
# A client at the top of a module is made when pytest collects, before any test has begun.
TESTS = f"""
import anthropic, openai, pytest

MODEL = {tiny_model.MODEL!r}
HELLO = "Hello from the tiny test model. All is well."
client = openai.OpenAI()

def chat(client, text):
    asked = [{{"role": "user", "content": text}}]
    answer = client.chat.completions.create(model=MODEL, max_tokens=32, messages=asked)
    return answer.choices[0].message.content

@pytest.mark.llm_replay
def test_openai():
    assert chat(client, "Good morning!") == HELLO

@pytest.mark.llm_replay
def test_anthropic():
    with anthropic.Anthropic() as claude:
        asked = [{{"role": "user", "content": "Good evening!"}}]
        with claude.messages.stream(model=MODEL, max_tokens=32, messages=asked) as stream:
            assert "".join(stream.text_stream) == HELLO

@pytest.mark.llm_replay
def test_another_server():
    with openai.OpenAI(base_url="SECOND/v1") as second:
        assert chat(second, "As #json, please.") == '{{"answer": 42, "ok": true}}'
"""


@dataclass(frozen=True)
class Recording:
    """A project with what its tests asked, and the addresses of the servers that are gone."""

    newcomer: Newcomer
    servers: tuple[str, str]

    def clone(self, into: Path) -> Newcomer:
        return self.newcomer.clone(self.newcomer.folder, into / "clone")


@pytest.fixture(scope="module")
def recording(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """From nothing: install, mark, run, record, commit; then both servers are stopped."""
    newcomer = shell(tmp_path_factory.mktemp("python"), wheel, *PACKAGES)
    newcomer.write("pytest.ini", "[pytest]\nllm_store = tests/llm\n")
    newcomer.write(".gitignore", "__pycache__/\n.pytest_cache/\n")
    folders = [tmp_path_factory.mktemp("model") for _ in range(2)]
    with start_llamacpp(folders[0], KEY) as first, start_llamacpp(folders[1], KEY) as second:
        newcomer.write("tests/test_models.py", TESTS.replace("SECOND", second))

        # Nothing is recorded yet: what to do is said once, not once per test.
        step = newcomer.run("pytest", status=1)
        step.says_once("pytest --llm-mode once").says("tests/llm").hides("INDEX.toml: is not there")
        assert not (newcomer.folder / "tests/llm").exists(), "replay makes no store"

        step = newcomer.run("pytest --llm-mode once", variables=live(first))
        step.says("3 passed", "3 recorded")
    newcomer.run("cortex-replay verify tests/llm --strict")
    newcomer.refuse_secrets()
    newcomer.commit("Record what the tests ask")
    newcomer.run("cortex-replay verify tests/llm --staged")
    return Recording(newcomer, (first, second))


@pytest.fixture
def clone(recording: Recording, tmp_path: Path) -> Iterator[Newcomer]:
    """A fresh clone without keys; whoever asks a server that was recorded is found out."""
    newcomer = recording.clone(tmp_path)
    with listen(*recording.servers):
        yield newcomer
    assert newcomer.run("git status --porcelain -- tests/llm").out == "", "replay writes nothing"


@pytest.mark.parametrize("options", ["", " -n 2", " --llm-fail-unused", " --llm-mode once"])
def test_a_clone_is_green(clone: Newcomer, options: str) -> None:
    """Also in the mode that records what is missing, since nothing is."""
    step = clone.run(f"pytest{options}")
    step.says("3 passed", "3 hits, 0 misses, 0 recorded, 0 live")


def test_behind_the_command(clone: Newcomer) -> None:
    """The plugin answers in its own process, and the command knows."""
    step = clone.run("cortex-replay replay --store tests/llm -- pytest")
    step.says("3 passed", "3 hits").hides("no call came to the gateway")


def test_a_fixture_that_no_test_uses(clone: Newcomer) -> None:
    clone.edit("tests/test_models.py", "Good morning!", "Good evening!")
    clone.edit("tests/test_models.py", "def test_openai", "def openai_is_not_asked")

    step = clone.run("pytest --llm-fail-unused", status=1)
    step.says("2 passed", "1 of 3 fixtures unused", "fixtures/tiny/", "prune")
    step = clone.run("pytest")
    step.says("2 passed", "1 of 3 fixtures unused")


@pytest.mark.parametrize("workers", ["", " -n 2"])
def test_the_summary_of_a_job(clone: Newcomer, tmp_path: Path, workers: str) -> None:
    """Written once, whoever ran the tests."""
    summary = tmp_path / "summary.md"
    clone.run(f"pytest{workers}", variables={"GITHUB_STEP_SUMMARY": str(summary), "CI": "true"})
    text = summary.read_text()

    assert text.count("| hits ") == 1, text
    assert "| 3 " in text, text


def test_a_changed_prompt(clone: Newcomer) -> None:
    """Two tests miss the same: it is told once, with what changed and what to do; nobody is asked."""
    clone.edit("tests/test_models.py", "Good morning!", "Good afternoon!")
    again = "\n@pytest.mark.llm_replay\ndef test_again():\n    test_openai()\n"
    clone.edit(
        "tests/test_models.py",
        "\n@pytest.mark.llm_replay\ndef test_anthropic",
        f"{again}\n@pytest.mark.llm_replay\ndef test_anthropic",
    )

    step = clone.run("pytest --tb=no", status=1)
    step.says("2 failed, 2 passed", "Good afternoon!", "pytest --llm-mode once", "2 misses")
    step.says_once("nothing is recorded for")


def test_a_changed_prompt_to_another_server(clone: Newcomer) -> None:
    """A miss, and no live call, though no setting names that server."""
    clone.edit("tests/test_models.py", "As #json, please.", "As #json, quickly.")

    clone.run("pytest", status=1).says("1 failed, 2 passed", "1 miss", "0 live", "quickly")


def test_the_first_screen_of_the_readme(recording: Recording, tmp_path: Path) -> None:
    """The marked test and the two commands, as they stand there; only the model says something else."""
    screen = README.partition("\n## ")[0]
    (test,) = re.findall(r"```python\n(.*?)```", screen, re.DOTALL)
    commands = [
        line.partition("#")[0].removeprefix("$ ").strip()
        for line in screen.splitlines()
        if "$ pytest" in line
    ]
    assert len(commands) == 2, commands
    (tmp_path / "project").mkdir()
    (tmp_path / "model").mkdir()
    newcomer = recording.newcomer.at(tmp_path / "project")
    newcomer.write("test_capital.py", test)
    newcomer.edit("test_capital.py", '"Paris"', '"Hello from the tiny test model. All is well."')
    with start_llamacpp(tmp_path / "model", KEY) as url:
        newcomer.run(commands[0], variables=live(url)).says("1 passed", "1 recorded")
    with listen(url):
        newcomer.run(commands[1]).says("1 passed", "0 misses, 0 recorded, 0 live")


def test_without_a_key_nothing_is_recorded(clone: Newcomer) -> None:
    """A dummy key goes nowhere: the variable that is missing is named."""
    clone.edit("tests/test_models.py", "Good morning!", "Good afternoon!")

    clone.run("pytest --llm-mode once", status=1).says("1 failed, 2 passed", "OPENAI_API_KEY")
