"""Secrets that are planted in everything that is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import vcr
from vcr.request import Request

from integration.proof.figures import Row, Scale, Tell
from integration.proof.vcr_cassettes import VCRPY
from tests.redact.kinds import KINDS
from tests.security.campaign.clean_run import false_hits
from tests.security.campaign.groups import GROUPS, judge_group
from tests.security.campaign.judge import Judge
from tests.security.campaign.plant import Planted, Planter
from tests.security.campaign.tally import Outcome

__all__ = ["prove"]

_LEAKED: Final = "leaked"
_FALSE: Final = "taken for secrets"
_URL: Final = "https://llm.invalid/v1/chat/completions"
_FILTERS: Final[dict[str, Any]] = {
    "filter_headers": ["authorization", "x-api-key", "api-key", "cookie"],
    "filter_query_parameters": ["key", "api_key", "token"],
    "filter_post_data_parameters": ["key", "api_key", "token", "password"],
}


def prove(scale: Scale, tell: Tell) -> list[Row]:
    names = list(GROUPS)[: scale.pick(2, len(GROUPS), len(GROUPS))]
    clean = scale.pick(300, 3000, 10_000)
    total = len(names) + 2
    outcomes = []
    for number, name in enumerate(names):
        with TemporaryDirectory() as folder:
            outcomes.append(judge_group(name, Path(folder)))
        tell(number + 1, total)
    hits = len(false_hits(clean))
    tell(total - 1, total)
    theirs = _vcrpy()
    tell(total, total)
    return [
        *(_row(f"{class_}", class_, "cortex-replay", outcomes) for class_ in ("known", "pattern")),
        Row("clean", "cortex-replay", "texts without secrets", clean, {_FALSE: hits}),
        *(_row(f"vcrpy-{class_}", class_, VCRPY, [theirs]) for class_ in ("known", "pattern")),
    ]


def _row(name: str, class_: str, who: str, outcomes: Iterable[Outcome]) -> Row:
    what = {"known": "values of the user's own environment", "pattern": "secrets that a pattern knows"}[
        class_
    ]
    found: Counter[str] = Counter()
    for outcome in outcomes:
        leaked = {leak.planted.tag for leak in outcome.leaks}
        for one in outcome.planted:
            if one.class_ == class_:
                is_kept = one.tag in outcome.kept
                found[_LEAKED if one.tag in leaked else "cut out" if is_kept else "refused"] += 1
    return Row(name, who, what, found.total(), {one: found[one] for one in ("cut out", "refused", _LEAKED)})


def _vcrpy() -> Outcome:
    """Headers, queries, prompts and answers with secrets, recorded with the filters of its documentation."""
    planter = Planter("proof/vcrpy", len(KINDS))
    places = ("header", "query", "prompt", "answer")
    planted = [one for place in places for one in planter.plant(place, kinds=list(KINDS))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cassette.yaml"
        with vcr.VCR(**_FILTERS).use_cassette(str(path)) as cassette:
            for one in planted:
                cassette.append(*_call(one))
        written = path.read_bytes()
    kept = frozenset(one.tag for one in planted if one.tag.encode() in written)
    return Outcome(planted, kept, Judge(planted).leaks([("cassette", written)]))


def _call(one: Planted) -> tuple[Request, dict[str, Any]]:
    text = " ".join(one.text.split())
    headers = {"authorization": f"Bearer {text}" if one.path == "header" else "Bearer x"}
    query = f"?key={text}" if one.path == "query" else ""
    prompt = one.text if one.path == "prompt" else f"{one.tag} asks"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
    answer = one.text if one.path == "answer" else "Yes."
    reply = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}]})
    response = {
        "status": {"code": 200, "message": "OK"},
        "headers": {"content-type": ["application/json"]},
        "body": {"string": reply.encode()},
    }
    return Request("POST", _URL + query, body, headers), response
