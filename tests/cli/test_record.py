"""``cortex-replay record`` of a prompt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import LlmRequest, Store
from tests.builder import ask
from tests.cli.commands import ECHO, at_a_shell, record_answers, run

pytestmark = pytest.mark.usefixtures("in_a_folder")


def record(*arguments: str, text: str | bytes | None = None) -> Result:
    return run("record", *arguments, text=text)


def test_a_prompt_is_answered_and_recorded() -> None:
    """The answer on stdout, what was written on stderr; again, it comes from the store."""
    result = record(*ECHO, "--system", "Be brief.", "--prompt", "Hi there.")
    assert result.exit_code == 0, result.output
    assert result.stdout == "| Hi there.\n"
    assert result.stderr.startswith("recorded: fixtures/m/")

    again = record(*ECHO, "--system", "Be brief.", "--prompt", "Hi there.")
    assert again.stdout == "| Hi there.\n"
    assert again.stderr.startswith("recorded already: fixtures/m/")
    (stored,) = Store.open(".").list()
    fixture = Store.open(".").get(stored.model, stored.prompt_hash)
    assert fixture.request == LlmRequest("m", "Be brief.", "Hi there.", None, 1024)
    assert fixture.answers[0].stream


def test_the_prompt_may_come_from_a_file_or_from_a_pipe() -> None:
    Path("prompt.txt").write_text("From a file.")
    assert record(*ECHO, "--prompt-file", "prompt.txt").stdout == "| From a file.\n"
    assert record(*ECHO, text="From a pipe.").stdout == "| From a pipe.\n"


def test_json_for_programs() -> None:
    result = json.loads(record(*ECHO, "--prompt", "Hi.", "--json").stdout)

    assert result["recorded"] is True
    assert result["text"] == "Hi."
    assert Path(result["path"]).is_file()
    assert json.loads(record(*ECHO, "--prompt", "Hi.", "--json").stdout)["recorded"] is False


def test_what_has_become_a_command_is_not_in_the_help() -> None:
    text = record("--help").stdout

    assert not {"--batch", "--refresh", "--check", "--jobs"} & set(text.split())
    assert "cortex-replay batch" in text
    assert "cortex-replay refresh" in text


USAGE: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "no model": ("--provider", "echo", "--prompt", "x"),
    "two prompts": (*ECHO, "--prompt", "x", "--prompt-file", "p"),
    "a prompt and a batch": (*ECHO, "--prompt", "x", "--batch", "p"),
    "a batch and a refresh": (*ECHO, "--batch", "p", "--refresh"),
    "check alone": (*ECHO, "--prompt", "x", "--check"),
    "no such mode": (*ECHO, "--prompt", "x", "--mode", "live"),
    "no such provider": ("--provider", "parrot", "--model", "m", "--prompt", "x"),
    "no provider": ("--model", "m", "--prompt", "x"),
    "no key": ("--provider", "claude", "--model", "m", "--prompt", "x"),
    "unpinned": ("--provider", "ollama", "--model", "m", "--prompt", "x"),
    "a remote ollama": (
        "--provider",
        "ollama",
        "--model",
        "m",
        "--prompt",
        "x",
        "--base-url",
        "http://h.example",
    ),
    "no such file": (*ECHO, "--prompt-file", "nowhere"),
    "a schema that is none": (*ECHO, "--prompt", "x", "--json-schema", "p"),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_is_said_and_records_nothing(name: str) -> None:
    Path("p").write_text("{")

    result = record(*USAGE[name])

    assert result.exit_code == 2, result.output
    assert "rror" in result.stderr
    assert not list(Path().rglob("fixtures/*/*.json"))


def test_an_empty_pipe_is_no_prompt() -> None:
    assert record(*ECHO, text="  \n").exit_code == 2
    assert record(*ECHO, text=b"\xff\xfe").exit_code == 2


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    """Neither with escapes, nor by passing for a command of a CI runner."""
    evil = "\x1b[2J\r::add-mask::x\n::error::y"

    assert record(*ECHO, "--prompt", evil).stdout == "| \\x1b[2J\\r::add-mask::x\n| ::error::y\n"
    assert record(*ECHO, "--prompt", evil, "--raw").stdout == evil + "\n"


def test_recording_in_ci_works_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    result = record(*ECHO, "--prompt", "Hi.")

    assert result.exit_code == 0
    assert "warning: recording (mode once) in CI" in result.stderr


def test_a_key_of_the_environment_is_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")

    record(*ECHO, "--prompt", "It is canary-9d8c7b6a5.")

    for path in Path("fixtures").rglob("*.json"):
        assert "canary" not in path.read_text()
    assert run("verify").exit_code == 0
    assert run("verify", "--strict").exit_code == 5


def test_mode_record_overwrites() -> None:
    Path("one.toml").write_text('[[rule]]\nsay = "One."\n')
    Path("two.toml").write_text('[[rule]]\nsay = "Two."\n')
    scripted = ("--provider", "scripted", "--model", "m", "--prompt", "x", "--script")
    assert record(*scripted, "one.toml").stdout == "| One.\n"
    assert record(*scripted, "two.toml").stdout == "| One.\n"
    assert record(*scripted, "two.toml", "--mode", "record").stdout == "| Two.\n"
    assert record(*scripted, "one.toml").stdout == "| Two.\n"


def test_a_failed_call_is_exit_1_and_records_nothing_unless_asked() -> None:
    Path("bad.toml").write_text('[[rule]]\nerror = { status = 529, message = "overloaded" }\n')
    scripted = ("--provider", "scripted", "--model", "m", "--prompt", "x", "--script", "bad.toml")

    result = record(*scripted)
    assert result.exit_code == 1
    assert "529 overloaded" in result.stderr
    assert not list(Path("fixtures").rglob("*.json"))

    assert record(*scripted, "--record-failures").exit_code == 1


def test_settings_come_from_the_configuration() -> None:
    Path("cortex-replay.toml").write_text('store = "tests/llm"\nprovider = "echo"\nmodel = "m"\n')

    assert record("--prompt", "Hi.").stdout == "| Hi.\n"

    assert len(Store.open("tests/llm")) == 1
    assert run("list").stdout.endswith("  m  Hi.\n")


def test_a_damaged_store_is_not_recorded_into() -> None:
    record_answers((ask("q"), "a"))
    (Path("fixtures") / "stray.json").write_text("{}")

    assert record(*ECHO, "--prompt", "Hi.").exit_code == 5


def test_a_recorded_failure_is_committed() -> None:
    Path("bad.toml").write_text('[[rule]]\nerror = { status = 529, message = "overloaded" }\n')
    scripted = ("--provider", "scripted", "--model", "m", "--prompt", "x", "--script", "bad.toml")

    assert record(*scripted, "--record-failures").exit_code == 1

    assert list(Path("fixtures/exchanges").glob("*.json"))
    assert Store.open(".").abandoned().answers == 0


def test_an_answer_that_nobody_reads_is_recorded() -> None:
    command = f"{sys.executable} -m cortex_replay record --provider echo --model m --prompt Hi"

    subprocess.run(["bash", "-c", f"{command} | true"], check=True)

    assert len(Store.open(".")) == 1


@pytest.mark.parametrize(
    "command", ["record --model m", "record --model m --prompt-file -", "batch -", "record --batch -"]
)
def test_a_closed_standard_input_is_wrong_usage(command: str) -> None:
    done = at_a_shell(f"cortex-replay {command} --provider echo <&-")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
