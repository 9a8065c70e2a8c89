"""A pytest process with the plugin: what tests ask, and what tests are called."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final

from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import stream, whole
from tests.security.campaign.plant import Planted, Planter
from tests.security.campaign.sandbox import PYTHON, Sandbox
from tests.security.campaign.tally import Outcome
from tests.security.campaign.upstream import cuts, upstream

__all__ = ["judge_plugin"]

_ANTHROPIC: Final = DIALECTS[0]
_TESTS: Final = """
import json, os
import httpx, pytest

ASKED = json.load(open({file!r}))
CLIENT = httpx.Client()

def ask(text):
    body = {{"model": "m", "max_tokens": 9, "messages": [{{"role": "user", "content": text}}]}}
    CLIENT.post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json=body)

@pytest.mark.llm_replay
@pytest.mark.parametrize("text", ASKED["texts"], ids=range(len(ASKED["texts"])))
def test_text(text):
    ask(text)

@pytest.mark.llm_replay
@pytest.mark.parametrize("tag", [tag for tag, _ in ASKED["ids"]], ids=[name for _, name in ASKED["ids"]])
def test_id(tag):
    ask("Say " + tag)
"""


def judge_plugin(root: Path, planter: Planter) -> Outcome:
    """Recorded once, with the ids of tests in ``meta``; then replayed with other questions, each a miss."""
    sandbox = Sandbox(root, planter)
    prompts = list(planter.plant("plugin: prompt"))
    answers = list(planter.plant("plugin: answer"))
    streams = list(planter.plant("plugin: stream"))
    failures = list(planter.plant("plugin: error"))
    ids = list(planter.plant("plugin: id of a test"))
    misses = list(planter.plant("plugin: miss"))
    with upstream() as server:
        for one in answers:
            server.answers[one.tag] = whole(_ANTHROPIC.answer(one.text))
        for one in streams:
            events = _ANTHROPIC.events(*cuts(Random(one.tag), one.text))
            server.answers[one.tag] = stream(events, _ANTHROPIC.media_type)
        for one in failures:
            server.answers[one.tag] = whole({"error": {"message": f"bad key {one.text}"}})
        texts = ["Nobody asked: here: and no more.", *(one.text for one in prompts)]
        texts += [f"Say {one.tag}" for one in (*answers, *streams, *failures)]
        once = ("--llm-mode", "once", "--llm-report", "recorded.json")
        _pytest(sandbox, server.variables, texts, ids, *once)
        assert {one.tag for one in (*answers, *ids)} <= server.asked
        texts = [f"Nobody asked: {one.text}" for one in misses]
        _pytest(sandbox, server.variables, texts, (), "--llm-report", "missed.json")
    return sandbox.judged()


def _pytest(
    sandbox: Sandbox, variables: dict[str, str], texts: list[str], ids: Iterable[Planted], *options: str
) -> None:
    file = sandbox.given / "asked.json"
    file.write_text(json.dumps({"texts": texts, "ids": [[one.tag, one.written] for one in ids]}))
    (sandbox.given / "test_asked.py").write_text(_TESTS.format(file=str(file)))
    (sandbox.given / "pytest.ini").write_text("[pytest]\n")
    # Quiet, and without tracebacks: these would be pytest's own words about the parameters of a test.
    quiet = ("-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--rootdir", ".")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take seconds to load
    sandbox.run(
        *("-m", "pytest", "-p", "cortex_replay.pytest_plugin", *quiet),
        *("--llm-store", "llm", *options, str(sandbox.given)),
        program=PYTHON,
        variables={**variables, **alone},
    )
