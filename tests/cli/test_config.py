"""``cortex-replay config``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cortex_replay.cli.main import main
from tests.config.conftest import Project

KEY = "sk-ant-0123456789abcdef0123"
CONFIG = r"""
[tool.cortex-replay]
store = "tests/llm"
provider = "local"

[tool.cortex-replay.providers.local]
kind = "openai-compat"
base_url = "http://127.0.0.1:8080/v1"
key_file = "key"

[tool.cortex-replay.redaction]
redact_key = ["ticket"]

[tool.cortex-replay.redaction.extra_patterns]
ticket = 'TICKET-\d+'

[tool.cortex-replay.normalisers]
date = '\d{4}-\d\d-\d\d'
"""


def run(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)


@pytest.fixture
def project(in_a_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    return Project(root)


@pytest.fixture
def configured(project: Project) -> Project:
    project.write(CONFIG, "pyproject.toml")
    key = project.write(KEY, "key")
    key.chmod(0o600)
    return project


def line(result: Result, name: str) -> list[str]:
    (found,) = [line for line in result.stdout.splitlines() if line.split("  ")[0].strip() == name]
    return re.split(r"\s{2,}", found)


def test_every_setting_with_its_value_and_its_origin(configured: Project) -> None:
    """A line each."""
    result = run("config", "--model", "m", CORTEX_REPLAY_JOBS="9", CORTEX_REPLAY_MAX_AGE="8w")

    assert (result.exit_code, result.stderr) == (0, "")
    assert line(result, "store") == ["store", "tests/llm", "pyproject.toml"]
    assert line(result, "mode") == ["mode", "replay", "default"]
    assert line(result, "jobs") == ["jobs", "9", "CORTEX_REPLAY_JOBS"]
    assert line(result, "max_age") == ["max_age", "56d", "CORTEX_REPLAY_MAX_AGE"]
    assert line(result, "model") == ["model", "m", "--model"]
    assert line(result, "budget_calls") == ["budget_calls", "-", "default"]
    assert line(result, "providers.local.base_url")[1:] == ["http://127.0.0.1:8080/v1", "pyproject.toml"]
    assert line(result, "providers.claude.allow_latest")[1:] == ["false", "default"]
    assert line(result, "normalisers.date")[1:] == [r"\d{4}-\d\d-\d\d -> <date>", "pyproject.toml"]
    assert line(result, "redaction.extra_patterns.ticket")[1:] == [r"TICKET-\d+", "pyproject.toml"]
    assert line(result, "redaction.redact_key")[1:] == ["ticket", "pyproject.toml"]


def test_callers_are_listed(project: Project) -> None:
    """With what they may do, and without their tokens."""
    project.write("[callers.ci]\ntoken_env = ['CI_TOKEN']\ngrants = ['llm_complete']\nmax_calls = 5")
    result = run("config", CI_TOKEN=KEY)

    assert line(result, "callers.ci.token_env")[1:] == ["CI_TOKEN", "cortex-replay.toml"]
    assert line(result, "callers.ci.grants")[1:] == ["llm_complete", "cortex-replay.toml"]
    assert line(result, "callers.ci.max_calls")[1:] == ["5", "cortex-replay.toml"]
    assert line(result, "callers.ci.max_tokens")[1:] == ["-", "default"]
    assert KEY not in result.output


def test_prices_are_listed(project: Project) -> None:
    """Each by what it is for; an old name is read, and a warning says which took its place."""
    project.write(
        "[prices]\nm = { input = 3, output = 15, cached = 0.3, cache_write = 3.75, cache_write_1h = 6 }\n"
    )

    shown, told = run("config"), json.loads(run("config", "--json").stdout)

    value = line(shown, "prices.m")[1]
    assert value == "3 in, 15 out, 0.3 cached, 3.75 written for 5m, 6 written for 1h, per million tokens"
    assert "warning: cortex-replay.toml: prices: cache_write is read as" in shown.stderr
    assert told["settings"]["prices.m"]["value"] == {
        "input": 3.0,
        "output": 15.0,
        "cached": 0.3,
        "cache_write_5m": 3.75,
        "cache_write_1h": 6.0,
    }
    assert len(told["warnings"]) == 1


def test_keys_are_hidden(configured: Project) -> None:
    """Only whether there is one, and where from; as text and as JSON."""
    environment = {"ANTHROPIC_API_KEY": KEY + "9"}
    result, plain = run("config", **environment), run("config", "--json", **environment)

    assert KEY not in result.output + plain.output
    assert line(result, "providers.claude.key")[1:] == ["set (from ANTHROPIC_API_KEY)"]
    assert line(result, "providers.local.key")[1:] == ["set (from key)"]
    assert line(result, "providers.openai.key")[1:] == ["not set"]
    keys = json.loads(plain.stdout)["keys"]
    assert keys.pop("claude") == {"state": "set", "origin": "ANTHROPIC_API_KEY"}
    assert keys.pop("local") == {"state": "set", "origin": "key"}
    assert {"openai", "gemini", "mistral"} <= keys.keys()
    assert all(key == {"state": "not set", "origin": None} for key in keys.values())


def test_a_key_that_cannot_be_used_is_part_of_the_report(configured: Project) -> None:
    """With what to do."""
    Path("key").chmod(0o644)
    result = run("config")

    assert result.exit_code == 0
    assert "unusable: key_file key: others can read it (mode 0644); run: chmod 600 key" in result.stdout


def test_for_programs(configured: Project) -> None:
    """Each setting by its dotted name."""
    result = run("config", "--json", "--mode", "once", CI="true")
    report: dict[str, Any] = json.loads(result.stdout)

    assert report["file"] == "pyproject.toml"
    assert report["settings"]["store"] == {"value": "tests/llm", "origin": "pyproject.toml"}
    assert report["settings"]["mode"] == {"value": "once", "origin": "--mode"}
    assert report["settings"]["normalisers.date"]["value"]["placeholder"] == "<date>"
    assert report["settings"]["redaction.redact_key"]["value"] == ["ticket"]
    assert report["settings"]["providers.local.key_file"]["value"] == "key"
    assert report["warnings"] == ["CI is set, and --mode asks for the mode once; else it would be replay"]
    assert result.stderr == f"warning: {report['warnings'][0]}\n"


def test_the_store_can_be_named_before_and_after(configured: Project) -> None:
    """As for every command; and a store elsewhere has the rules of its own place."""
    result = run("config", "--store", "tests/other")
    assert line(result, "store") == ["store", "tests/other", "--store"]
    assert line(run("--store", "x", "config"), "store") == ["store", "x", "--store"]
    assert line(run("config", CORTEX_REPLAY_STORE="y"), "store") == ["store", "y", "CORTEX_REPLAY_STORE"]
    assert run("--store", "x", "config", "--store", "y").exit_code == 2

    Path("../outside/.git").mkdir(parents=True)
    result = run("config", "--store", "../outside")
    assert "redact_key of the store ../outside come from no file" in result.stderr
    Path("../outside/cortex-replay.toml").write_text("")
    result = run("config", "--store", "../outside")
    assert "of the store ../outside come from ../outside/cortex-replay.toml" in result.stderr


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('modee = "x"', []),
        ("", ["--provider", "nobody"]),
        ("", ["--mode", "nothing"]),
        ("normalisers.a = {pattern = 'a', placeholder = 'aa'}", []),
    ],
)
def test_what_cannot_be_exits_2(project: Project, text: str, arguments: list[str]) -> None:
    """And shows nothing as if it held."""
    project.write(text)
    result = run("config", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_an_error_for_programs(project: Project) -> None:
    """On stderr, as JSON."""
    project.write('modee = "x"')
    error = json.loads(run("config", "--json").stderr)

    assert error["error"] == "ConfigError"
    assert error["message"] == (
        "configuration: cortex-replay.toml: modee: there is no such setting; did you mean mode?"
    )


def test_nothing_that_a_file_says_steers_a_terminal(project: Project) -> None:
    """What could is refused; the lines of a pattern are spelled out."""
    project.write('normalisers.evil = { pattern = "\\u001b-31m", placeholder = "x" }')
    refused = run("config")
    project.write('normalisers.long = { pattern = "(?x) a\\n b", placeholder = "::x" }')
    result = run("config")

    assert refused.exit_code == 2
    assert "holds the character U+001B" in refused.stderr
    assert result.exit_code == 0
    assert "(?x) a\\n b -> ::x" in result.stdout


def test_what_would_be_bound_here(project: Project) -> None:
    """With its value of today, or why it is not bound."""
    project.write('[bindings]\noff = ["tz"]\n[bindings.values]\nbuild = { env = "BUILD_ID" }\n')
    (project.root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    shown = run("config", TMPDIR="/tmp", BUILD_ID="b-4711")
    listed = shown.output.partition("holds a placeholder for:\n")[2]

    assert shown.exit_code == 0
    assert re.search(rf"^  cwd +{re.escape(str(project.root.resolve()))}$", listed, re.MULTILINE)
    assert re.search(r"^  date +\d{4}-\d\d-\d\d$", listed, re.MULTILINE)
    assert re.search(r"^  build +b-4711$", listed, re.MULTILINE)
    assert re.search(r"^  tmp +not bound: /tmp is too common$", listed, re.MULTILINE)
    assert re.search(r"^  branch +not bound: main is too common$", listed, re.MULTILINE)
    assert re.search(r"^  commit +not bound: there is none here$", listed, re.MULTILINE)
    assert re.search(r"^  tz +not bound: bindings.off names it$", listed, re.MULTILINE)


def test_what_would_be_bound_for_programs(project: Project) -> None:
    project.write('[[bindings.rules]]\nbind = "pid"\nbefore = "PGID: "\n')
    report = json.loads(run("config", "--json", USER="root", LOGNAME="root").stdout)

    assert report["bindings"]["cwd"] == {
        "value": str(project.root.resolve()),
        "is_bound": True,
        "reason": None,
    }
    assert report["bindings"]["repo"]["is_bound"] is True
    assert report["bindings"]["commit"] == {"value": None, "is_bound": False, "reason": "there is none here"}
    assert report["settings"]["bindings.rules"]["value"] == [{"bind": "pid", "before": "PGID: "}]


def test_a_secret_in_a_variable_is_not_shown(project: Project) -> None:
    project.write('[bindings.values]\nserver = { env = "SERVER" }\n')
    shown = run("config", SERVER="https://ann:hunter2secret9@db.example/x")

    assert "hunter2secret9" not in shown.output
    assert "not bound: SERVER holds a secret" in shown.output


def test_policies_of_servers_are_listed(project: Project) -> None:
    project.write('[mcp.files]\npolicy = "live"\ntools = { "write_*" = "refuse" }')

    lines = run("config").stdout.splitlines()
    settings = json.loads(run("config", "--json").stdout)["settings"]

    assert [line.split() for line in lines if line.startswith("mcp.files.")] == [
        ["mcp.files.policy", "live", "cortex-replay.toml"],
        ["mcp.files.tools", "write_*", "=", "refuse", "cortex-replay.toml"],
    ]
    assert settings["mcp.files.tools"]["value"] == {"write_*": "refuse"}


def test_how_a_bucket_would_be_asked(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was fetched; nothing is asked."""
    project.write('[remote]\nurl = "s3://team-fixtures/agents"\nkeep = "remote"\n')
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    places = {"HOME": str(tmp_path), "CORTEX_REPLAY_CACHE": str(tmp_path / "cache")}

    without = run("config", **places)
    with_key = run("config", "--json", AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE", **places)

    assert line(without, "remote.url")[1:] == ["s3://team-fixtures/agents", "cortex-replay.toml"]
    assert "The bucket: without credentials; set AWS_ACCESS_KEY_ID" in without.stdout
    assert f"What was fetched: 0 files, 0 bytes in {tmp_path / 'cache'}" in without.stdout
    told = json.loads(with_key.stdout)
    assert told["remote"]["access"] == "with the credentials of AWS_ACCESS_KEY_ID"
    assert told["settings"]["remote.keep"] == {"value": "remote", "origin": "cortex-replay.toml"}
    assert "AKIA" not in with_key.output
