"""What a fresh pair of eyes found in faults, sweeps and the RPC; each was a defect."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

import httpx
import pytest

from cortex_replay import Store
from cortex_replay.admin import METHOD
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import serving
from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import ASK, TWICE, Shell, served
from tests.gateway.conftest import Opened
from tests.gateway.test_recording import ASKED, STREAMED, counted, text
from tests.gateway.test_rpc import ASKED as RPC_ASKED, CONFIGURATION, TOKEN, TOKENS, called, on_pipes
from tests.gateway.upstream import REAL_KEY, model_server
from tests.waiting import wait_until


@pytest.fixture
def shell(tmp_path: Path, provider: FakeProvider) -> Shell:
    (tmp_path / "cortex-replay.toml").write_text(CONFIGURATION.format(url=provider.url))
    return Shell(tmp_path, {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **TOKENS})


def test_the_rpc_keeps_the_budget_of_the_run(shell: Shell, provider: FakeProvider) -> None:
    options = ["--mode", "once", "--budget-calls", "1"]
    with served(shell, *options, LOCAL_KEY=REAL_KEY) as (facts, _):
        answers = [called(facts["url"], messages=[{"role": "user", "content": str(i)}]) for i in range(3)]

    assert [getattr(answer, "code", None) for answer in answers] == [None, -32002, -32002]
    assert len(provider.received) == 1


def test_the_rpc_goes_to_the_server_of_the_command_line(shell: Shell, provider: FakeProvider) -> None:
    with model_server() as other:
        options = ["--mode", "once", "--upstream", f"local={other.url}/v1"]
        with served(shell, *options, LOCAL_KEY=REAL_KEY) as (facts, _):
            called(facts["url"])
        assert (len(provider.received), len(other.received)) == (0, 1)


def test_what_the_rpc_gives_from_the_store_is_a_hit(shell: Shell, tmp_path: Path) -> None:
    program = (
        "import os\nfrom cortex_replay.admin import AdminClient\n"
        "client = AdminClient(os.environ['CORTEX_REPLAY_GATEWAY'] + '/rpc', os.environ['CI_TOKEN'])\n"
        "print(client.complete('local', 'm', 'Hello.').content)\n"
    )
    options = ["--store", "llm", "--json", "--pass-env", "CI_TOKEN"]
    command = ["record", *options, "--", sys.executable, "-c", program]
    first, again = (shell.run(*command, LOCAL_KEY=REAL_KEY) for _ in range(2))

    assert (first.status, again.status) == (0, 0), first.talk + again.talk
    assert (first.report["recorded"], again.report["hits"], again.report["unused"]) == (1, 1, [])


def test_what_is_recorded_is_not_spoiled_by_a_fault(opened: Opened) -> None:
    from tests.adapters.fake_provider import serving_in_thread  # noqa: PLC0415

    faults = Faults([Fault.parse("cut@1"), Fault.parse("malformed-json@2")])
    scope = {"x-cortex-replay-scope": "a test"}
    with serving_in_thread(counted(9)()) as upstream, opened("once", upstream.url, faults=faults) as gateway:
        url = gateway.url("anthropic") + "/v1/messages"
        assert [text(httpx.post(url, json=ASKED, headers=scope)) for _ in range(2)] == [
            "answer 1",
            "answer 2",
        ]
    with opened() as gateway:
        url = gateway.url("anthropic") + "/v1/messages"
        assert [text(httpx.post(url, json=ASKED, headers=scope)) for _ in range(2)] == [
            "answer 1",
            "answer 2",
        ]


@pytest.mark.parametrize("fault", ["cut", "chunks:byte", "malformed-json"])
def test_a_fault_does_not_hide_a_damaged_recording(
    opened: Opened, provider: FakeProvider, tmp_path: Path, fault: str
) -> None:
    with opened("once", provider.url) as gateway:
        httpx.post(gateway.url("anthropic") + "/v1/messages", json=ASKED)
    with opened(faults=Faults([Fault.parse(f"{fault}@always")])) as gateway:
        (path,) = (tmp_path / "store/fixtures").rglob("*.json")
        path.write_bytes(path.read_bytes().replace(b"You said", b"You paid"))
        answer = httpx.post(gateway.url("anthropic") + "/v1/messages", json=ASKED)
        assert answer.status_code == 424
        assert gateway.run.ledger.broken


def test_a_hung_client_does_not_hold_up_the_end(
    opened: Opened, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_GRACE_SECONDS", 600)
    with opened("once", provider.url) as gateway:
        httpx.post(gateway.url("anthropic") + "/v1/messages", json=STREAMED)
    with opened(faults=Faults([Fault.parse("stall:1@always")])) as gateway:
        url = gateway.url("anthropic") + "/v1/messages"
        with httpx.stream("POST", url, json=STREAMED, timeout=60) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            with httpx.stream("POST", url, json=STREAMED, timeout=60) as second:
                next(second.iter_raw())  # one that is stalled holds up nobody
            stopping = threading.Thread(target=gateway.stop)
            stopping.start()
            wait_until(lambda: not stopping.is_alive())
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)


def test_a_sweep_takes_everything_with_it(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    shell.record(TWICE, provider.url)
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    behind = ["sh", "-c", f'{sys.executable} -c "{child}"; true']
    result = shell.run("sweep", "--store", "llm", "--seconds", "1", "--", *behind)

    assert result.status == 1
    assert "does not end in time" in result.talk
    status = Path(f"/proc/{pid.read_text()}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z", "it lives on"


def test_a_sweep_of_calls_that_are_not_made_is_none(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    result = shell.run("sweep", "--store", "llm", "--turn", "7", "--", sys.executable, "-c", TWICE)

    assert result.status == 2
    assert "the command makes 2 calls" in result.talk


def test_a_retry_that_asks_something_else_is_told_apart(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    wordy = ASK + "\ntry: ask('one')\nexcept OSError: ask('one, please')\n"
    behind = ["--", sys.executable, "-c", wordy]
    result = shell.run("sweep", "--store", "llm", "--fault", "500", *behind)

    assert (result.status, result.out.splitlines()[1]) == (4, "1     MISSED")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_pipes_end_well_on_a_signal(shell: Shell, tmp_path: Path, stop: signal.Signals) -> None:
    with on_pipes(shell, "--mode", "once", "--caller", "ci", LOCAL_KEY=REAL_KEY) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": RPC_ASKED}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(stop)
        assert process.wait(30) == 0
    assert len(Store.open(tmp_path / "llm")) == 1


def test_two_rates_are_two_draws() -> None:
    faults = Faults([Fault.parse("429@0.3/7"), Fault.parse("500@0.3/7")])
    struck = [str(faults.next()) for _ in range(300)]

    assert struck.count("429@0.3/7") > 50
    assert struck.count("500@0.3/7") > 30


@pytest.mark.parametrize("fault", ["error-event:99", "cut:99", "stall:99"])
def test_a_fault_behind_the_end_has_no_place(opened: Opened, provider: FakeProvider, fault: str) -> None:
    with opened("once", provider.url) as gateway:
        httpx.post(gateway.url("anthropic") + "/v1/messages", json=STREAMED)
    with opened(faults=Faults([Fault.parse(f"{fault}@always")])) as gateway:
        answer = httpx.post(gateway.url("openai") + "/v1/chat/completions", json=STREAMED, timeout=60)
        assert answer.content.endswith(b"data: [DONE]\n\n")
        assert not gateway.faults.struck


def test_errors_on_demand_are_openai_s_to_openai_s_clients(opened: Opened) -> None:
    with opened(faults=Faults([Fault.parse("429@always")])) as gateway:
        answer = httpx.post(gateway.url("openai") + "/v1/chat/completions", json=ASKED)

    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert answer.headers["x-request-id"]


def test_faults_of_no_scope_are_for_all(opened: Opened) -> None:
    with opened() as gateway:
        url = f"{gateway.url('-')}/faults"
        assert httpx.put(url, json={"faults": ["500@1"], "scope": ""}).json()["faults"] == {"": ["500@1"]}
        header = {"x-cortex-replay-fault": "429@" + "9" * 5000}
        answer = httpx.post(gateway.url("anthropic") + "/v1/messages", json=ASKED, headers=header)
        assert answer.status_code == 400


def test_a_notification_has_no_body(shell: Shell) -> None:
    shell.run("init", "--store", "llm")
    with served(shell) as (facts, _):
        message = {"jsonrpc": "2.0", "method": "nobody/knows/this"}
        answer = httpx.post(f"{facts['url']}/rpc", json=message, headers={"authorization": f"Bearer {TOKEN}"})

    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-length" not in answer.headers
