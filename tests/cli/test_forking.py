"""``cortex-replay replay --from N --live``: a run that leaves its recording, and that road again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread
from tests.cli.commands import run
from tests.cli.programs import ASK, Result, Shell
from tests.gateway.upstream import REAL_KEY

LOOP = """
import hashlib, json, os, urllib.request
prompts = [f"turn {n}" for n in range(1, 11)]
if "EDIT" in os.environ:
    prompts[6] = "turn 7, but terser"
url, messages = os.environ["OPENAI_BASE_URL"] + "/chat/completions", []
head = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for n, prompt in enumerate(prompts, start=1):
    messages.append({"role": "user", "content": prompt})
    how = {} if n % 2 else {"stream": True, "stream_options": {"include_usage": True}}
    body = json.dumps({"model": "m", "messages": messages, **how}).encode()
    whole = opener.open(urllib.request.Request(url, body, head)).read().decode()
    if n % 2:
        said = json.loads(whole)["choices"][0]["message"]["content"]
    else:
        chunks = [json.loads(line[6:]) for line in whole.splitlines() if line.startswith("data: {")]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        said = "".join(delta.get("content") or "" for delta in deltas)
    messages.append({"role": "assistant", "content": said})
    print(n, said, hashlib.sha256(whole.encode()).hexdigest())
