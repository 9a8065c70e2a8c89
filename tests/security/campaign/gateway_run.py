"""The gateway as a process: every kind of call, its ledger, its terminal, its logs, its store."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import httpx

from tests.adapters.dialects import DIALECTS
from tests.security.campaign.plans import OWN_KEY, PLANS, Plan, asked, route
from tests.security.campaign.plant import Class, Planted, Planter
from tests.security.campaign.sandbox import Sandbox
from tests.security.campaign.tally import Outcome
from tests.security.campaign.upstream import Upstream, upstream

__all__ = ["judge_gateway", "judge_killed_gateway", "judge_misses"]


def judge_gateway(root: Path, planter: Planter, names: Sequence[str]) -> Outcome:
    """The named plans, through one gateway that records failures, too."""
    sandbox = Sandbox(root, planter)
    calls = _calls(planter, names)
    with upstream() as server:
        learned = [one for one, _ in calls if one.path == OWN_KEY]
        variables = {**server.variables, **_withheld(learned)}
        options = ("--mode", "record", "--record-failures", "--timeout-ms", "10000")
        with sandbox.serve(*options, variables=variables) as facts:
            _send(sandbox, facts["url"], server, calls)
            _ask_ledger(sandbox, facts["url"])
    sandbox.run("list", "--store", "llm", "--json")
    sandbox.run("prune", "--store", "llm", "--model", "*", "--dry-run", "--json")
    return sandbox.judged()


def judge_killed_gateway(root: Path, planter: Planter) -> Outcome:
    """What lies about when a gateway is killed before it commits."""
    sandbox = Sandbox(root, planter)
    calls = _calls(planter, [name for name in PLANS if name.endswith((": answer", ": stream", ": SSE"))])
    calls = [(_renamed(one), plan) for one, plan in calls]
    planter.planted[:] = [one for one, _ in calls]
    with (
        upstream() as server,
        sandbox.serve("--mode", "record", variables=server.variables, stop=signal.SIGKILL) as facts,
    ):
        _send(sandbox, facts["url"], server, calls)
    assert list(sandbox.project.rglob("*.add")) or list(sandbox.project.rglob("staging/*")), "nothing staged"
    return sandbox.judged()


def judge_misses(root: Path, planter: Planter) -> Outcome:
    """A gateway that replays, and is asked for what it does not have; its answers are judged, too."""
    sandbox = Sandbox(root, planter)
    misses = [
        (one, Plan(route(dialect), asked(dialect, f"Tell me about {one.text}")))
        for dialect in DIALECTS
        for one in planter.plant(f"miss, {dialect}")
    ]
    others = ("exchange: embeddings", "exchange: path", "exchange: query", "exchange: form", "gateway: scope")
    misses += _calls(planter, others, "miss, ")
    with upstream() as server:
        with sandbox.serve("--mode", "record", variables=server.variables) as facts:
            for dialect in DIALECTS:
                httpx.post(facts["url"] + route(dialect), content=asked(dialect, "Tell me about it."))
        with sandbox.serve("--mode", "replay", variables=server.variables) as facts:
            for reply in _send(sandbox, facts["url"], server, misses):
                sandbox.say("the answer to a miss", reply.content)
            _ask_ledger(sandbox, facts["url"])
        assert not server.asked & {one.tag for one, _ in misses}
    return sandbox.judged()


def _calls(planter: Planter, names: Iterable[str], prefix: str = "") -> list[tuple[Planted, Plan]]:
    calls = []
    for name in names:
        # A key that a client brings is known by being used, and need not look like one.
        classes: tuple[Class, ...] = ("known",) if name == OWN_KEY else ("known", "pattern")
        planted = planter.plant(prefix + name, classes=classes)
        calls += [(one, PLANS[name](one, Random(one.tag))) for one in planted]
    return calls


def _renamed(one: Planted) -> Planted:
    return replace(one, path="kill -9: staged files")


def _withheld(learned: Iterable[Planted]) -> dict[str, str]:
    """Their variables, emptied."""
    return {one.variable: "" for one in learned}


def _send(
    sandbox: Sandbox, url: str, server: Upstream, calls: Iterable[tuple[Planted, Plan]]
) -> list[httpx.Response]:
    replies = []
    with httpx.Client(timeout=30, trust_env=False) as client:
        for one, plan in calls:
            if plan.answer is not None:
                server.answers[one.tag] = plan.answer
            try:
                reply = client.request(
                    plan.method, url + plan.path, content=plan.content, headers=plan.headers
                )
            except httpx.HTTPError:  # an answer that ends early is one of the things to be recorded
                continue
            replies.append(reply)
    return replies


def _ask_ledger(sandbox: Sandbox, url: str) -> None:
    for path in ("/-/ledger", "/-/health"):
        sandbox.say(path, httpx.get(url + path, trust_env=False).content)
