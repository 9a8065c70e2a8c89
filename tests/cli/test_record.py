"""``cortex-replay record``, as a user at a shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.cli.main import main
from tests.builder import ask


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name == "CI" or name.startswith("CORTEX_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def record(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["record", *arguments], input=text)


def batch_file(*requests: dict[str, Any]) -> str:
    Path("batch.jsonl").write_text("".join(json.dumps(request) + "\n" for request in requests))
    return "batch.jsonl"


def question(number: int, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": f"Question {number}?", "max_tokens": 16, **more}


IMAGE = {"type": "image", "blake3": "0" * 64}
ECHO = ("--provider", "echo", "--model", "m")


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
    assert CliRunner().invoke(main, ["verify"]).exit_code == 0
    assert CliRunner().invoke(main, ["verify", "--strict"]).exit_code == 5


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


def test_a_batch_is_recorded_and_goes_on_where_it_ended() -> None:
    file = batch_file(*(question(n) for n in range(20)), question(3), question(1, provider="scripted"))

    result = record("--provider", "echo", "--batch", file, "--jobs", "8")
    assert result.exit_code == 0, result.output
    # One question was put twice; another, to somebody else, has the key of one that was put already.
    assert "22 of 22 requests answered, 21 asked for" in result.stdout

    again = json.loads(record("--provider", "echo", "--batch", file, "--json").stdout)
    assert (again["answered"], again["calls"], again["added"]) == (22, 0, [])


def test_a_slip_in_the_last_line_costs_nothing() -> None:
    for bad, named in (({"model": "m"}, None), ({"model": "m", "mesages": "x"}, "mesages"), ([], None)):
        Path("batch.jsonl").write_text(json.dumps(question(1)) + "\n\n" + json.dumps(bad) + "\n")
        result = record("--provider", "echo", "--batch", "batch.jsonl")
        if bad == {"model": "m"}:
            continue
        assert result.exit_code == 2
        assert "line 3" in result.stderr
        assert named is None or named in result.stderr
    Path("batch.jsonl").write_text("{not json\n")
    assert "line 1" in record("--provider", "echo", "--batch", "batch.jsonl").stderr


def test_a_failure_does_not_stop_a_batch() -> None:
    """The summary names its line, and the exit status is that of the worst."""
    Path("some.toml").write_text(
        '[[rule]]\nwhen = { contains = "2" }\nerror = { status = 500, message = "broken" }\n'
        '[[rule]]\nsay = "Fine."\n'
    )
    file = batch_file(*(question(n) for n in range(5)))

    result = record("--provider", "scripted", "--script", "some.toml", "--batch", file)

    assert result.exit_code == 1
    assert "line 3: upstream: 500" in result.stderr
    assert "4 of 5 requests answered" in result.stdout
    assert len(Store.open(".")) == 4


def test_a_budget_of_calls_is_not_crossed() -> None:
    file = batch_file(*(question(n) for n in range(10)))

    result = record("--provider", "echo", "--batch", file, "--budget-calls", "3", "--jobs", "2")
    assert result.exit_code == 1
    assert "7 requests left" in result.stderr
    assert len(Store.open(".")) == 3

    rest = record("--provider", "echo", "--batch", file, "--budget-calls", "7")
    assert rest.exit_code == 0
    assert len(Store.open(".")) == 10


def test_a_budget_of_tokens_is_not_crossed() -> None:
    file = batch_file(*(question(n) for n in range(10)))

    result = json.loads(
        record("--provider", "echo", "--batch", file, "--budget-tokens", "75", "--jobs", "1", "--json").stdout
    )

    assert 0 < result["calls"] < 10
    assert result["tokens"] <= 75
    assert result["left"] == 10 - result["calls"]


def test_two_batches_at_once_into_one_store() -> None:
    Store.create(".")
    for name, first in (("a.jsonl", 0), ("b.jsonl", 30)):
        Path(name).write_text("".join(json.dumps(question(n)) + "\n" for n in range(first, first + 60)))
    command = [sys.executable, "-m", "cortex_replay", "record", "--provider", "echo", "--batch"]

    runs = [subprocess.Popen([*command, name], stdout=subprocess.DEVNULL) for name in ("a.jsonl", "b.jsonl")]

    assert [run.wait() for run in runs] == [0, 0]
    assert len(Store.open(".")) == 90


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_batch_that_is_interrupted_loses_nothing(how: signal.Signals) -> None:
    """Ctrl-C commits what was answered; after a kill the next run takes it over."""
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 20\n')
    file = batch_file(*(question(n) for n in range(300)))
    command = ["record", "--provider", "scripted", "--script", "slow.toml", "--batch", file, "--jobs", "2"]
    # Whoever is started in the background of a shell ignores Ctrl-C, and so do its children.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    run = subprocess.Popen(
        [sys.executable, "-m", "cortex_replay", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    signal.signal(signal.SIGINT, previous)
    staging = Path(".cortex-replay/staging")
    deadline = time.monotonic() + 30
    while len(list(staging.glob("*/*.add"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(how)
    _, stderr = run.communicate()

    if how is signal.SIGINT:
        assert run.returncode == 130
        assert b"interrupted" in stderr
        assert len(Store.open(".")) >= 5
        return
    assert len(Store.open(".")) == 0
    result = record("--provider", "echo", "--batch", batch_file(question(0)))
    assert "of a run that died" in result.stderr
    assert len(Store.open(".")) >= 4  # the last one may have been half written


def fixtures(*pairs: tuple[LlmRequest, str], adapter: str = "scripted") -> None:
    store = Store.open_or_create(".")
    for request, text in pairs:
        store.add(Fixture.of(request, Answer(text, finish_reason="stop"), meta={"adapter": adapter}))
    store.commit()


def test_refresh_shows_what_changed_and_writes_it() -> None:
    Path("now.toml").write_text(
        '[[rule]]\nwhen = { contains = "one" }\nsay = "A.\\nC."\n[[rule]]\nsay = "Same."\n'
    )
    fixtures((ask("one"), "A.\nB."), (ask("two"), "Same."))
    command = ("--refresh", "--provider", "scripted", "--script", "now.toml")

    checked = record(*command, "--check")
    assert checked.exit_code == 4
    assert "| -B." in checked.stdout
    assert "| +C." in checked.stdout
    assert "2 asked again, 1 differ, 0 failed, 0 not asked" in checked.stdout
    assert Store.open(".").get(*Store.open(".").key(ask("one"))).answers[0].text == "A.\nB."

    result = record(*command)
    assert result.exit_code == 0
    assert "1 replaced" in result.stdout
    assert Store.open(".").get(*Store.open(".").key(ask("one"))).answers[0].text == "A.\nC."
    assert record(*command, "--check").exit_code == 0


def test_refresh_lists_what_it_cannot_ask() -> None:
    """With the reason; and asks the others."""
    fixtures((ask("fine"), "fine"), adapter="echo")
    fixtures((ask("who?"), "x"), adapter="handwritten")
    fixtures(
        (
            ask(
                "",
                messages=[{"role": "user", "content": "", "parts": [{"type": "image", "blake3": "0" * 64}]}],
            ),
            "x",
        ),
        adapter="echo",
    )

    result = record("--refresh", "--check")
    assert "it does not say who answered" in result.stderr
    assert "only the hash of some data" in result.stderr
    assert "1 asked again, 0 differ, 0 failed, 2 not asked" in result.stdout

    report = json.loads(record("--refresh", "--check", "--json").stdout)
    assert (report["asked"], len(report["not_asked"]), report["changed"]) == (1, 2, [])


def test_settings_come_from_the_configuration() -> None:
    Path("cortex-replay.toml").write_text('store = "tests/llm"\nprovider = "echo"\nmodel = "m"\n')

    assert record("--prompt", "Hi.").stdout == "| Hi.\n"

    assert len(Store.open("tests/llm")) == 1
    assert CliRunner().invoke(main, ["list"]).stdout.startswith("m ")


def test_a_damaged_store_is_not_recorded_into() -> None:
    fixtures((ask("q"), "a"))
    (Path("fixtures") / "stray.json").write_text("{}")

    assert record(*ECHO, "--prompt", "Hi.").exit_code == 5


def test_checking_writes_nothing_whatever_happens(tmp_path: Path) -> None:
    """Neither to the store nor to staging, also when nobody reads the report."""
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    fixtures(*((ask(f"q{n}"), "Then.") for n in range(30)))
    command = (
        f"{sys.executable} -m cortex_replay record --refresh --check --provider scripted --script now.toml"
    )

    done = subprocess.run(["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"], check=False)

    assert done.returncode == 4
    assert Store.open(".").abandoned().answers == 0
    assert record("--refresh", "--check", "--store", "nowhere").exit_code != 0
    assert not Path("nowhere").exists()


def test_a_refresh_is_written_even_if_nobody_reads() -> None:
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    fixtures(*((ask(f"q{n}"), "Then.") for n in range(300)))
    command = f"{sys.executable} -m cortex_replay record --refresh --provider scripted --script now.toml"

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

    result = record("--refresh", "--script", "now.toml", "--provider", "scripted", "--record-failures")

    assert result.exit_code == 1
    assert "1 failed" in result.stdout
    assert [a.text for a in Store.open(".").get(*store.key(ask("q"))).answers] == ["A.", "B."]


def test_a_refresh_shows_no_secret_and_no_drift_where_one_was_cut_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")
    Path("leak.toml").write_text('[[rule]]\nsay = "It is canary-9d8c7b6a5."\n')
    scripted = ("--provider", "scripted", "--script", "leak.toml")
    record(*scripted, "--model", "m", "--prompt", "Tell.")

    result = record(*scripted, "--refresh", "--check")

    assert result.exit_code == 0, result.output
    assert "canary" not in result.output


def test_a_refresh_does_not_guess_which_server_answered() -> None:
    fixtures((ask("private"), "x"), adapter="openai-compat")

    result = record("--refresh", "--check")

    assert "does not say who answered" in result.stderr
    assert "0 asked again" in result.stdout


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


def test_the_timeout_holds_for_a_batch() -> None:
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 400\n')
    arguments = ("--provider", "scripted", "--script", "slow.toml", "--timeout-ms", "50")

    result = record(*arguments, "--batch", batch_file(question(1), question(2, timeout_ms=60_000)))

    assert "line 1: timeout after 50 ms" in result.stderr
    assert "1 of 2 requests answered" in result.stdout


def test_equal_lines_do_not_time_out_in_the_queue() -> None:
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 20\n')
    file = batch_file(*(question(1, timeout_ms=150) for _ in range(8)))

    result = record("--provider", "scripted", "--script", "slow.toml", "--batch", file, "--jobs", "8")

    assert "8 of 8 requests answered" in result.stdout


def test_calls_at_once_wait_for_each_other_before_a_budget_is_called_spent() -> None:
    file = batch_file(*(question(n, max_tokens=4000) for n in range(20)))

    result = record("--provider", "echo", "--batch", file, "--jobs", "8", "--budget-tokens", "10000")

    assert result.exit_code == 0, result.output
    assert "20 of 20 requests answered" in result.stdout


def test_two_batches_with_different_answers_lose_nothing_else() -> None:
    """What one has committed, the other gives way to; no later run trips over it."""
    Store.create(".")
    for name in ("a", "b"):
        Path(f"{name}.toml").write_text(f'[[rule]]\nsay = "From {name}."\ndelay_ms = 2\n')
    both = [json.dumps(question(n)) + "\n" for n in range(40)]
    Path("a.jsonl").write_text("".join(both))
    Path("b.jsonl").write_text("".join([*both, json.dumps(question(99)) + "\n"]))
    command = [sys.executable, "-m", "cortex_replay", "record", "--provider", "scripted"]

    runs = [
        subprocess.Popen(
            [*command, "--script", f"{n}.toml", "--batch", f"{n}.jsonl"], stdout=subprocess.DEVNULL
        )
        for n in ("a", "b")
    ]

    assert [run.wait() for run in runs] == [0, 0]
    assert len(Store.open(".")) == 41
    assert record(*ECHO, "--prompt", "Hi.").exit_code == 0


def test_a_closed_standard_input_is_no_prompt() -> None:
    command = f"{sys.executable} -m cortex_replay record --provider echo --model m <&-"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
