"""``cortex-replay batch``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Store
from tests.cli.commands import ECHO, at_a_shell, batch_file, question, run

pytestmark = pytest.mark.usefixtures("in_a_folder")


def batch(*arguments: str, text: str | bytes | None = None) -> Result:
    return run("batch", *arguments, text=text)


def test_a_batch_is_recorded_and_goes_on_where_it_ended() -> None:
    file = batch_file(*(question(n) for n in range(20)), question(3), question(1, provider="scripted"))

    result = batch("--provider", "echo", file, "--jobs", "8")
    assert result.exit_code == 0, result.output
    # One question was put twice; another, to somebody else, has the key of one that was put already.
    assert "22 of 22 requests answered, 21 asked for" in result.stdout

    again = json.loads(batch("--provider", "echo", file, "--json").stdout)
    assert (again["answered"], again["calls"], again["added"]) == (22, 0, [])


def test_a_slip_in_the_last_line_costs_nothing() -> None:
    for bad, named in (({"model": "m"}, None), ({"model": "m", "mesages": "x"}, "mesages"), ([], None)):
        Path("batch.jsonl").write_text(json.dumps(question(1)) + "\n\n" + json.dumps(bad) + "\n")
        result = batch("--provider", "echo", "batch.jsonl")
        if bad == {"model": "m"}:
            continue
        assert result.exit_code == 2
        assert "line 3" in result.stderr
        assert named is None or named in result.stderr
    Path("batch.jsonl").write_text("{not json\n")
    assert "line 1" in batch("--provider", "echo", "batch.jsonl").stderr


def test_a_failure_does_not_stop_a_batch() -> None:
    """The summary names its line, and the exit status is that of the worst."""
    Path("some.toml").write_text(
        '[[rule]]\nwhen = { contains = "2" }\nerror = { status = 500, message = "broken" }\n'
        '[[rule]]\nsay = "Fine."\n'
    )
    file = batch_file(*(question(n) for n in range(5)))

    result = batch("--provider", "scripted", "--script", "some.toml", file)

    assert result.exit_code == 1
    assert "line 3: upstream: 500" in result.stderr
    assert "4 of 5 requests answered" in result.stdout
    assert len(Store.open(".")) == 4


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("CORTEX_REPLAY_MAX_RETRIES", "0")
    server = ("--provider", "openai", "--base-url", "http://127.0.0.1:1/v1")
    result = run("batch", batch_file(question(1)), *server)

    assert result.exit_code == 1
    assert "line 1: transport: cannot connect to http://127.0.0.1:1 (Connection refused);" in result.stderr


def test_a_budget_of_calls_is_not_crossed() -> None:
    file = batch_file(*(question(n) for n in range(10)))

    result = batch("--provider", "echo", file, "--budget-calls", "3", "--jobs", "2")
    assert result.exit_code == 1
    assert "7 requests left" in result.stderr
    assert len(Store.open(".")) == 3

    rest = batch("--provider", "echo", file, "--budget-calls", "7")
    assert rest.exit_code == 0
    assert len(Store.open(".")) == 10


def test_a_budget_of_tokens_is_not_crossed() -> None:
    file = batch_file(*(question(n) for n in range(10)))

    result = json.loads(
        batch("--provider", "echo", file, "--budget-tokens", "75", "--jobs", "1", "--json").stdout
    )

    assert 0 < result["calls"] < 10
    assert result["tokens"] <= 75
    assert result["left"] == 10 - result["calls"]


def test_two_batches_at_once_into_one_store() -> None:
    Store.create(".")
    for name, first in (("a.jsonl", 0), ("b.jsonl", 30)):
        Path(name).write_text("".join(json.dumps(question(n)) + "\n" for n in range(first, first + 60)))
    command = [sys.executable, "-m", "cortex_replay", "batch", "--provider", "echo"]

    runs = [subprocess.Popen([*command, name], stdout=subprocess.DEVNULL) for name in ("a.jsonl", "b.jsonl")]

    assert [process.wait() for process in runs] == [0, 0]
    assert len(Store.open(".")) == 90


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_batch_that_is_interrupted_loses_nothing(how: signal.Signals) -> None:
    """Ctrl-C commits what was answered; after a kill the next run takes it over."""
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 20\n')
    file = batch_file(*(question(n) for n in range(300)))
    command = ["batch", file, "--provider", "scripted", "--script", "slow.toml", "--jobs", "2"]
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
    result = batch("--provider", "echo", batch_file(question(0)))
    assert "of a run that died" in result.stderr
    assert len(Store.open(".")) >= 4  # the last one may have been half written


def test_the_timeout_holds_for_a_batch() -> None:
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 400\n')
    arguments = ("--provider", "scripted", "--script", "slow.toml", "--timeout-ms", "50")

    result = batch(*arguments, batch_file(question(1), question(2, timeout_ms=60_000)))

    assert "line 1: timeout after 50 ms" in result.stderr
    assert "1 of 2 requests answered" in result.stdout


def test_equal_lines_do_not_time_out_in_the_queue() -> None:
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 20\n')
    file = batch_file(*(question(1, timeout_ms=150) for _ in range(8)))

    result = batch("--provider", "scripted", "--script", "slow.toml", file, "--jobs", "8")

    assert "8 of 8 requests answered" in result.stdout


def test_calls_at_once_wait_for_each_other_before_a_budget_is_called_spent() -> None:
    file = batch_file(*(question(n, max_tokens=4000) for n in range(20)))

    result = batch("--provider", "echo", file, "--jobs", "8", "--budget-tokens", "10000")

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
    command = [sys.executable, "-m", "cortex_replay", "batch", "--provider", "scripted"]

    runs = [
        subprocess.Popen([*command, "--script", f"{n}.toml", f"{n}.jsonl"], stdout=subprocess.DEVNULL)
        for n in ("a", "b")
    ]

    assert [process.wait() for process in runs] == [0, 0]
    assert len(Store.open(".")) == 41
    assert run("record", *ECHO, "--prompt", "Hi.").exit_code == 0


def test_requests_may_come_from_a_pipe() -> None:
    Path("scripted.toml").write_text('[[rule]]\nsay = "Fine."\n')
    line = json.dumps(question(1)) + "\n"

    result = batch("-", "--provider", "scripted", "--script", "scripted.toml", text=line)

    assert result.exit_code == 0, result.output
    assert "1 of 1 request answered, 1 asked for" in result.stdout


USAGE: dict[str, tuple[str, ...]] = {
    "no file": ("--provider", "echo"),
    "no such file": ("nowhere.jsonl", "--provider", "echo"),
    "no provider": ("batch.jsonl",),
    "no such provider": ("batch.jsonl", "--provider", "parrot"),
    "no such mode": ("batch.jsonl", "--provider", "echo", "--mode", "live"),
    "a prompt": ("batch.jsonl", "--provider", "echo", "--prompt", "x"),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_asks_nobody(name: str) -> None:
    batch_file(question(1))

    result = batch(*USAGE[name])

    assert result.exit_code == 2, result.output
    assert not list(Path().rglob("fixtures/*/*.json"))


def test_a_line_that_names_no_provider_of_ours_ends_it_before_the_first_call() -> None:
    file = batch_file(question(1), question(2, provider="parrot"))

    assert batch("--provider", "echo", file).exit_code == 2
    assert not list(Path().rglob("fixtures/*/*.json"))


def test_a_reader_that_leaves_early_does_not_change_the_status() -> None:
    Path("bad.toml").write_text('[[rule]]\nerror = { status = 500, message = "broken" }\n')
    file = batch_file(question(1))

    command = f"cortex-replay batch {file} --provider scripted --script bad.toml"
    done = at_a_shell(f"set -o pipefail; {command} | true")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_record_with_a_batch_names_the_command_and_does_the_same() -> None:
    file = batch_file(question(1), question(2))
    options = ("--provider", "echo", "--jobs", "2", "--budget-calls", "1", "--json")

    former = run("record", "--batch", file, *options, "--store", "a")
    now = batch(file, *options, "--store", "b")

    assert former.stderr == "warning: record --batch is now: cortex-replay batch FILE\n"
    # The names of files end with a hash of their bytes, and these tell one run from the other.
    said = [re.sub(r"-[0-9a-f]{8}\.json", ".json", one.stdout) for one in (former, now)]
    assert (former.exit_code, said[0]) == (now.exit_code, said[1])
    assert (now.exit_code, now.stderr, json.loads(now.stdout)["left"]) == (1, "", 1)


def test_a_record_a_batch_and_a_refresh_say_what_they_cost() -> None:
    """At the user's prices; in JSON, too."""
    Path("cortex-replay.toml").write_text(
        'currency = "EUR"\n[prices]\nm = { input = 0, output = 1000, cached = 0 }\n'
    )
    Path("rule.toml").write_text(
        '[[rule]]\nsay = "Fine."\nusage = { prompt_tokens = 3, completion_tokens = 5, cached_tokens = 2 }\n'
    )
    scripted = ("--provider", "scripted", "--script", "rule.toml")
    file = batch_file(question(1), question(2))

    recorded = run("record", *scripted, "--model", "m", "--prompt", "Hi.")
    assert "read from the cache: 2 of 3 input tokens, 66%, 0.0050 EUR paid" in recorded.stderr
    assert "read from the cache: 4 of 6 input tokens, 66%, 0.0100 EUR" in run("batch", file, *scripted).stdout
    assert "0.0150 EUR paid" in run("refresh", "--check", *scripted).stdout
    report = json.loads(run("refresh", "--check", "--json", *scripted).stdout)
    money = report["money"]
    assert report["cached_tokens"] == 6
    assert (money["paid"], money["saved"], money["currency"]) == ("0.015", None, "EUR")
