"""The platform engineer: an existing project gets a store, a hook, reviews, merges and a check of its models.

It is set up and recorded once; every test then starts from a fresh clone, which knows no merge driver, as a
hosted merge knows none.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

import pytest

from integration.roads.newcomer import KEY, Newcomer, live, shell
from tests.servers import tiny_model
from tests.servers.llamacpp import start_llamacpp

PACKAGES: Final = ("anthropic==2.8.0", "openai==3.49.0", "pytest==9.2.0", "pre-commit==4.7.0")
OWN_HOOK: Final = """\
repos:
  - repo: local
    hooks:
      - id: own
        name: a hook of our own
        entry: git --version
        language: system
        always_run: true
        pass_filenames: false
"""
PROJECT: Final = f"""\
[project]
name = "shop"
version = "1"

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.cortex-replay]
currency = "EUR"

[tool.cortex-replay.prices]
"{tiny_model.MODEL}" = {{ input = 1000.0, output = 2000.0 }}
"""
ASK: Final = f"""
import anthropic, openai, pytest

def chat(text):
    with openai.OpenAI() as client:
        asked = [{{"role": "user", "content": text}}]
        answer = client.chat.completions.create(
            model={tiny_model.MODEL!r}, max_tokens=32, temperature=1, messages=asked)
    return answer.choices[0].message.content

def claude(text):
    with anthropic.Anthropic() as client:
        asked = [{{"role": "user", "content": text}}]
        answer = client.messages.create(model={tiny_model.MODEL!r}, max_tokens=32, messages=asked)
    return answer.content[0].text
"""
TESTS: Final = (
    ASK
    + """
@pytest.mark.llm_replay
def test_refund():
    assert "tiny test model" in chat("Where is my refund?")

@pytest.mark.llm_replay
def test_order():
    assert "tiny test model" in claude("Where is my order?")
"""
)
DICE: Final = (
    ASK
    + """
@pytest.mark.llm_replay
def test_dice():
    assert "You rolled" in chat("#dice, please")
"""
)
QUESTION: Final = (
    ASK
    + """
@pytest.mark.llm_replay
@pytest.mark.parametrize("part", range(3))
def test_parts(part):
    assert chat(f"What is part {part} of NAME?")
