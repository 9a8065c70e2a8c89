"""``cortex-replay refresh --check --write``: the answers of today on a working tree, ready for a branch."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Store
from tests.cli.commands import run
from tests.cli.drifting import Model, calls, drifting_model, says

NAMES = ("tool", "text", "same", "failing")
OFFER = {"type": "object", "properties": {"query": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": OFFER}}]


@pytest.fixture
def model(in_a_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """Recorded and committed; then the first calls another tool, the next rewords, and the last fails."""
    with drifting_model(monkeypatch) as serving:
        for name in NAMES:
            serving.learn(name, calls(("search", {"query": name})))
        serving.record([body(name) for name in NAMES])
        git("init", "-q")
        git("add", ".")
        git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "Record")
        serving.learn("tool", says("I know that."))
        serving.learn("text", calls(("search", {"query": "text"}), text="I search."))
        serving.learn("failing", None)
        yield serving


def body(name: str) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": name}], "tools": TOOLS}


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def check(*arguments: str) -> Result:
    return run("refresh", "--check", *arguments)


def paths() -> dict[str, str]:
    """The file of each question."""
    store = Store.open(".")
    found = {}
    for one in store.list():
        request = store.get(one.model, one.prompt_hash).request
        assert request is not None
        found[request.messages[-1].content] = one.path
    return found


def changed_files() -> set[str]:
    return {line[3:] for line in git("status", "--porcelain", "-uall").splitlines()}


@pytest.mark.usefixtures("model")
def test_only_what_has_drifted_is_written_and_nothing_else_touched() -> None:
    before = paths()

    shown = check("--write")

    assert shown.exit_code == 4, shown.output
    after = paths()
    assert {name for name in NAMES if before[name] != after[name]} == {"tool"}
    assert changed_files() == {"INDEX.toml", before["tool"], after["tool"]}
    assert "1 recording written" in shown.stdout
    assert run("verify", ".").exit_code == 0
    assert "1 differ, 1 failed" in check().stdout, "the rewording is left"


@pytest.mark.usefixtures("model")
def test_the_commands_that_it_prints_commit_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from a model's words, and are to be pasted into a shell."""
    Path("beside.txt").write_text("not of the store")
    monkeypatch.setenv("CORTEX_REPLAY_STORE", str(Path.cwd()))
    line = check("--write").stdout.splitlines()[-1].strip()
    add, commit = line.split(" && ")
    assert add.startswith("git add -- INDEX.toml "), "short, wherever the setting says the store is"

    git(*shlex.split(add)[1:])
    git("-c", "user.name=a", "-c", "user.email=a@b.c", *shlex.split(commit)[1:])

    assert changed_files() == {"beside.txt"}
    assert git("log", "-1", "--format=%s") == "Record 1 answer anew: 1 broken contract\n"


@pytest.mark.usefixtures("model")
def test_rewordings_are_written_where_they_are_asked_for() -> None:
    before = paths()

    shown = check("--write", "--words", "--json")

    after, report = paths(), json.loads(shown.stdout)
    assert {name for name in NAMES if before[name] != after[name]} == {"tool", "text"}
    assert report["written"] == sorted([after["tool"], after["text"]])
    assert {one["title"]: one["written_to"] for one in report["changed"]} == {
        name: after[name] for name in ("tool", "text")
    }
    assert "I search." in run("show", after["text"]).stdout


@pytest.mark.usefixtures("model")
def test_a_check_that_does_not_write_leaves_the_tree_as_it_is() -> None:
    assert check("--words").exit_code == 4
    assert changed_files() == set()
    assert Store.open(".").abandoned().answers == 0


@pytest.mark.parametrize("calls", range(1, 5))
def test_what_the_budget_has_no_room_for_keeps_its_answer(model: Model, calls: int) -> None:
    """Drift that was seen and could not be confirmed is told, and not written."""
    for name in NAMES:
        model.learn(name, says("I know that."))
    before = paths()

    shown = check("--write", "--by", "age", "--budget-calls", str(calls), "--jobs", "1")

    assert shown.exit_code == 4
    assert paths() == before
    assert changed_files() == set()
    assert "not confirmed, since the budget is spent; it may be noise" in shown.stdout
    assert "1 asked again, 1 differ, 0 failed, 0 not asked, 3 beyond the budget" in shown.stdout


