"""``cortex-replay refresh``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Answer, Fixture, Store
from tests.builder import ask
from tests.cli.commands import at_a_shell, record_answers, run

pytestmark = pytest.mark.usefixtures("in_a_folder")


def refresh(*arguments: str) -> Result:
    return run("refresh", *arguments)


def test_refresh_shows_what_changed_and_writes_it() -> None:
    Path("now.toml").write_text(
        '[[rule]]\nwhen = { contains = "one" }\nsay = "A.\\nC."\n[[rule]]\nsay = "Same."\n'
    )
    record_answers((ask("one"), "A.\nB."), (ask("two"), "Same."))
    command = ("--provider", "scripted", "--script", "now.toml")

    checked = refresh(*command, "--check")
    assert checked.exit_code == 4
    assert "| -B." in checked.stdout
    assert "| +C." in checked.stdout
    assert "2 asked again, 1 differ, 0 failed, 0 not asked" in checked.stdout
    assert Store.open(".").get(*Store.open(".").key(ask("one"))).answers[0].text == "A.\nB."

    result = refresh(*command)
    assert result.exit_code == 0
    assert "1 replaced" in result.stdout
    assert Store.open(".").get(*Store.open(".").key(ask("one"))).answers[0].text == "A.\nC."
    assert refresh(*command, "--check").exit_code == 0


def test_refresh_lists_what_it_cannot_ask() -> None:
    """With the reason; and asks the others."""
    record_answers((ask("fine"), "fine"), adapter="echo")
    record_answers((ask("who?"), "x"), adapter="handwritten")
    record_answers(
        (
            ask(
                "",
                messages=[{"role": "user", "content": "", "parts": [{"type": "image", "blake3": "0" * 64}]}],
            ),
            "x",
        ),
        adapter="echo",
    )

    result = refresh("--check")
    assert "it does not say who answered" in result.stderr
    assert "only the hash of some data" in result.stderr
    assert "1 asked again, 0 differ, 0 failed, 2 not asked" in result.stdout

    report = json.loads(refresh("--check", "--json").stdout)
    assert (report["asked"], len(report["not_asked"]), report["changed"]) == (1, 2, [])


@pytest.mark.parametrize("option", ["", "--json"])
def test_checking_writes_nothing_whatever_happens(option: str) -> None:
    """Neither to the store nor to staging, also when nobody reads the report."""
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    record_answers(*((ask(f"q{n}"), "Then.") for n in range(30)))
    command = f"cortex-replay refresh --check --provider scripted --script now.toml {option}"

    done = at_a_shell(f"set -o pipefail; {command} | true")

    assert done.returncode == 4
    assert Store.open(".").abandoned().answers == 0
    assert refresh("--check", "--store", "nowhere").exit_code != 0
    assert not Path("nowhere").exists()


def test_a_refresh_is_written_even_if_nobody_reads() -> None:
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    record_answers(*((ask(f"q{n}"), "Then.") for n in range(300)))
    command = f"{sys.executable} -m cortex_replay refresh --provider scripted --script now.toml"

    subprocess.run(["bash", "-c", f"{command} | head -1"], check=True, stdout=subprocess.DEVNULL)

    store = Store.open(".")
    assert {store.get(*store.key(ask(f"q{n}"))).answers[0].text for n in range(300)} == {"Now."}


def test_a_refresh_that_fails_half_way_leaves_the_fixture() -> None:
    Path("now.toml").write_text(
        '[[rule]]\nanswers = [{ say = "New." }, { error = { status = 500, message = "down" } }]\n'
    )
    store = Store.create(".")
    answers = [Answer(text, finish_reason="stop") for text in ("A.", "B.")]
    store.add(Fixture.of(ask("q"), *answers, meta={"adapter": "scripted"}))
    store.commit()

    result = refresh("--script", "now.toml", "--provider", "scripted")

    assert result.exit_code == 1
    assert "1 failed" in result.stdout
    assert [a.text for a in Store.open(".").get(*store.key(ask("q"))).answers] == ["A.", "B."]


def test_a_refresh_shows_no_secret_and_no_drift_where_one_was_cut_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")
    Path("leak.toml").write_text('[[rule]]\nsay = "It is canary-9d8c7b6a5."\n')
    scripted = ("--provider", "scripted", "--script", "leak.toml")
    run("record", *scripted, "--model", "m", "--prompt", "Tell.")

    result = refresh(*scripted, "--check")

    assert result.exit_code == 0, result.output
    assert "canary" not in result.output


def test_a_refresh_does_not_guess_which_server_answered() -> None:
    record_answers((ask("private"), "x"), adapter="openai-compat")

    result = refresh("--check")

    assert "does not say who answered" in result.stderr
    assert "0 asked again" in result.stdout


def test_one_that_is_refused_does_not_keep_the_others_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has failed, and stays as it was."""
    secret = ask("q", model="model-canary-9d8c7b6a5")
    record_answers((ask("one"), "Then."), (secret, "Then."), (ask("two"), "Then."))
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    scripted = ("--provider", "scripted", "--script", "now.toml")

    result = refresh(*scripted)

    assert result.exit_code == 1, result.output
    assert "3 asked again, 2 replaced, 1 failed, 0 not asked" in result.stdout
    assert "recording refused" in result.stderr
    assert "canary" not in result.output
    store = Store.open(".")
    texts = [store.get(*store.key(request)).answers[0].text for request in (ask("one"), secret, ask("two"))]
    assert texts == ["Now.", "Then.", "Now."]
    report = json.loads(refresh(*scripted, "--json").stdout)
    assert (report["changed"], len(report["failed"])) == ([], 1)
    assert store.abandoned().answers == 0


def test_only_some_models_are_asked() -> None:
    record_answers((ask("q", model="a-1"), "q"), (ask("q", model="b-1"), "q"), adapter="echo")

    assert "1 asked again" in refresh("--check", "--model", "a-*").stdout


@pytest.mark.parametrize(
    "arguments", [["x"], ["--mode", "once"], ["--prompt", "x"], ["--provider", "parrot"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    record_answers((ask("q"), "q"))

    assert refresh(*arguments).exit_code == 2


def test_a_budget_holds() -> None:
    record_answers(*((ask(f"q{n}"), f"q{n}") for n in range(3)), adapter="echo")

    result = refresh("--check", "--budget-calls", "2", "--jobs", "1")

    assert result.exit_code == 1
    assert "3 asked again, 0 differ, 1 failed" in result.stdout


def test_record_with_refresh_names_the_command_and_does_the_same() -> None:
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    record_answers((ask("one"), "Then."), (ask("two", model="other"), "Then."))
    options = ("--check", "--provider", "scripted", "--script", "now.toml", "--model", "other", "--json")

    former, now = run("record", "--refresh", *options), refresh(*options)

    assert former.stderr == "warning: record --refresh is now: cortex-replay refresh\n"
    assert (former.exit_code, former.stdout) == (now.exit_code, now.stdout)
    assert (now.exit_code, now.stderr, json.loads(now.stdout)["asked"]) == (4, "", 1)
