"""A command behind a gateway, recorded and replayed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cortex_replay import Store
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import FakeProvider, serving_in_thread, whole
from tests.cli.commands import run
from tests.cli.programs import ASK, TWICE, Shell
from tests.gateway.upstream import REAL_KEY
from tests.sampling import sample
from tests.warm import start

CHAT = DIALECTS[1]


def test_a_program_runs_twice(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """First recording, then replaying, with nobody behind and no key."""
    keys = "import os; print(os.environ['OPENAI_API_KEY'], os.environ['ANTHROPIC_API_KEY'])\n"
    first = shell.record(keys + TWICE, provider.url)
    calls = len(provider.received)
    again = shell.replay(keys + TWICE, "--fail-on", "miss", "--fail-on", "unused", "--fail-on", "live")

    assert (first.status, again.status) == (0, 0), first.talk + again.talk
    assert first.out == again.out
    assert first.out.splitlines()[1:] == ["You said: one", "You said: two"]
    assert REAL_KEY not in first.out + first.talk, "the command has a dummy"
    assert calls == len(provider.received) == 2
    assert "2 recorded, 2 live" in first.talk
    assert "2 hits, 0 misses" in again.talk
    assert REAL_KEY.encode() not in b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert shell.run("verify", "--store", "llm", "--strict").status == 0


def test_money_is_spoken_of_only_at_the_user_s_own_prices(
    shell: Shell, provider: FakeProvider, tmp_path: Path
) -> None:
    assert "at your prices" not in shell.record(TWICE, provider.url).talk
    (tmp_path / "cortex-replay.toml").write_text("[prices]\nm = { input = 1000, output = 2000 }\n")
    priced = shell.record(TWICE, provider.url, "--mode", "record", "--json")

    assert "0.0420 paid at your prices" in priced.talk
    assert priced.report["money"]["paid"] == "0.042"
    replayed = shell.replay(TWICE, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert "0.0420 saved at your prices" in replayed.talk
    assert "| saved | 0.0420 |" in (tmp_path / "summary.md").read_text()


def test_a_question_that_comes_again_gets_its_first_answer(shell: Shell) -> None:
    """And the summary says so; ``--every-answer`` keeps each."""
    again = ASK + "print(ask('Roll.'), ask('Roll.'), ask('Roll.'))"
    rolls = [whole(CHAT.answer(text)) for text in ("six", "two", "five")]
    with serving_in_thread(*rolls) as provider:
        first = shell.record(again, provider.url, "--json")
    replayed = shell.replay(again)
    with serving_in_thread(*rolls) as provider:
        each = shell.record(again, provider.url, "--mode", "record", "--every-answer")
    sequence = shell.replay(again)

    assert first.out.splitlines()[0] == replayed.out.strip() == "six six six"
    assert each.out == sequence.out == "six two five\n"
    assert "2 questions came again and got the first answer of this run; --every-answer" in first.talk
    assert (first.report["repeated"], first.report["live"], first.report["hits"]) == (2, 1, 2)
    assert "came again" not in replayed.talk + each.talk + sequence.talk


def test_a_failure_that_is_recorded_is_not_said_to_be_lost(shell: Shell) -> None:
    failing = ASK + "import contextlib\nwith contextlib.suppress(OSError): ask('one')"
    busy = whole(CHAT.error(429, "slow down"), 429)
    with serving_in_thread(busy) as provider:
        lost = shell.record(failing, provider.url)
    with serving_in_thread(busy) as provider:
        kept = shell.record(failing, provider.url, "--record-failures", "--json")

    assert ("not recorded: " in lost.talk, "recorded as a failure: " in lost.talk) == (True, False)
    assert ("not recorded: " in kept.talk, "recorded as a failure: " in kept.talk) == (False, True)
    assert "status 429" in kept.talk
    assert (kept.report["failures"], kept.report["recorded"]) == ([], 1)
    assert "status 429" in kept.report["recorded_failures"][0]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("replay npm test", "cortex-replay replay -- npm test"),
        ("replay vitest --run", "cortex-replay replay -- vitest --run"),
        ("replay --fail-on miss npm test", "cortex-replay replay --fail-on miss -- npm test"),
        ("replay npm test -- --run", "cortex-replay replay -- npm test -- --run"),
        ("--store llm replay npm test", "cortex-replay replay --store llm -- npm test"),
        ("record npm test", "cortex-replay record -- npm test (a question goes behind --prompt)"),
        ("sweep go test ./...", "cortex-replay sweep -- go test ./..."),
    ],
)
@pytest.mark.usefixtures("in_a_folder")
def test_a_command_without_dashes_is_told_where_they_go(tmp_path: Path, typed: str, meant: str) -> None:
    result = run(*typed.split())

    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: the command goes behind --: {meant}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("status", sample([1, 7, 130], 1))
def test_the_command_s_own_failure_wins(shell: Shell, provider: FakeProvider, status: int) -> None:
    """And what it recorded until then is kept."""
    failing = ASK + f"ask('one'); import sys; sys.exit({status})"

    assert shell.record(failing, provider.url).status == status
    assert shell.replay(failing, "--fail-on", "unused").status == status


def test_a_command_that_dies_or_is_not_there(shell: Shell, provider: FakeProvider) -> None:
    dying = ASK + "ask('one'); import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    assert shell.record(dying, provider.url).status == 137
    missing = shell.run("replay", "--store", "llm", "--", "no-such-program-anywhere")
    assert missing.status == 127
    assert "no-such-program-anywhere cannot be run" in missing.talk


def test_the_store_must_be_sound_before_anything_runs(
    shell: Shell, provider: FakeProvider, tmp_path: Path
) -> None:
    ran = f"open({str(tmp_path / 'ran')!r}, 'w')"
    assert shell.replay(ran).status == 5, "there is none"
    shell.record(TWICE, provider.url)
    index = tmp_path / "llm/INDEX.toml"
    index.write_text(index.read_text() + "nonsense\n")
    assert shell.replay(ran).status == 5
    assert shell.record(ran, provider.url).status == 5
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["record", "--prompt", "x", "--", "true"], "--prompt does not go with a command"),
        (["record", "--batch", "INDEX.toml", "--", "true"], "--batch does not go with a command"),
        (["record", "--upstream", "openai", "--", "true"], "NAME=URL"),
    ],
)
def test_wrong_usage(shell: Shell, tmp_path: Path, arguments: list[str], reason: str) -> None:
    Store.create(tmp_path)
    result = shell.run(*arguments)

    assert result.status == 2, result.talk
    assert reason in result.talk


def test_what_follows_the_dashes_belongs_to_the_command(shell: Shell, provider: FakeProvider) -> None:
    show = "import sys; print(sys.argv[1:])"
    command = [sys.executable, "-c", show, "--json", "--", "--help", "record"]
    result = shell.run("record", "--store", "llm", "--no-key", "--", *command)

    assert result.out == "['--json', '--', '--help', 'record']\n"


def test_ctrl_c_keeps_what_was_recorded(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """As a terminal sends it: to the whole group."""
    waiting = ASK + "ask('one'); print('asked', flush=True); import time; time.sleep(60)"
    command = ["record", "--store", "llm", "--", sys.executable, "-c", waiting]
    env = {**shell.environment, "OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}
    with start(
        command,
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) in (1, 130)
    assert len(Store.open(tmp_path / "llm")) == 1


def test_whoever_ends_us_ends_the_command(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    waiting = ASK + "ask('one'); print('asked', flush=True); import time; time.sleep(60)"
    command = ["record", "--store", "llm", "--", sys.executable, "-c", waiting]
    env = {**shell.environment, "OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}
    with start(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert len(Store.open(tmp_path / "llm")) == 1
