"""A command behind a gateway has no secret of the user in its environment, but for those handed over."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from random import Random

import click
import pytest
from click.testing import CliRunner

from cortex_replay import Store
from cortex_replay.cli.record import record_command
from cortex_replay.cli.replay import replay_command
from cortex_replay.cli.sweep import sweep_command
from cortex_replay.config import Settings
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.run.environment import command_environment, variables_to_withhold
from tests import warm
from tests.redact.kinds import KINDS
from tests.sampling import sample
from tests.security.test_names import INNOCENT, INSIDE, PLAIN, SECRETS, value_for

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
SDK_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
WAYS = {
    "record": ("record", "--store", "llm"),
    "replay": ("replay", "--store", "llm"),
    "sweep": ("sweep", "--store", "llm", "--show-output"),
    "learn": ("learn", "--store", "llm"),
}
NAMED = {name: value_for(name) for name in SECRETS}
WITHIN = {name: value for name, value, _ in INSIDE}
BY_LOOKS = {f"THING_{number}": make(Random(number)).whole for number, make in enumerate(KINDS.values())}
INNOCENT_VALUES = {
    "SSH_AUTH_SOCK": "/tmp/ssh-XXXX/agent.42",
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/gcloud/credentials.json",
    "GITHUB_SHA": "0a1b2c3d4e" * 4,
    "GITHUB_RUN_ID": "1234567890123",
    "CI": "true",
    "TOKENIZERS_PARALLELISM": "false",
    "MAX_TOKENS": "4096",
    "DB_PASSWORD": "postgres",
    "API_KEY": "test",
    "SECRET": "development",
    "GPG_KEY": "E3FF2839C048B25C084DEBE9B26995E310250568",
    "DATABASE_URL": "postgres://localhost:5432/app",
    "BASH_FUNC_login%%": '() { local token=$1 password="$2" secret=$(cat "$3"); run --token="$token"; }',
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus,guid=0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d",
    "NODE_OPTIONS": "--max-old-space-size=4096",
    "LS_COLORS": "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33",
    "TRACE_ID": "7d444840-9dc0-11d1-b245-5ffdce74fad2",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Store.create(tmp_path / "llm")
    return tmp_path


def run(
    folder: Path, way: str, variables: dict[str, str], *options: str, program: str = SHOW
) -> tuple[dict[str, str], str]:
    """What the command saw, and what was said on stderr."""
    done = warm.run(
        [*WAYS[way], *options, "--", sys.executable, "-c", program],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return json.loads(lines[0]), done.stderr


def leaked(seen: dict[str, str], given: dict[str, str]) -> list[str]:
    return [name for name, value in given.items() if seen.get(name) == value]


@pytest.mark.parametrize("way", sample(WAYS, 2))
def test_secrets_stay_and_everything_else_goes(folder: Path, way: str) -> None:
    """Withheld by name, in a part of a value, and by looks under a name that says nothing; and no more."""
    secrets = NAMED | WITHIN | BY_LOOKS | {"API_KEY": NAMED["API_KEY"]}
    innocent = {name: value_for(name) for name in INNOCENT if name not in ("PATH", "HOME", "PWD")}
    innocent |= {name: value for name, value in INNOCENT_VALUES.items() if name not in secrets}
    passed = {"NPM_TOKEN": NAMED["NPM_TOKEN"], "DATABASE_URL": secrets["DATABASE_URL"]}
    options = [word for name in passed for word in ("--pass-env", name)]
    seen, said = run(folder, way, secrets | innocent, *options)

    assert leaked(seen, secrets) == sorted(passed, reverse=True), "what the user named, and nothing else"
    assert sorted(innocent.keys() - leaked(seen, innocent)) == []
    assert {seen[name] for name in SDK_KEYS} == {DUMMY_KEY}, "SDKs start"
    assert not any(value in said for value in secrets.values())


def test_nothing_is_said_where_nothing_is_missing(folder: Path) -> None:
    """Words, paths and switches stay, whatever they are called; a command that fails lacked none of them."""
    seen, said = run(folder, "replay", INNOCENT_VALUES, program=f"{SHOW}; raise SystemExit(3)")

    assert leaked(seen, INNOCENT_VALUES) == list(INNOCENT_VALUES)
    assert "withheld" not in said


def test_a_key_of_an_sdk_is_handed_over_too(folder: Path) -> None:
    """Whoever asks for it by name has it."""
    given = {"OPENAI_API_KEY": NAMED["OPENAI_API_KEY"], "OPENAI_ADMIN_KEY": NAMED["OPENAI_API_KEY"][::-1]}
    seen, _ = run(folder, "replay", given, "--pass-env", "OPENAI_API_KEY")

    assert leaked(seen, given) == ["OPENAI_API_KEY"]


@pytest.mark.parametrize("way", ["record", "sweep", "learn"])
def test_a_command_that_fails_is_told_what_it_lacked(folder: Path, way: str) -> None:
    """One line with the names, in order, and how to hand one over."""
    given = {
        "PGPASSWORD": NAMED["PGPASSWORD"],
        "GITHUB_TOKEN": NAMED["GITHUB_TOKEN"],
        "OPENAI_API_KEY": "x" * 30,
    }
    _, said = run(folder, way, given, program=f"{SHOW}; raise SystemExit(3)")

    note = "2 variables that hold secrets were withheld from the command: GITHUB_TOKEN, PGPASSWORD"
    assert said.count("withheld") == 1
    assert note in said
    assert "--pass-env NAME" in said


def test_names_to_pass_are_checked(folder: Path) -> None:
    """A name with a value is a mistake; one that is not set is mentioned."""
    _, said = run(folder, "replay", {}, "--pass-env", "NOT_SET_HERE")
    assert "--pass-env NOT_SET_HERE: there is no such variable" in said

    wrong = ["replay", "--store", "llm", "--pass-env", "A=b", "--", "true"]
    done = warm.run(wrong, cwd=folder, env={"PATH": os.environ["PATH"]}, text=True)
    assert done.returncode == 2
    assert "the name of a variable" in done.stderr


@pytest.mark.parametrize("command", [record_command, replay_command, sweep_command])
def test_the_help_says_so(command: click.Command) -> None:
    said = " ".join(CliRunner().invoke(command, ["--help"]).output.split())

    assert "--pass-env" in said
    assert "Variables that hold secrets are withheld" in said


@pytest.mark.parametrize("value", PLAIN)
def test_plain_values_stay(value: str) -> None:
    assert variables_to_withhold({"DB_PASSWORD": value}) == []


def test_a_configuration_cannot_hand_anything_over() -> None:
    """Only the user's flag can; a key that a project's file names becomes a dummy."""
    settings = Settings()
    variables = {"AWS_SECRET_ACCESS_KEY": NAMED["AWS_SECRET_ACCESS_KEY"]}
    made = command_environment(
        variables, settings, lambda name: f"http://g/{name}", withheld=variables_to_withhold(variables)
    )

    assert made["AWS_SECRET_ACCESS_KEY"] == DUMMY_KEY
