"""Cassettes of vcrpy, taken over: YAML and JSON, completions and exchanges, with the keys in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

import yaml  # type: ignore[import-untyped]

from tests.adapters.dialects import DIALECTS
from tests.cassettes.conftest import interaction, said
from tests.security.campaign.plans import asked
from tests.security.campaign.plant import Planted, Planter
from tests.security.campaign.sandbox import Sandbox
from tests.security.campaign.tally import Outcome
from tests.security.campaign.upstream import cuts

__all__ = ["judge_import"]

Interaction = Callable[[Planted, Random], dict[str, Any]]
_ANTHROPIC: Final = DIALECTS[0]
_OPENAI: Final = "https://api.openai.com/v1"


def _question(one: Planted) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": one.tag}]}


def _prompt(one: Planted, _: Random) -> dict[str, Any]:
    return interaction(json.loads(asked(_ANTHROPIC, one.text)))


def _answer(one: Planted, _: Random) -> dict[str, Any]:
    return interaction(_question(one), said(one.text))


def _stream(one: Planted, random: Random) -> dict[str, Any]:
    events = b"".join(_ANTHROPIC.events(*cuts(random, one.text))).decode()
    question = {**_question(one), "stream": True}
    return interaction(question, events, headers={"content-type": ["text/event-stream"]})


def _key_header(one: Planted, random: Random) -> dict[str, Any]:
    """The key that the cassette was made with, which the answer repeats."""
    name = random.choice(["x-api-key", "authorization"])
    value = one.value if name == "x-api-key" else f"Bearer {one.value}"
    answer = said(f"{one.tag}: your key is {one.written}")
    return interaction(_question(one), answer, asked_headers={name: [value]})


def _response_header(one: Planted, _: Random) -> dict[str, Any]:
    headers = {"content-type": ["application/json"], "request-id": [one.written]}
    return interaction(_question(one), said(one.tag), headers=headers)


def _failure(one: Planted, _: Random) -> dict[str, Any]:
    error = {"type": "error", "error": {"type": "authentication_error", "message": f"bad key {one.text}"}}
    return interaction(_question(one), error, status=400)


def _error_with_200(one: Planted, _: Random) -> dict[str, Any]:
    return interaction(_question(one), {"error": {"message": f"bad key {one.text}"}})


def _list(one: Planted, random: Random) -> dict[str, Any]:
    body = {"model": "e", "input": [one.tag, *cuts(random, one.written)]}
    return interaction(body, {"data": []}, uri=f"{_OPENAI}/embeddings")


def _object_name(one: Planted, _: Random) -> dict[str, Any]:
    return interaction({"input": one.tag, one.written: 1}, {"data": []}, uri=f"{_OPENAI}/embeddings")


def _path(one: Planted, _: Random) -> dict[str, Any]:
    uri = f"{_OPENAI}/files/{quote(one.written, safe='')}/{one.tag}"
    return interaction(None, {"data": []}, method="GET", uri=uri)


def _query(one: Planted, _: Random) -> dict[str, Any]:
    uri = f"{_OPENAI}/files?{urlencode({'after': one.tag, 'cursor': one.written})}"
    return interaction(None, {"data": []}, method="GET", uri=uri)


def _events(one: Planted, random: Random) -> dict[str, Any]:
    events = "".join(f"data: {json.dumps({'delta': piece})}\n\n" for piece in cuts(random, one.text))
    headers = {"content-type": ["text/event-stream"]}
    return interaction({"input": one.tag}, events, uri=f"{_OPENAI}/audio/speech", headers=headers)


def _unknown_host(one: Planted, _: Random) -> dict[str, Any]:
    """What is not converted is listed: with a reason, and without a secret."""
    uri = f"https://{one.tag}.invalid/{quote(one.written, safe='')}"
    return interaction(None, {"data": one.tag}, method="GET", uri=uri)


_PLANS: Final[dict[str, Interaction]] = {
    "import: prompt": _prompt,
    "import: answer": _answer,
    "import: stream": _stream,
    "import: the key of the cassette": _key_header,
    "import: response header": _response_header,
    "import: failure": _failure,
    "import: 200 with an error": _error_with_200,
    "import: list of strings": _list,
    "import: object name": _object_name,
    "import: path": _path,
    "import: query": _query,
    "import: events": _events,
    "import: not converted": _unknown_host,
}


def judge_import(root: Path, planter: Planter) -> Outcome:
    """One cassette for each secret, so that no answer depends on another; every second one is JSON."""
    sandbox = Sandbox(root, planter)
    for name, plan in _PLANS.items():
        for one in planter.plant(name):
            folder = sandbox.given / ("told" if int(one.tag[-2:]) % 3 else "in-json")
            folder.mkdir(exist_ok=True)
            document = {"version": 1, "interactions": [plan(one, Random(one.tag))]}
            if int(one.tag[-1]) % 2:
                (folder / f"{one.tag}.json").write_text(json.dumps(document))
            else:
                (folder / f"{one.tag}.yaml").write_text(yaml.dump(document))
    usual = ("import", "--store", "llm", "--record-failures")
    sandbox.run(*usual, str(sandbox.given / "told"))
    sandbox.run(*usual, "--all", "--json", str(sandbox.given / "in-json"))
    return sandbox.judged()