def test_the_answer_that_shows_the_drift_is_the_one_that_is_written(model: Model) -> None:
    """Else a reviewer would look for it in vain."""
    usual, strange = calls(("search", {"query": "same"})), calls(("search", {"query": 7}))
    model.learn("same", usual, usual, strange, usual)

    shown = check("--write", "--samples", "4", "--json")

    report = {one["title"]: one for one in json.loads(shown.stdout)["changed"]}
    assert report["same"]["tier"] == "contract"
    (answer,) = report["same"]["after"]
    assert answer["tool_calls"][0]["arguments"] == {"query": 7}
    store = Store.open(".")
    (stored,) = [one for one in store.list() if one.path == report["same"]["written_to"]]
    assert store.get(stored.model, stored.prompt_hash).answers[0].tool_calls[0].arguments == {"query": 7}


def test_a_question_with_several_answers_is_written_only_if_all_came(model: Model) -> None:
    model.learn("same", calls(("search", {"query": "a"})), calls(("search", {"query": "b"})))
    model.record([body("same")], times=2)
    before = paths()
    model.learn("same", says("No."), None)

    assert "2 failed" in check("--write").stdout
    assert paths()["same"] == before["same"]

    model.learn("same", says("No."), says("Never."))
    assert check("--write").exit_code == 4
    store = Store.open(".")
    (stored,) = [one for one in store.list() if one.path == paths()["same"]]
    assert len(store.get(stored.model, stored.prompt_hash).answers) == 2
    assert paths()["same"] != before["same"]


def test_later_turns_that_go_on_from_a_replaced_answer_are_counted(model: Model) -> None:
    """A replay would not get there any more."""
    asked = [{"role": "user", "content": "tool"}]
    said = {
        "role": "assistant",
        "content": None,
        "tool_calls": calls(("search", {}))["message"]["tool_calls"],
    }
    result = {"role": "tool", "tool_call_id": "call_0", "content": "found"}
    others = [*asked, {"role": "user", "content": "last"}], [{"role": "user", "content": "x"}, said, result]
    model.learn("found", says("Done."))
    model.learn("last", says("Done."))
    bodies = [{**body("tool"), "messages": talk} for talk in ([*asked, said, result], *others)]
    model.record(bodies)

    shown = check("--write")

    assert "warning: later turns go on from an answer that was replaced (1 recording)" in shown.stderr
    assert "warning" not in check("--write").stderr


def test_later_turns_that_were_not_chosen_are_counted_too(model: Model) -> None:
    search = calls(("search", {}))
    model.learn("start", search)
    model.learn("found", says("Done."))
    model.record([body("start")], scope="a test")  # which makes it the most used one
    result = {"role": "tool", "tool_call_id": "call_0", "content": "found"}
    talk = [{"role": "user", "content": "start"}, search["message"], result]
    model.record([{**body("start"), "messages": talk}])
    model.learn("start", says("No."))

    report = json.loads(check("--write", "--sample", "1", "--by", "use", "--json").stdout)

    assert len(report["written"]) == 1
    assert report["outdated"] == [paths()["found"]]


@pytest.mark.parametrize(
    "arguments", [["--write"], ["--words"], ["--samples", "3"], ["--fail-on", "contract"]], ids=str
)
def test_options_of_a_check_need_one(in_a_folder: None, arguments: list[str]) -> None:
    Store.create(".").commit()

    shown = run("refresh", *arguments)

    assert shown.exit_code == 2
    assert f"{arguments[0]} goes with --check" in shown.stderr


def test_what_is_written_can_be_asked_again_elsewhere(
    in_a_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is bound in it: without that, a provider would be asked for the placeholder."""
    del in_a_folder
    with drifting_model(monkeypatch) as model:
        system = {"role": "system", "content": f"You work in {Path.cwd()}."}
        asked = {**body("tool"), "messages": [system, {"role": "user", "content": "tool"}]}
        model.learn("tool", calls(("search", {"query": "a"})))
        model.record([asked])
        model.learn("tool", calls(("search", {"query": "b"})))

        assert check("--write").exit_code == 4

    store = Store.open(".")
    (stored,) = store.list()
    fixture = store.get(stored.model, stored.prompt_hash)
    assert fixture.answers[0].tool_calls[0].arguments == {"query": "b"}
    assert (fixture.meta or {})["bindings"] == ["cwd"]