"""


def fork(shell: Shell, program: str, url: str, *options: str, **variables: str) -> Result:
    own = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": REAL_KEY, "ANTHROPIC_BASE_URL": url}
    return shell.replay(program, *options, **{**own, **variables})


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*.json"))
    }


def asking(*texts: str) -> str:
    return ASK + "".join(f"print(ask({text!r}))\n" for text in texts)


def test_only_the_turns_behind_an_edit_are_paid_for(
    shell: Shell, provider: FakeProvider, tmp_path: Path
) -> None:
    """An agent of ten turns, whole and streamed in turn; the seventh is edited."""
    recorded = shell.record(LOOP, provider.url)
    assert (recorded.status, len(provider.received)) == (0, 10), recorded.talk
    before = files(tmp_path / "llm")

    forked = fork(shell, LOOP, provider.url, "--from", "6", "--live", "--as", "terser", "--json", EDIT="1")
    assert forked.status == 0, forked.talk
    paid = [len(one.json["messages"]) for one in provider.received[10:]]
    assert paid == [13, 15, 17, 19], "turns 7 to 10, each once"
    assert forked.report["fork"] == {"name": "terser", "from": 6, "left": True, "kept": True}
    assert (forked.report["hits"], forked.report["live"], forked.report["misses"]) == (6, 4, [])
    assert "cortex-replay replay --store llm --scope terser -- " in forked.talk
    assert before.items() <= files(tmp_path / "llm").items(), "what was recorded stays as it is"

    *road, _ = forked.out.splitlines()
    assert road[:6] == recorded.out.splitlines()[:6], "byte for byte"
    assert "terser" in road[6]
    again = shell.replay(LOOP, "--scope", "terser", EDIT="1")
    assert (again.status, again.out.splitlines()) == (0, road), again.talk
    first = shell.replay(LOOP)
    assert (first.status, first.out) == (0, recorded.out), first.talk
    assert len(provider.received) == 14, "nobody was asked for these"
    assert shell.run("verify", "llm").status == 0


def test_a_road_keeps_its_own_answers(shell: Shell, tmp_path: Path) -> None:
    """The same questions get other answers behind the fork, and both roads are there."""

    async def count(exchange: Exchange) -> None:
        exchange.provider.sent += 1
        message = {"role": "assistant", "content": str(exchange.provider.sent)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await exchange.whole(json.dumps({"choices": [choice]}).encode())

    program = asking("a", "b", "a", "c")
    with serving_in_thread(count) as provider:
        recorded = shell.record(program, provider.url, "--every-answer")
        assert recorded.out.split() == ["1", "2", "3", "4"], recorded.talk
        forked = fork(shell, program, provider.url, "--from", "2", "--live", "--as", "x")
        assert forked.out.split() == ["1", "2", "5", "6"], forked.talk
        other = fork(shell, program, provider.url, "--scope", "x", "--from", "3", "--live", "--as", "y")
        assert other.out.split() == ["1", "2", "5", "7"], other.talk
    for name, said in {"x": "1 2 5 6", "y": "1 2 5 7"}.items():
        assert shell.replay(program, "--scope", name).out.split() == said.split()
    first = shell.replay(program)
    assert first.out.split() == ["1", "2", "3", "4"]
    known = Store.open(tmp_path / "llm").list(scoped=True)
    assert f"{len(known) - 3} of {len(known)} fixtures unused" in first.talk, "those of both roads"


def test_the_command_that_replays_a_road_reaches_us_the_same_way(
    shell: Shell, provider: FakeProvider
) -> None:
    """Pasted as it is shown, a client without a base URL would not come to us."""
    shell.record(asking("one"), provider.url)
    ways = ("--no-mcp", "--proxy", "--model-host", "llm.example")
    forked = fork(shell, asking("one"), provider.url, "--from", "0", "--live", "--as", "x", *ways)

    assert forked.status == 0, forked.talk
    words = "--scope x --proxy --model-host llm.example --no-mcp -- "
    assert f"cortex-replay replay --store llm {words}" in forked.talk


def test_a_miss_before_the_fork_asks_nobody(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """Also behind it: what would be asked then is not what the program would ask."""
    shell.record(asking("one", "two", "three"), provider.url)
    before = (tmp_path / "llm/INDEX.toml").read_bytes()
    careless = asking("one").replace("print(", "import contextlib\nprint(") + (
        "for text in ('TWO', 'three', 'four'):\n    with contextlib.suppress(OSError): print(ask(text))\n"
    )
    lost = fork(shell, careless, provider.url, "--from", "2", "--live", "--as", "x")

    assert lost.status == 3, lost.talk
    assert lost.out.split() == ["You", "said:", "one", "You", "said:", "three"]
    assert len(provider.received) == 3, "as recorded"
    assert "nobody was asked, and nothing was recorded" in lost.talk
    assert (tmp_path / "llm/INDEX.toml").read_bytes() == before


def test_from_the_start(shell: Shell, provider: FakeProvider) -> None:
    """All is live, and of the road."""
    shell.record(asking("one"), provider.url)
    forked = fork(shell, asking("one", "two"), provider.url, "--from", "0", "--live", "--as", "x")

    assert (forked.status, len(provider.received)) == (0, 3), forked.talk
    assert shell.replay(asking("one", "two"), "--scope", "x").status == 0
    taken = fork(shell, asking("one"), provider.url, "--from", "0", "--live", "--as", "x")
    assert (taken.status, len(provider.received)) == (2, 3)
    assert "x is recorded already" in taken.talk


def test_a_command_that_ends_before_the_fork_fails(
    shell: Shell, provider: FakeProvider, tmp_path: Path
) -> None:
    """Whoever forks wants to see something new."""
    shell.record(asking("one", "two"), provider.url)
    before = (tmp_path / "llm/INDEX.toml").read_bytes()
    short = fork(shell, asking("one", "two"), provider.url, "--from", "2", "--live")

    assert (short.status, len(provider.received)) == (1, 2)
    assert "the command made 2 calls, so it never left its recording" in short.talk
    assert (tmp_path / "llm/INDEX.toml").read_bytes() == before


def test_a_budget_and_a_key_are_needed_as_for_record(shell: Shell, provider: FakeProvider) -> None:
    """Live calls cost, whichever command makes them."""
    shell.record(asking("one"), provider.url)
    options = ("--from", "1", "--live")
    spent = fork(shell, asking("one", "two"), provider.url, *options, "--budget-calls", "0")
    assert (spent.status, len(provider.received)) == (1, 1), spent.talk
    assert "nothing was recorded: no live call was made" in spent.talk

    keyless = shell.replay(asking("one", "two"), *options)
    assert (keyless.status, keyless.out) == (2, ""), "the command was not run"


def test_a_road_has_a_name_of_its_own(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """Which says where it left, and no other has."""
    shell.record(asking("one"), provider.url)
    forked = fork(shell, asking("one", "two"), provider.url, "--from", "1", "--live", "--json")

    assert forked.report["fork"]["name"].startswith("fork-1-20")
    [name] = Store.open(tmp_path / "llm").scopes
    assert name == forked.report["fork"]["name"]
    lost = shell.replay(asking("one"), "--scope", "nothing")
    assert (lost.status, lost.out) == (3, "")
    assert f"no scope nothing is recorded; there are {name}" in lost.talk
    fork(shell, asking("one", "three"), provider.url, "--from", "1", "--live", "--as", "terser")
    mistyped = shell.replay(asking("one"), "--scope", "tercer")
    assert f"no scope tercer is recorded; there are {name}, terser" in mistyped.talk
    assert "3 of 5 fixtures unused" in shell.replay(asking("one", "three"), "--scope", "terser").talk


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--from", "3"], "that costs: say --live as well"),
        (["--live"], "--live goes with --from N"),
        (["--as", "x"], "--as goes with --from N"),
        (["--budget-calls", "3"], "--budget-calls goes with --from N"),
        (["--from", "-1", "--live"], "-1 is not in the range"),
        (["--from", "1", "--live", "--as", "a/b"], "--as takes a name of letters"),
        (["--scope", ""], "--scope takes a name of letters"),
        (["--from", "1", "--live", "--fault", "429"], "--fault does not go with --from"),
        (["--from", "1", "--live", "--fail-on", "live"], "--fail-on live does not go with --from"),
    ],
)
def test_wrong_usage(in_a_folder: None, options: list[str], reason: str) -> None:
    """Nothing is run."""
    Store.create(".")
    result: Any = run("replay", *options, "--", "touch", "ran")

    assert result.exit_code == 2, result.output
    assert reason in result.stderr.replace("\n", " ")
    assert not Path("ran").exists()
