"""Prompts that a provider keeps: what a call that names one is about, as far as anybody can know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.engine import kept_prompts
from cortex_replay.engine.kept_prompts import KeptPrompt, KeptPrompts
from cortex_replay.wire.gemini.kept import JoinedPrompt, join_kept, keeps_prompt, kept_name

PATH = "/v1beta/cachedContents"
BODY = {"model": "models/m", "contents": [{"role": "user", "parts": [{"text": "Long."}]}]}


def asked(**fields: Any) -> dict[str, Any]:
    return {"upstream": "gemini", "method": "POST", "path": PATH, "body": BODY, **fields}


def answered(name: str, status: int = 200) -> dict[str, Any]:
    return {"status": status, "body": f'{{"name": "{name}"}}'}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_a_prompt_is_known_by_the_name_that_its_provider_gave_it(store: Store) -> None:
    prompts = KeptPrompts()
    prompts.learn(asked(), answered("cachedContents/1"), is_there=True)

    assert prompts.find("gemini", "cachedContents/1", store, "") == KeptPrompt(BODY, is_there=True)
    assert prompts.find("gemini", "cachedContents/2", store, "") is None
    assert prompts.find("other", "cachedContents/1", store, "") is None


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (asked(method="GET"), answered("n")),
        (asked(path="/v1beta/models/m:generateContent"), answered("n")),
        (asked(body=None), answered("n")),
        (asked(), answered("n", 500)),
        (asked(), {"status": 200, "body": "no JSON"}),
        (asked(), {"status": 200, "body": "[]"}),
        (asked(), {"status": 200, "body": '{"name": 7}'}),
        (asked(), {"status": 200, "body": None}),
    ],
)
def test_nothing_else_is_taken_for_a_prompt(
    store: Store, call: dict[str, Any], answer: dict[str, Any]
) -> None:
    prompts = KeptPrompts()
    prompts.learn(call, answer, is_there=True)

    assert prompts.find("gemini", "n", store, "") is None


def test_what_a_provider_has_said_counts_for_more_than_a_recording(store: Store) -> None:
    prompts = KeptPrompts()
    prompts.learn(asked(), answered("n"), is_there=True)
    prompts.learn(asked(body={"contents": []}), answered("n"), is_there=False)

    assert prompts.find("gemini", "n", store, "") == KeptPrompt(BODY, is_there=True)


def test_the_oldest_are_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_prompts, "_MOST", 2)
    prompts = KeptPrompts()
    for name in "abc":
        prompts.learn(asked(), answered(name), is_there=True)

    assert [prompts.find("gemini", name, store, "") is not None for name in "abc"] == [False, True, True]


@pytest.mark.parametrize(
    ("method", "path", "keeps"),
    [
        ("POST", PATH, True),
        ("POST", f"{PATH}/", True),
        ("POST", f"{PATH}/1", False),
        ("GET", PATH, False),
        ("POST", None, False),
    ],
)
def test_which_calls_have_a_prompt_kept(method: str, path: str | None, keeps: bool) -> None:
    assert keeps_prompt(method, path) == keeps


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"cachedContent": "a"}, "a"),
        ({"cached_content": "a"}, "a"),
        ({"cachedContent": ""}, None),
        ({"cachedContent": 1}, None),
        ([], None),
    ],
)
def test_the_name_that_a_body_goes_on_from(body: Any, name: str | None) -> None:
    assert kept_name(body) == name


SYSTEM = {"parts": [{"text": "Be brief."}]}
NEXT = [{"role": "user", "parts": [{"text": "And?"}]}]


def test_a_model_reads_the_kept_prompt_first() -> None:
    kept = {**BODY, "system_instruction": SYSTEM}
    body = {"cached_content": "a", "contents": NEXT, "generationConfig": {"topK": 1}}

    joined = join_kept(kept, body)

    contents = [*BODY["contents"], *NEXT]
    whole = {"contents": contents, "generationConfig": {"topK": 1}, "systemInstruction": SYSTEM}
    assert joined == JoinedPrompt(whole, 1)


@pytest.mark.parametrize(
    ("kept", "body"),
    [
        (BODY, {"cachedContent": "a", "contents": NEXT, "systemInstruction": SYSTEM}),
        (BODY, {"cachedContent": "a", "contents": NEXT, "tools": [{"googleSearch": {}}]}),
        (BODY, {"cachedContent": "a", "contents": "text"}),
        ({"contents": 7}, {"cachedContent": "a", "contents": NEXT}),
    ],
)
def test_what_the_api_would_refuse_is_not_joined(kept: dict[str, Any], body: dict[str, Any]) -> None:
    assert join_kept(kept, body) is None