"""
)
SIX, FIVE = 2, 4
"""Seeds that throw these."""


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """A project with files of its own; then init, the hook, a recording, and each goes through the hook."""
    engineer = shell(tmp_path_factory.mktemp("platform"), wheel, *PACKAGES)
    engineer.write("pyproject.toml", PROJECT)
    engineer.write(".gitattributes", "*.png binary\n")
    engineer.write(".gitignore", "__pycache__/\n.pytest_cache/\n")
    engineer.write(".pre-commit-config.yaml", OWN_HOOK)
    engineer.write("tests/test_shop.py", "def test_shop():\n    pass\n")
    engineer.commit("The shop")

    engineer.run("cortex-replay init --store tests/llm")
    hooks = (engineer.folder / ".pre-commit-config.yaml").read_text()
    assert "id: own" in hooks, "what was there stays"
    assert "id: cortex-replay-verify" in hooks, "and ours is added"
    assert "*.png binary" in (engineer.folder / ".gitattributes").read_text()
    assert "merge=cortex-replay" in (engineer.folder / "tests/llm/.gitattributes").read_text()
    assert 'llm_store = "tests/llm"' in (engineer.folder / "pyproject.toml").read_text()
    engineer.run("git config merge.cortex-replay.driver")
    changed = engineer.run("git diff").out
    engineer.run("cortex-replay init --store tests/llm")
    assert engineer.run("git diff").out == changed, "a second time it finds everything done"

    engineer.run("pre-commit install")
    engineer.commit("Set up cortex-replay").says("a hook of our own", "cortex-replay verify", "Passed").hides(
        "Failed"
    )

    engineer.write("tests/test_support.py", TESTS)
    with start_llamacpp(tmp_path_factory.mktemp("model"), KEY, seed=SIX) as url:
        engineer.run("pytest --llm-mode once", variables=live(url)).says("2 recorded")
    engineer.refuse_secrets()
    engineer.commit("Record the support").says("cortex-replay verify", "Passed").hides("Failed")
    return engineer


@pytest.fixture
def clone(project: Newcomer, tmp_path: Path) -> Newcomer:
    """A fresh clone without keys, driver or hook."""
    return project.clone(project.folder, tmp_path / "clone")


def _record(engineer: Newcomer, branch: str, name: str, source: str, model: Path, seed: int = SIX) -> None:
    """On a branch of its own, record what a new file of tests asks, and commit it."""
    engineer.run(f"git checkout -q -b {branch} main")
    engineer.write(f"tests/test_{name}.py", source)
    model.mkdir()
    with start_llamacpp(model, KEY, seed=seed) as url:
        engineer.run(f"pytest --llm-mode once tests/test_{name}.py", variables=live(url)).says("recorded")
    engineer.commit(f"Record {name}")


def test_the_example_counts(clone: Newcomer) -> None:
    """It is not unused, and removing what is unused does not break it."""
    step = clone.run("pytest --llm-fail-unused --llm-report used.json")
    step.says("0 of", "fixtures unused", "0 live").hides(" failed")
    clone.run("cortex-replay prune --store tests/llm --unused-from used.json")
    clone.run("pytest --llm-fail-unused")
    assert clone.run("git status --porcelain -- tests/llm").out == ""


def test_a_changed_answer_does_not_pass_the_hook(clone: Newcomer) -> None:
    clone.run("pre-commit install")
    path = next(
        p for p in (clone.folder / "tests/llm/fixtures").rglob("*.json") if "tiny test" in p.read_text()
    )
    path.write_text(path.read_text().replace("tiny test model", "tidy test model"))
    clone.run("git add --all")

    step = clone.run("git commit -m 'Mend an answer by hand'", status=1)
    step.says("cortex-replay verify", "Failed", path.name, "its bytes differ")
    clone.run("git checkout -q HEAD -- tests/llm")
    clone.run("git commit -q --allow-empty -m Nothing").says("Passed")


def test_two_branches_merge_without_a_driver(clone: Newcomer, tmp_path: Path) -> None:
    """And what they merge to is sound, and replays without a key."""
    for name in ("north", "south"):
        _record(clone, name, name, QUESTION.replace("NAME", f"the {name}"), tmp_path / name)
    assert clone.run("git config merge.cortex-replay.driver", status=1).out == ""
    clone.run("git merge -q --no-edit north")

    clone.run("cortex-replay verify tests/llm --strict")
    clone.run("pytest --llm-fail-unused").says("0 misses", "0 live")


def test_one_question_with_two_answers_is_resolved_by_one_command(clone: Newcomer, tmp_path: Path) -> None:
    """Which the conflict itself names."""
    _record(clone, "six", "dice", DICE, tmp_path / "six", SIX)
    _record(clone, "five", "dice", DICE, tmp_path / "five", FIVE)
    clone.run("git merge -q --no-edit six", status=1)
    assert "cortex-replay resolve" in (clone.folder / "tests/llm/INDEX.toml").read_text()
    clone.run("cortex-replay verify tests/llm", status=5).says("cortex-replay resolve")

    clone.run("cortex-replay resolve --store tests/llm").says("two answers", "--take")
    clone.run("cortex-replay verify tests/llm --strict")
    clone.run("pytest").says("0 misses")
    clone.commit("Merge the dice")
    clone.run("cortex-replay verify --staged tests/llm")
    answers = clone.run("cortex-replay list --store tests/llm --json").out
    assert answers.count("#dice, please") == 1


def test_the_models_are_asked_again(clone: Newcomer, tmp_path: Path) -> None:
    """All of them, at the server that the SDKs' own variables name; a difference has an exit status."""
    _record(clone, "dice", "dice", DICE, tmp_path / "first", SIX)
    check = "cortex-replay refresh --store tests/llm --model tiny --check"
    for name, seed, status, words in (("same", SIX, 0, "0 differ"), ("other", FIVE, 4, "1 differ")):
        (tmp_path / name).mkdir()
        with start_llamacpp(tmp_path / name, KEY, seed=seed) as url:
            clone.run(check, status, live(url)).says("3 asked again", words)
    assert clone.run("git status --porcelain").out == "", "a check writes nothing"

    # A server that only the recordings name is not asked; one that does not answer is named.
    clone.run(check, status=1).says("OPENAI_BASE_URL=", "ANTHROPIC_BASE_URL=", "nothing was checked")
    clone.run(check, 1, live("http://127.0.0.1:9")).says("127.0.0.1:9")


