"""The commands that record, replay and print, each a process with many secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.store import FixtureKey
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Script, stream, whole
from tests.security.campaign.plant import Planter
from tests.security.campaign.sandbox import PYTHON, Sandbox
from tests.security.campaign.tally import Outcome
from tests.security.campaign.upstream import Upstream, cuts, upstream

__all__ = ["judge_behind", "judge_inspection", "judge_record", "judge_refresh"]

CHAT: Final = DIALECTS[1]
_FEW: Final = 5
"""Messages that a command prints at most ten of get so many secrets of each class."""

_PROGRAM: Final = """
import json, os, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for line in open(sys.argv[1], encoding="utf-8"):
    path, body = json.loads(line)
    url = os.environ["OPENAI_BASE_URL"] + path
    headers = {"content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        opener.open(urllib.request.Request(url, data, headers), timeout=30).read()
    except OSError:
        pass
"""


def judge_record(root: Path, planter: Planter) -> Outcome:
    """``record --prompt`` for one, ``batch`` for many."""
    sandbox = Sandbox(root, planter)
    prompts = list(planter.plant("batch: prompt"))
    answers = list(planter.plant("batch: answer"))
    streams = list(planter.plant("batch: stream"))
    failures = list(planter.plant("batch: failure", count=min(_FEW, planter.count)))
    json_failures = list(planter.plant("batch --json: failure"))
    printed = list(planter.plant("record --prompt: answer on the terminal", count=_FEW))
    in_json = list(planter.plant("record --prompt --json: answer on the terminal", count=_FEW))
    errors = list(planter.plant("record --prompt: error on the terminal", count=_FEW))
    with upstream() as server:
        for one in answers:
            server.answers[one.tag] = _both_ways(one.text, Random(one.tag), is_cut=False)
        for one in streams:
            server.answers[one.tag] = _both_ways(one.text, Random(one.tag), is_cut=True)
        for one in (*failures, *json_failures):
            server.answers[one.tag] = whole(CHAT.error(400, f"wrong key: {one.text}"), 400)
        asked = [_request(one.text) for one in prompts]
        asked += [_request(f"Say {one.tag}.") for one in (*answers, *streams, *failures)]
        _batch(sandbox, server, asked, "--record-failures")
        _batch(sandbox, server, [_request(one.tag) for one in json_failures], "--record-failures", "--json")
        for items, option in ((printed, "--mode=once"), (in_json, "--json"), (errors, "--mode=once")):
            # All in one answer: a command for each would take a second each.
            text = "\n".join(one.text for one in items)
            script = whole(CHAT.error(400, f"wrong key: {text}"), 400)
            server.answers[items[0].tag] = (
                script if items is errors else _both_ways(text, Random(text), is_cut=True)
            )
            asked_for = ("--model", "m", "--prompt", items[0].tag, option)
            sandbox.run("record", "--store", "llm", *_provider(server), *asked_for)
    return sandbox.judged()


def judge_refresh(root: Path, planter: Planter) -> Outcome:
    """``refresh``: the answers of today hold secrets, the recorded ones did not."""
    sandbox = Sandbox(root, planter)
    changed = list(planter.plant("refresh: answer"))
    failed = list(planter.plant("refresh: error", count=2))
    with upstream() as server:
        _batch(sandbox, server, [_request(f"Say {one.tag}.") for one in (*changed, *failed)])
        for one in changed:
            server.answers[one.tag] = _both_ways(one.text, Random(one.tag), is_cut=False)
        for one in failed:
            server.answers[one.tag] = whole(CHAT.error(400, f"wrong key: {one.text}"), 400)
        again = ("refresh", "--store", "llm", *_provider(server))
        sandbox.run(*again, "--check", "--json")
        sandbox.run(*again)
    return sandbox.judged()


def judge_behind(root: Path, planter: Planter) -> Outcome:
    """``record -- COMMAND`` and ``replay -- COMMAND``: terminal, ``--json``, ``--report``, step summary."""
    sandbox = Sandbox(root, planter)
    few = min(_FEW, planter.count)
    answers = list(planter.plant("record -- COMMAND: answer"))
    failures = list(planter.plant("record -- COMMAND: error, --report, --json", count=few))
    events = list(planter.plant("record -- COMMAND: error event, --report, --json", count=few))
    refused = list(planter.plant("record -- COMMAND: refused, named on the terminal", count=few))
    misses = list(planter.plant("replay -- COMMAND: miss, --report, summary", count=few))
    paths = list(planter.plant("replay -- COMMAND: missed path", count=few))
    arguments = list(planter.plant("replay -- COMMAND: its arguments", count=1, encodings=["plain"]))
    swept = list(planter.plant("sweep -- COMMAND: miss", count=few))
    with upstream() as server:
        for one in answers:
            server.answers[one.tag] = whole(CHAT.answer(one.text))
        for one in failures:
            server.answers[one.tag] = whole({"error": {"message": f"wrong key {one.text}"}})
        for one in events:
            script = stream([CHAT.events("a")[0], CHAT.error_event(f"wrong key {one.text}")])
            server.answers[one.tag] = script
        # What is missed is told by how it differs from the nearest.
        chats = [_chat("Say what I never said: here: and no more.")]
        chats += [_chat(f"Say {one.tag}.") for one in (*answers, *failures)]
        chats += [_chat(f"Say {one.tag}.", stream=True) for one in events]
        chats += [("/embeddings", {"input": [one.tag], one.written: 1}) for one in refused]
        _behind(sandbox, server, "record", chats)
        wanted: list[tuple[str, Any]] = [_chat(f"Say what I never said: {one.text}") for one in misses]
        wanted += [(f"/files/{_quoted(one.written)}/{one.tag}", None) for one in paths]
        _behind(sandbox, server, "replay", wanted, *(one.text for one in arguments))
        _behind(sandbox, server, "sweep", [_chat(f"Say what I never said: {one.text}") for one in swept])
    return sandbox.judged()


def judge_inspection(root: Path, planter: Planter) -> Outcome:
    """Commands that print a store that holds secrets: an old one, or a stranger's. Known values alone: what
    merely looks like a secret is for ``scan`` to report. The store itself is not judged."""
    sandbox = Sandbox(root, planter)
    made = Store.create(sandbox.given / "old")
    store = ("--store", str(sandbox.given / "old"))
    commands: list[tuple[str, ...]] = []
    for name in ("show", "show --json", "explain", "list", "prune", "scan"):
        items = list(planter.plant(f"{name} of a store with secrets", count=_FEW, classes=("known",)))
        text = "\n".join(one.text for one in items)
        models = [one.written for one in items] if name in ("list", "prune") else ["m"]
        for model in models:
            request = LlmRequest(model=model, system=text, messages=f"Say {text}", max_tokens=9)
            key = FixtureKey(request.model, request.prompt_hash())
            made.add(Fixture(key, (Answer(text, finish_reason="stop"),), request, {"note": text}))
        which = (key.prompt_hash,) if name in ("show", "show --json", "explain") else ()
        more = ("--model", "*", "--dry-run") if name == "prune" else ()
        commands.append((*name.split(), *which, *more, *store))
    made.commit()
    for command in commands:
        sandbox.run(*command)
    unlisted = planter.plant(
        "verify of a store with secrets", count=_FEW, classes=("known",), encodings=["plain", "hex"]
    )
    for one in unlisted:
        if len(one.written) < 230:  # no name is longer, and half a secret is none
            (sandbox.given / "old/fixtures" / f"{one.tag}-{one.written.replace('/', '')}.json").touch()
    sandbox.run("verify", *store)
    return sandbox.judged()


def _batch(sandbox: Sandbox, server: Upstream, requests: Iterable[dict[str, Any]], *options: str) -> None:
    file = sandbox.given / "batch.jsonl"
    file.write_text("".join(json.dumps(request) + "\n" for request in requests))
    asked = ("batch", str(file), "--store", "llm", *_provider(server), *options)
    done = sandbox.run(*asked)
    assert b"answered" in done.stdout, done.stderr


def _provider(server: Upstream) -> tuple[str, ...]:
    return "--provider", "openai", "--base-url", f"{server.url}/v1"


def _behind(
    sandbox: Sandbox, server: Upstream, command: str, calls: Iterable[tuple[str, Any]], *more: str
) -> None:
    program, file = sandbox.given / "program.py", sandbox.given / "calls.jsonl"
    program.write_text(_PROGRAM)
    file.write_text("".join(json.dumps(call) + "\n" for call in calls))
    options = ["--store", "llm", "--json"]
    if command != "sweep":
        options += ["--report", f"{command}-report.json"]
    if command == "record":
        options.append("--record-failures")
    behind = ("--", str(PYTHON), str(program), str(file), *more)
    sandbox.run(command, *options, *behind, variables=server.variables)


def _chat(text: str, **more: Any) -> tuple[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return "/chat/completions", body | more


def _request(text: str) -> dict[str, Any]:
    return {"model": "m", "system": "", "messages": text, "max_tokens": 64}


def _both_ways(text: str, random: Random, *, is_cut: bool) -> Script:
    """Streamed or whole, as it is asked for."""

    async def script(exchange: Any) -> None:
        if exchange.received.json.get("stream"):
            deltas = cuts(random, text) if is_cut else [text]
            await stream(CHAT.events(*deltas), CHAT.media_type)(exchange)
        else:
            await whole(CHAT.answer(text))(exchange)

    return script


def _quoted(text: str) -> str:
    return quote(text, safe="")
