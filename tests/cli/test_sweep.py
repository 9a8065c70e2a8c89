"""``cortex-replay sweep -- COMMAND``; ``integration/test_sweep.py`` sweeps agents that use a real SDK."""

from __future__ import annotations

import json
import re
import sys

from tests.adapters.fake_provider import FakeProvider
from tests.cli import commands
from tests.cli.programs import Result, Shell

# Needs nothing but the standard library, and so starts at once: a sweep starts it again for every cell.
AGENT = """
import json, os, sys, urllib.request
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
def ask(messages):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = {"model": "m", "messages": messages, "tools": TOOLS}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), key)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(request))["choices"][0]["message"]
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

    done = sweep(shell, FRAGILE, "--fault", "500", "--turn", "2", "--allow", "500")
    assert (done.status, done.out.splitlines()[1:]) == (0, ["2     failed"])
    assert sweep(shell, "raise SystemExit(7)").talk == (
        "error: without any fault, the command ends with status 7; --show-output lets it say why\n"
    )
    assert commands.run("sweep", "--fault", "nonsense", "--", "true").exit_code == 2
