"""``cortex-replay sweep -- COMMAND``; ``integration/test_sweep.py`` sweeps agents that use a real SDK."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.cli import sweep as sweep_module
from cortex_replay.engine.ledger import Ledger
from cortex_replay.faults import Faults
from cortex_replay.faults.tools import strike_by
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import FixtureKey
from tests.adapters.fake_provider import FakeProvider
from tests.cli import commands
from tests.cli.programs import ASK, Result, Shell

# Needs little of the standard library, and so starts at once: a sweep starts it again for every cell.
AGENT = (
    ASK
    + """
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
def ask(messages):
    return post({"messages": messages, "tools": TOOLS})
def use_tools(messages):
    message = ask(messages)
    calls = message.get("tool_calls") or []
    cities = [json.loads(call["function"]["arguments"])["city"] for call in calls]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "Sunny in " + city}
        for call, city in zip(calls, cities)
    ]
    return [message, *results]
def steadily(step, messages):
    for _ in range(TRIES - 1):
        try:
            return step(messages)
        except Exception:
            pass
    return step(messages)
messages = [{"role": "user", "content": "Weather in Paris?"}]
messages += steadily(use_tools, messages)
print(steadily(ask, messages)["content"])
"""
)
FRAGILE, STEADY = (AGENT.replace("TRIES", tries) for tries in ("1", "3"))


def sweep(shell: Shell, agent: str, *options: str) -> Result:
    return shell.run("sweep", "--store", "llm", *options, "--", sys.executable, "-I", "-c", agent)


def test_a_sweep_finds_the_weakness_and_passes_the_mended_agent(shell: Shell, provider: FakeProvider) -> None:
    assert shell.record(STEADY, provider.url).status == 0
    some = ["--fault", "500", "--fault", "cut", "--fault", "malformed-tool"]

    done = sweep(shell, FRAGILE, *some)
    assert done.status == 4, done.talk
    assert done.out.splitlines() == [
        "call  500      cut      malformed-tool",
        "1     FAILED   FAILED   FAILED",
        "2     FAILED   FAILED   -",
    ]
    hint = re.search(r"to see the first one:\n  cortex-replay (replay .*)", done.talk, re.DOTALL)
    assert hint is not None
    assert "500@1" in hint[1]
    pasted = shell.paste(hint[1])
    assert pasted.status == 1
    assert "Traceback" in pasted.talk, "of the agent, which the sweep kept to itself"

    done = sweep(shell, STEADY, "--json", *some)
    assert done.status == 0, done.talk
    report = json.loads(done.out)
    assert (report["calls"], report["survived"]) == (2, True)
    assert [run["verdict"] for run in report["runs"]].count("survived") == 5
    assert {run["log"] for run in report["runs"]} == {"You said: Sunny in Paris\n"}

    done = sweep(shell, FRAGILE, "--fault", "500", "--turn", "2", "--allow", "500")
    assert (done.status, done.out.splitlines()[1:]) == (0, ["2     failed"])
    assert sweep(shell, "raise SystemExit(7)").talk == (
        "error: without any fault, the command ends with status 7; --show-output lets it say why\n"
    )
    assert commands.run("sweep", "--fault", "nonsense", "--", "true").exit_code == 2


def call_of(tool: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}


def test_calls_of_tools_are_swept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that asks a model once and calls three tools; it falls over where a call fails altogether."""
    tools = [("files", "read_a"), ("files", "list"), ("files", "read_b")]
    seen: list[str] = []

    def run_once(_: object, faults: Faults) -> tuple[int, dict[str, Any], list[tuple[str, str]]]:
        strike = strike_by(faults)
        struck = [strike("", server, call_of(tool)) for server, tool in tools]
        model = faults.next()
        if model is not None:
            faults.note(model)
        seen.extend(faults.spellings()[""])
        failed = any(one is not None and b'"error"' in (one.frame or b"") for one in struck)
        ledger = {"broken": [], "misses": [], "hits": 6, "servers": {"files": {"hits": 5}}}
        return int(failed), ledger, tools

    monkeypatch.setattr(sweep_module._Sweeper, "_run", run_once)
    store = ("--store", str(tmp_path))
    some = ["--fault", "500", "--fault", "tool-error", "--fault", "tool-fail:files/read_*"]

    done = commands.run("sweep", *store, *some, "--", "agent")
    told = json.loads(commands.run("sweep", *store, *some, "--json", "--", "agent").stdout)

    assert done.exit_code == 4
    assert done.stdout.splitlines() == [
        "call  500",
        "1     ok",
        "",
        "tool call       tool-error  tool-fail:files/read_*",
        "1 files/read_a  ok          FAILED",
        "2 files/list    ok",
        "3 files/read_b  ok          FAILED",
    ]
    assert "--fault 'tool-fail:files/read_*@1' -- agent" in done.stderr
    assert seen[:6] == [
        *("500@1", "tool-error@1", "tool-fail:files/read_*@1", "tool-error@2", "tool-error@3"),
        "tool-fail:files/read_*@2",
    ]
    assert (told["calls"], told["tool_calls"]) == (1, 3)
    assert [run["tool"] for run in told["runs"]][-1] == "files/read_b"
    assert "tool-fail:files/read_*@2" in told["runs"][-1]["again"]
    kept = commands.run("sweep", *store, *some, "--turn", "3", "--allow", "tool-fail", "--", "agent")
    assert (kept.exit_code, kept.stdout.splitlines()[1]) == (0, "3 files/read_b  ok          failed")
    assert "survived: 1 call and 3 tool calls, 2 runs" in kept.stderr
    nothing = commands.run("sweep", *store, "--turn", "9", "--", "agent")
    assert nothing.exit_code == 2
    assert "the command makes 1 call and 3 tool calls" in nothing.stderr


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_equal_calls_are_swept_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """A command that polls asks the same again and again; it falls over at its third call alone."""
    called = 3

    def run_once(_: object, faults: Faults) -> tuple[int, dict[str, Any], list[tuple[str, str]]]:
        ledger = Ledger(Redactor)
        struck = []
        for number in range(called):
            struck.append(faults.next())
            ledger.hit(FixtureKey("m", f"{number % keys}" * 64))
            if struck[-1] is not None:
                faults.note(struck[-1])
        document = {"broken": [], "misses": [], "hits": ledger.hits, "servers": {}}
        document["used"] = [key._asdict() for key in ledger.used_keys]
        return int(struck[2] is not None), document | {"used_exchanges": []}, []

    monkeypatch.setattr(sweep_module._Sweeper, "_run", run_once)
    done = commands.run("sweep", "--store", str(tmp_path), "--fault", "500", "--json", "--", "agent")

    told = json.loads(done.stdout)
    assert (done.exit_code, told["calls"]) == (4, called)
    assert [run["verdict"] for run in told["runs"]] == ["survived", "survived", "failed"]