def test_a_review_says_what_was_asked(clone: Newcomer, tmp_path: Path) -> None:
    _record(clone, "dice", "dice", DICE, tmp_path / "six", SIX)
    clone.run("cortex-replay verify tests/llm --base main").says("#dice, please", tiny_model.MODEL)

    clone.run("git checkout -q main")
    clone.run("git merge -q --ff-only dice")
    clone.run("git checkout -q -b again")
    (tmp_path / "five").mkdir()
    with start_llamacpp(tmp_path / "five", KEY, seed=FIVE) as url:
        clone.run("pytest --llm-mode record tests/test_dice.py", variables=live(url))
    clone.commit("Throw again")
    step = clone.run("cortex-replay verify tests/llm --base main")
    step.says("#dice, please", "You rolled six!", "You rolled five!").hides("refund")


def test_the_summary_speaks_of_money(clone: Newcomer, tmp_path: Path) -> None:
    """What replay saved, at the project's own prices, in the terminal and in the summary of the job."""
    summary = tmp_path / "summary.md"
    for command in ("pytest", "cortex-replay replay --store tests/llm -- pytest -p no:cacheprovider"):
        summary.unlink(missing_ok=True)
        clone.run(command, variables={"GITHUB_STEP_SUMMARY": str(summary)}).says("EUR saved")
        assert "EUR" in summary.read_text(), command
    program = ASK + "print(chat('Where is my refund?'))"
    program = program.replace(", pytest", "")
    clone.write("ask.py", program)
    step = clone.run("cortex-replay replay --store tests/llm --json -- python ask.py")
    ledger = json.loads(step.out.splitlines()[-1])
    assert ledger["money"]["currency"] == "EUR"
    assert float(ledger["money"]["saved"]) > 0


def test_other_fixtures_beside_a_store(clone: Newcomer, tmp_path: Path) -> None:
    """They stop the first recording before anybody is asked, and the message says how to go on."""
    engineer = clone.at(tmp_path / "other")
    engineer.write("fixtures/users.json", '[{"name": "Ada"}]\n')
    engineer.run("git init -q")
    record = "cortex-replay record --provider scripted --model demo --prompt Hello"
    said = engineer.run(record, status=5).text
    line = said.partition("add the line ")[2].partition(" to .cortex-replay-ignore")[0]
    assert line == "fixtures/users.json", said

    engineer.write(".cortex-replay-ignore", f"{line}\n")
    engineer.run(record)
    engineer.run("cortex-replay verify --strict")
    assert shlex.split(engineer.run("git check-attr merge INDEX.toml").out)[-1] == "cortex-replay"
    assert json.loads((engineer.folder / "fixtures/users.json").read_text()) == [{"name": "Ada"}]


@pytest.mark.parametrize(
    "command",
    ["record --nonsense", "record --mode once", "init --framework nose", "replay", "batch nowhere.jsonl"],
)
def test_wrong_usage_makes_nothing(clone: Newcomer, tmp_path: Path, command: str) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    clone.at(empty).run(f"cortex-replay {command}", status=2)

    assert list(empty.iterdir()) == []
