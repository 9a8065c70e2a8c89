"""Prompts that Gemini keeps under a name: what a call is found by that goes on from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from cortex_replay import PromptCachePlan, Store, TokenUsage
from cortex_replay.gateway import Gateway
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.store import Fixture
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.conftest import Opened

MODEL = "gemini-2.5-flash"
RULES = "The rules of the house."
PLACES = {
    "gemini": "gemini/v1beta",
    "vertex": "vertex/v1/projects/p/locations/l",
}


# Certificates take long to load, and there are none here.
CLIENT = httpx.Client(
    trust_env=False, verify=False, timeout=60, limits=httpx.Limits(max_keepalive_connections=0)
)


def ask(gateway: Gateway, method: str, path: str, body: Any = None) -> Any:
    answer = CLIENT.request(method, f"{gateway.url()}/{path}", json=body)
    return answer.json() | {"status": answer.status_code}


def keep(gateway: Gateway, text: str = RULES, place: str = "gemini", **fields: Any) -> str:
    """Have a prompt kept; its name."""
    contents = [{"role": "user", "parts": [{"text": text}]}]
    body = {"model": f"models/{MODEL}", "contents": contents, "ttl": "3600s", **fields}
    name = ask(gateway, "POST", f"{PLACES[place]}/cachedContents", body)["name"]
    assert isinstance(name, str)
    return name


def go_on(
    gateway: Gateway, name: str, question: str = "And pets?", place: str = "gemini", **fields: Any
) -> str:
    """Ask on from a kept prompt; the answer, or the status of a failure."""
    folder = "publishers/google/models" if place == "vertex" else "models"
    contents = [{"role": "user", "parts": [{"text": question}]}]
    body = {"contents": contents, "cachedContent": name, **fields}
    answer = ask(gateway, "POST", f"{PLACES[place]}/{folder}/{MODEL}:generateContent", body)
    if answer["status"] != 200:
        return f"status {answer['status']}"
    return str(answer["candidates"][0]["content"]["parts"][0]["text"])


def requests_in(tmp_path: Path) -> list[Any]:
    return [fixture.request for fixture in fixtures_in(tmp_path)]


def fixtures_in(tmp_path: Path) -> list[Fixture]:
    store = Store.open(tmp_path / "store")
    return [store.get(found.model, found.prompt_hash) for found in store.list()]


@pytest.mark.parametrize("place", PLACES)
def test_it_is_replayed_and_the_key_has_what_is_kept(
    place: str, opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    """The request is what the model reads: the kept prompt, then the question. The name is nowhere in it."""
    system = {"parts": [{"text": "Be brief."}]}
    with opened("record", provider.url) as gateway:
        name = keep(gateway, place=place, systemInstruction=system)
        answer = go_on(gateway, name, place=place)
    (request,) = requests_in(tmp_path)
    with opened() as gateway:
        assert keep(gateway, place=place, systemInstruction=system) == name
        again = go_on(gateway, name, place=place)

    assert again == answer == f"You said: And pets? (Be brief. {RULES})"
    assert request.system == "Be brief."
    assert [message.content for message in request.messages] == [RULES, "And pets?"]
    assert request.extra == {}


def test_a_recording_says_how_much_of_its_prompt_was_kept(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    """Nothing, where the prompt was sent because the name was of another day."""
    with opened("record", provider.url) as gateway:
        go_on(gateway, keep(gateway))
    with opened("once", provider.url) as gateway:
        go_on(gateway, keep(gateway), "And cats?")
    pets, cats = sorted(fixtures_in(tmp_path), key=lambda fixture: "cats" in str(fixture.request))

    assert (pets.meta or {})["cache"] == {"kept": 1}
    assert pets.answers[0].usage == TokenUsage(2011, 5, cached_tokens=2000)
    assert pets.request is not None
    assert restore_breakpoints(pets.request, pets.meta).cache == PromptCachePlan(kept_messages=1)
    assert "cache" not in (cats.meta or {})


def test_two_prompts_are_two_questions(opened: Opened, provider: FakeProvider, tmp_path: Path) -> None:
    with opened("record", provider.url) as gateway:
        names = [keep(gateway, text) for text in ("No pets.", "Pets are fine.")]
        answers = [go_on(gateway, name) for name in names]
    with opened() as gateway:
        again = [go_on(gateway, keep(gateway, text)) for text in ("No pets.", "Pets are fine.")]
        miss = go_on(gateway, keep(gateway, "No pets."), "And cats?")

    assert again == answers
    assert answers[0] != answers[1]
    assert miss == "status 424"
    assert len(requests_in(tmp_path)) == 2


def test_values_that_change_are_bound_in_what_is_kept(opened: Opened, provider: FakeProvider) -> None:
    """The session is another one each time, as in any prompt; the answer has that of today."""
    with opened("record", provider.url) as gateway:
        go_on(gateway, keep(gateway, f"Session {uuid4()}."))
    today = f"Session {uuid4()}."
    with opened() as gateway:
        assert go_on(gateway, keep(gateway, today)) == f"You said: And pets? ({today})"


def test_recording_it_again_changes_no_key(opened: Opened, provider: FakeProvider, tmp_path: Path) -> None:
    """The provider gives the same prompt another name."""
    names, requests = [], []
    for _ in range(2):
        with opened("record", provider.url) as gateway:
            names.append(keep(gateway))
            go_on(gateway, names[-1])
        requests.append(requests_in(tmp_path))

    assert names[0] != names[1]
    assert requests[0] == requests[1]
    assert len(requests[0]) == 1


def test_a_new_question_does_not_need_the_name_of_then(opened: Opened, provider: FakeProvider) -> None:
    """What was kept when it was recorded is gone by now: the provider gets the prompt itself."""
    with opened("record", provider.url) as gateway:
        go_on(gateway, keep(gateway))
    provider.kept.clear()
    with opened("once", provider.url) as gateway:
        name = keep(gateway)
        assert go_on(gateway, name, "And cats?") == "You said: And cats?"

    sent = provider.received[-1].json
    assert "cachedContent" not in sent
    assert [content["parts"][0]["text"] for content in sent["contents"]] == [RULES, "And cats?"]


def test_while_it_is_kept_the_provider_gets_the_name(opened: Opened, provider: FakeProvider) -> None:
    with opened("record", provider.url) as gateway:
        name = keep(gateway)
        go_on(gateway, name)

    sent = provider.received[-1].json
    assert (sent["cachedContent"], len(sent["contents"])) == (name, 1)


def test_one_that_another_test_had_kept_is_known_from_the_store(
    opened: Opened, provider: FakeProvider
) -> None:
    """A client that lists what is kept never sends the prompt."""
    with opened("record", provider.url) as gateway:
        keep(gateway)
        listed = ask(gateway, "GET", "gemini/v1beta/cachedContents")["cachedContents"][0]["name"]
        answer = go_on(gateway, listed)
    with opened() as gateway:
        listed = ask(gateway, "GET", "gemini/v1beta/cachedContents")["cachedContents"][0]["name"]
        assert go_on(gateway, listed) == answer


def test_a_name_that_nobody_knows_is_a_part_of_the_question(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    """It is found again, also by one who knows by now what is kept; as are recordings of older versions."""
    provider.kept["cachedContents/of-others"] = {"contents": []}
    with opened("record", provider.url) as gateway:
        answer = go_on(gateway, "cachedContents/of-others")
    (request,) = requests_in(tmp_path)
    with opened() as gateway:
        assert go_on(gateway, "cachedContents/of-others") == answer
        assert go_on(gateway, "cachedContents/another") == "status 424"

    assert request.extra == {"cachedContent": "cachedContents/of-others"}


def test_a_recording_by_name_is_found_by_one_who_knows_the_prompt(
    opened: Opened, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("cortex_replay.engine.kept_prompts.KeptPrompts.find", lambda *_: None)
        with opened("record", provider.url) as gateway:
            answer = go_on(gateway, keep(gateway))
    with opened() as gateway:
        assert go_on(gateway, keep(gateway)) == answer


def test_what_the_provider_refuses_is_not_joined(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    """A call that goes on from a kept prompt may bring no system text of its own."""
    with opened("record", provider.url) as gateway:
        name = keep(gateway)
        go_on(gateway, name, systemInstruction={"parts": [{"text": "Rhyme."}]})
    (request,) = requests_in(tmp_path)

    assert (request.system, request.extra) == ("Rhyme.", {"cachedContent": name})


def test_all_its_calls_are_replayed(opened: Opened, provider: FakeProvider) -> None:
    """Read, listed, kept for longer, and dropped."""

    def all_calls(gateway: Gateway) -> list[Any]:
        path = f"gemini/v1beta/{keep(gateway)}"
        return [
            ask(gateway, "GET", path),
            ask(gateway, "PATCH", path, {"ttl": "7200s"}),
            ask(gateway, "GET", "gemini/v1beta/cachedContents"),
            ask(gateway, "DELETE", path),
        ]

    with opened("record", provider.url) as gateway:
        live = all_calls(gateway)
    asked = len(provider.received)
    with opened(upstream=provider.url) as gateway:
        again = all_calls(gateway)

    assert again == live
    assert [answer["status"] for answer in live] == [200] * 4
    assert len(provider.received) == asked