@pytest.mark.parametrize(
    ("status", "is_struck", "missed", "verdict"),
    [
        (0, True, False, "survived"),
        (1, True, False, "failed"),
        (1, True, True, "missed"),
        (None, True, False, "hung"),
        (0, False, False, "not applicable"),
        (1, False, False, "not applicable"),
    ],
)
def test_how_a_run_ended_decides_its_verdict(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int | None,
    is_struck: bool,
    missed: bool,
    verdict: str,
) -> None:
    def run_once(_: object, faults: Faults) -> tuple[int | None, dict[str, Any], list[tuple[str, str]]]:
        ledger: dict[str, Any] = {"broken": [], "misses": [], "hits": 1, "servers": {}}
        fault = faults.next()
        if fault is None:
            return 0, ledger, []
        if is_struck:
            faults.note(fault)
        return status, ledger | {"misses": [{"is_probe": False}] * missed}, []

    monkeypatch.setattr(sweep_module._Sweeper, "_run", run_once)
    arguments = ("sweep", "--store", str(tmp_path), "--fault", "500", "--json")
    done = commands.run(*arguments, "--", "agent")

    (run,) = json.loads(done.stdout)["runs"]
    is_bad = verdict in ("failed", "missed", "hung")
    assert (run["verdict"], done.exit_code) == (verdict, 4 if is_bad else 0)
    assert commands.run(*arguments, "--allow", "500", "--", "agent").exit_code == 0
