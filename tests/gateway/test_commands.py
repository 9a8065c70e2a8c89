"""``record -- COMMAND``, ``replay -- COMMAND`` and ``serve``, as a person or a CI job has them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cortex_replay import Store
from cortex_replay.config import Settings
from cortex_replay.gateway.guard import guarding
from cortex_replay.run.environment import command_environment
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY

PROGRAM = Path(sys.executable).with_name("cortex-replay")
ROOT = Path(__file__).parents[2]
ASK = """
import json, os, sys, urllib.request
def ask(text):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), key)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(request))["choices"][0]["message"]["content"]
"""
TWICE = ASK + "print(ask('one')); print(ask('two'))"


class Result:
    """What came of a command."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.out, self.talk = done.returncode, done.stdout, done.stderr

    @property
    def report(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell without keys."""
    names = ("PATH", "SSL_CERT_FILE", "LANG")
    return {"HOME": str(tmp_path), **{name: os.environ[name] for name in names if name in os.environ}}


class Shell:
    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def run(self, *arguments: str, **variables: str) -> Result:
        command = [str(PROGRAM), *arguments]
        env = {**self.environment, **variables}
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        return Result(done)

    def record(self, program: str, url: str, *options: str, **variables: str) -> Result:
        own = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": REAL_KEY, "ANTHROPIC_BASE_URL": url}
        behind = ["--", sys.executable, "-c", program]
        return self.run("record", "--store", "llm", *options, *behind, **{**own, **variables})

    def replay(self, program: str, *options: str, **variables: str) -> Result:
        return self.run(
            "replay", "--store", "llm", *options, "--", sys.executable, "-c", program, **variables
        )


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> Shell:
    return Shell(tmp_path, environment)


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


def test_the_ledger_for_programs(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    shell.record(TWICE, provider.url)
    summary = tmp_path / "summary.md"
    replayed = shell.replay(
        ASK + "ask('two')", "--json", "--report", "used.json", GITHUB_STEP_SUMMARY=str(summary)
    )

    report = replayed.report
    assert (report["hits"], report["misses"], report["live"], report["bypassed"]) == (1, [], 0, {})
    assert (len(report["used"]), len(report["unused"])) == (1, 1)
    assert report["tokens"]["replayed"] == 16
    assert (report["mode"], report["command_status"]) == ("replay", 0)
    assert json.loads((tmp_path / "used.json").read_text()) == report
    assert "| hits | 1 |" in summary.read_text()
    pruned = shell.run("prune", "--store", "llm", "--unused-from", "used.json")
    assert pruned.status == 0
    assert len(Store.open(tmp_path / "llm")) == 1


def test_a_miss_is_explained_and_fails_where_that_is_asked_for(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    careless = ASK + "import contextlib\nwith contextlib.suppress(Exception): ask('three')"

    assert shell.replay(careless).status == 0
    strict = shell.replay(careless, "--fail-on", "miss")
    assert strict.status == 3
    assert "| To record it: cortex-replay record --store llm -- " in strict.talk
    assert shell.replay(ASK + "ask('three')", "--fail-on", "miss").status == 1, "the command's own wins"
    assert shell.replay(ASK + "ask('one')", "--fail-on", "unused").status == 4
    assert shell.record(TWICE, provider.url, "--mode", "record", "--fail-on", "live").status == 4


def test_money_is_spoken_of_only_at_the_user_s_own_prices(
    shell: Shell, provider: FakeProvider, tmp_path: Path
) -> None:
    assert "at your prices" not in shell.record(TWICE, provider.url).talk
    (tmp_path / "cortex-replay.toml").write_text("[prices]\nm = { input = 1000, output = 2000 }\n")
    priced = shell.record(TWICE, provider.url, "--mode", "record", "--json")

    assert "0.0420 at your prices" in priced.talk
    assert priced.report["cost"] == pytest.approx(0.042)


@pytest.mark.parametrize("status", [1, 7, 130])
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


def test_a_command_that_calls_nobody_fails(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    for options in ([], ["--fail-on", "miss"]):
        silent = shell.replay("print('fine')", *options)
        assert silent.status == 1
        assert "no call came to the gateway" in silent.talk


def test_a_call_around_the_gateway_is_refused_and_named(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    around = ASK + (
        "import contextlib\nask('one')\n"
        "for url in ('https://api.example.com/v1', 'http://plain.example.com/x'):\n"
        "    with contextlib.suppress(OSError): urllib.request.urlopen(url, timeout=5)\n"
    )
    replayed = shell.replay(around, "--json")

    assert replayed.status == 0
    assert replayed.report["bypassed"] == {"api.example.com:443": 1, "plain.example.com": 1}
    assert "refused 1 x api.example.com:443" in replayed.talk
    assert shell.replay(around, "--fail-on", "live").status == 4


def test_the_store_must_be_sound_before_anything_runs(
    shell: Shell, provider: FakeProvider, tmp_path: Path
) -> None:
    ran = f"open({str(tmp_path / 'ran')!r}, 'w')"
    assert shell.replay(ran).status == 1, "there is none"
    shell.record(TWICE, provider.url)
    index = tmp_path / "llm/INDEX.toml"
    index.write_text(index.read_text() + "nonsense\n")
    assert shell.replay(ran).status == 5
    assert shell.record(ran, provider.url).status == 5
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["replay"], "give the command behind --"),
        (["replay", "--"], "give the command behind --"),
        (["record", "--prompt", "x", "--", "true"], "--prompt does not go with a command"),
        (["record", "--batch", "INDEX.toml", "--", "true"], "--batch does not go with a command"),
        (["record", "--upstream", "openai", "--", "true"], "NAME=URL"),
        (["replay", "--pace", "fast", "--", "true"], "pace"),
        (["serve", "--upstream", "=x"], "NAME=URL"),
        (["serve", "--host", "0.0.0.0"], "--allow-remote"),
    ],
)
def test_wrong_usage(shell: Shell, tmp_path: Path, arguments: list[str], reason: str) -> None:
    Store.create(tmp_path)
    result = shell.run(*arguments)

    assert result.status == 2, result.talk
    assert reason in result.talk


def test_what_follows_the_dashes_belongs_to_the_command(shell: Shell, provider: FakeProvider) -> None:
    show = "import sys; print(sys.argv[1:])"
    result = shell.run(
        *["record", "--store", "llm", "--", sys.executable, "-c", show, "--json", "--", "--help", "record"]
    )

    assert result.out == "['--json', '--', '--help', 'record']\n"


def test_ctrl_c_keeps_what_was_recorded(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """As a terminal sends it: to the whole group."""
    waiting = ASK + "ask('one'); print('asked', flush=True); import time; time.sleep(60)"
    command = [str(PROGRAM), "record", "--store", "llm", "--", sys.executable, "-c", waiting]
    env = {**shell.environment, "OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}
    with subprocess.Popen(
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
    command = [str(PROGRAM), "record", "--store", "llm", "--", sys.executable, "-c", waiting]
    env = {**shell.environment, "OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert len(Store.open(tmp_path / "llm")) == 1


@contextmanager
def served(
    shell: Shell, *options: str, stop: signal.Signals = signal.SIGINT, **variables: str
) -> Iterator[tuple[Any, subprocess.Popen[str]]]:
    command = [str(PROGRAM), "serve", "--store", "llm", "--json", *options]
    with subprocess.Popen(
        command,
        cwd=shell.folder,
        env={**shell.environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        facts = json.loads(line)
        try:
            yield facts, process
        finally:
            process.send_signal(stop)
            _, facts["talk"] = process.communicate(timeout=30)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_server_records_until_it_is_stopped(
    shell: Shell, provider: FakeProvider, tmp_path: Path, stop: signal.Signals
) -> None:
    options = ["--mode", "once", "--upstream", f"ollama={provider.url}", "--url-file", "url"]
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}
    with served(shell, *options, stop=stop) as (facts, process):
        assert (tmp_path / "url").read_text() == facts["url"]
        assert (tmp_path / "url").stat().st_mode & 0o777 == 0o600
        assert facts["pid"] == process.pid
        assert re.fullmatch(rf"http://127\.0\.0\.1:{facts['port']}/t-[0-9a-f]{{64}}", facts["url"])
        recorded = httpx.post(f"{facts['url']}/ollama/api/chat", json=body).content
        assert httpx.post(f"http://127.0.0.1:{facts['port']}/api/chat", json=body).status_code == 401
    assert process.returncode == 0
    with served(shell) as (facts, _):
        assert facts["mode"] == "replay"
        assert httpx.post(f"{facts['url']}/api/chat", json=body).content == recorded


def test_in_ci_only_what_is_said_records(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    (tmp_path / "cortex-replay.toml").write_text('mode = "once"\n')
    Store.create(tmp_path / "llm")
    with served(shell, CI="true") as (facts, _):
        assert facts["mode"] == "replay"
    with served(shell, "--mode", "once", CI="true") as (facts, _):
        assert facts["mode"] == "once"
    assert "CI is set" in facts["talk"]


def test_no_key_reaches_a_command() -> None:
    settings = Settings()
    keys = [name for provider in settings.providers.values() for name in provider.key_variables]
    before = dict.fromkeys([*keys, "ANTHROPIC_AUTH_TOKEN", "OPENAI_ADMIN_KEY"], REAL_KEY)
    made = command_environment({**before, "NO_PROXY": "x"}, settings, lambda name: f"http://g/{name}")

    assert REAL_KEY not in made.values()
    assert made["OPENAI_BASE_URL"] == "http://g/openai/v1"
    assert made["ANTHROPIC_BASE_URL"] == "http://g/anthropic"
    assert made["NO_PROXY"] == "x,127.0.0.1,localhost,::1"
    assert "HTTP_PROXY" not in made


@pytest.mark.parametrize("tunnel", [True, False])
def test_a_client_that_asks_a_proxy_for_this_machine_comes_to_the_gateway(
    opened: Opened, tunnel: bool
) -> None:
    """Whatever NO_PROXY says: some do not look at it."""
    noted: list[str] = []
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "q"}]}
    with opened() as gateway, guarding(f"127.0.0.1:{gateway.port}", noted.append) as url:
        if tunnel:
            port = int(url.rpartition(":")[2])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.set_tunnel("127.0.0.1", gateway.port)
            connection.request("POST", "/anthropic/v1/messages", json.dumps(body))
            status = connection.getresponse().status
            connection.close()
        else:
            with httpx.Client(proxy=url, trust_env=False) as client:
                answers = [
                    client.post(gateway.url("anthropic") + "/v1/messages", json=body) for _ in range(2)
                ]
            status = answers[0].status_code

        assert status == 424
        assert noted == []
        assert len(gateway.engine.ledger.misses) == (1 if tunnel else 2)


def test_a_guard_notes_and_refuses() -> None:
    noted: list[str] = []
    with guarding("127.0.0.1:1", noted.append) as url:
        with pytest.raises(httpx.ProxyError):
            httpx.get("https://api.example.com/", proxy=url)
        assert httpx.get("http://u:p@example.com:81/x", proxy=url).status_code == 403
        port = int(url.rpartition(":")[2])
        with httpx.Client() as client:
            client.get(f"http://127.0.0.1:{port}/")
        deadline = time.monotonic() + 5
        while len(noted) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)

    assert noted[:2] == ["api.example.com:443", "example.com:81"]
