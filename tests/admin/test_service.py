"""Completions for callers who hold no key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cortex_replay import errors
from cortex_replay.adapters import LlmAdapter
from cortex_replay.admin import AdminError, Code, LlmCompleteInput, LlmCompleteResponse, LlmUsage
from cortex_replay.admin.callers import Caller
from cortex_replay.admin.service import LlmService, request_of
from cortex_replay.admin.values import METHOD
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.engine.replay import ReplayAdapter
from cortex_replay.errors import InvalidRequest, NoFixture
from cortex_replay.testing import EchoAdapter, ScriptedAdapter
from cortex_replay.types import TokenUsage
from cortex_replay.wire import WIRES
from tests.admin.conftest import GRANTED, SETTINGS, Noting, call, service_of
from tests.property.strategies import effort, texts
from tests.waiting import until


def ask(service: LlmService, caller: Caller = GRANTED, **changes: Any) -> LlmCompleteResponse:
    return asyncio.run(service.complete(LlmCompleteInput.from_dict(call(**changes)), caller))


def test_an_answer() -> None:
    """Its text, the model that answered, and a total that is derived."""
    output = ask(service_of(Noting(TokenUsage(3, 4))))

    assert output == LlmCompleteResponse("Hi.", "m-1-served", LlmUsage(3, 4, 7))
    assert ask(service_of(Noting())).usage == LlmUsage(0, 0, 0)


def test_what_is_asked() -> None:
    """System texts where they belong, and the time that the settings allow."""
    adapter = Noting()
    messages = [
        {"role": "system", "content": "B"},
        {"role": "system", "content": ""},
        {"role": "system", "content": "C"},
        {"role": "user", "content": "1"},
        {"role": "system", "content": "D"},
        {"role": "assistant", "content": "2"},
    ]
    ask(service_of(adapter), system_prompt="A", messages=messages, temperature=0.7, max_tokens=9)
    (request,) = adapter.asked

    assert request.system == "A\n\nB\n\nC"
    assert [(m.role.value, m.content) for m in request.messages] == [
        ("user", "1"),
        ("system", "D"),
        ("assistant", "2"),
    ]
    assert (request.model, request.temperature, request.max_tokens) == ("m-1", 0.7, 9)
    assert request.timeout_ms == SETTINGS.timeout_ms == 5000


turns = st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), texts), min_size=1, max_size=4)


@effort(150)
@given(texts, turns, st.none() | st.floats(0, 2), st.integers(1, 2**32 - 1))
def test_the_key_is_that_of_the_same_conversation_on_any_wire(
    system: str, said: list[tuple[str, str]], temperature: float | None, max_tokens: int
) -> None:
    """As OpenAI's and Anthropic's SDKs would send it, and Ollama's."""
    messages = [{"role": role, "content": content} for role, content in said]
    given_ = LlmCompleteInput("mine", "m", messages, max_tokens, temperature, system)
    key = request_of(given_, 1000).prompt_hash()
    first = [{"role": "system", "content": system}]
    body = {"model": "m", "max_tokens": max_tokens, "temperature": temperature}
    options = {"num_predict": max_tokens, "temperature": temperature}

    assert key == WIRES["openai-chat"].lift(body | {"messages": first + messages}).prompt_hash()
    assert (
        key == WIRES["anthropic-messages"].lift(body | {"system": system, "messages": messages}).prompt_hash()
    )
    blocks = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    cached = body | {"system": blocks, "messages": messages}
    assert key == WIRES["anthropic-messages"].lift(cached).prompt_hash()
    ollama = {"model": "m", "messages": first + messages, "options": options}
    assert key == WIRES["ollama-chat"].lift(ollama).prompt_hash()


def test_a_recording_answers(builder: Any) -> None:
    """Of the same question, asked by another road; and one that is not recorded is a miss."""
    from tests.builder import ask as asked  # noqa: PLC0415

    request = asked("What is one?")
    settings = Settings()
    service = LlmService(settings, lambda _: ReplayAdapter(builder.root))
    messages = [{"role": m.role.value, "content": m.content} for m in request.messages]
    same: dict[str, Any] = {
        "provider": "claude",
        "model": request.model,
        "messages": messages,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "system_prompt": request.system,
    }

    assert ask(service, **same).content == "One."
    with pytest.raises(NoFixture):
        ask(service, **(same | {"temperature": 1.5}))


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"provider": "mina"}, "provider", "there is no such provider; did you mean mine?"),
        ({"model": "m-3"}, "model", "not configured for it; did you mean m-2?"),
        ({"model": "gpt"}, "model", "not configured for it; there are m-1, m-2"),
        ({"provider": "echo", "model": ""}, "model", "is empty"),
        ({"provider": " "}, "provider", "is empty"),
        ({"messages": []}, "messages", "cannot be empty when system_prompt is also missing"),
        ({"messages": [], "system_prompt": ""}, "messages", "cannot be empty"),
        (
            {"messages": [{"role": "users", "content": ""}]},
            "messages[0].role",
            "must be one of system|user|assistant, got `users`",
        ),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].role", "got `tool`"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"temperature": 2.0000002}, "temperature", "must be in [0, 2]"),
        ({"temperature": -1}, "temperature", "must be in [0, 2]"),
    ],
)
def test_what_cannot_be_asked(changes: dict[str, Any], field: str, reason: str) -> None:
    """Is refused before anybody is, and costs no call."""
    adapter = Noting()
    service = service_of(adapter)
    caller = Caller("ci", frozenset(["llm_complete"]), max_calls=1)
    with pytest.raises(InvalidRequest) as caught:
        ask(service, caller, **changes)

    assert caught.value.field == field
    assert reason in caught.value.reason
    assert adapter.asked == []
    assert ask(service, caller).content == "Hi."


@pytest.mark.parametrize("temperature", [0, 2, 2.00000001, 1e-9])
def test_temperatures_that_can_be_asked(temperature: float) -> None:
    """The ends count, and what is an end as a 32-bit float."""
    ask(service_of(Noting()), temperature=temperature)


def test_claude_gets_a_limit_where_a_call_names_none() -> None:
    """The reference's; nobody else needs one, and so nobody else gets it."""
    adapter = Noting()
    service = service_of(adapter)

    ask(service, provider="claude", model="claude-x")
    ask(service, provider="claude", model="claude-x", max_tokens=None)
    ask(service, provider="claude", model="claude-x", max_tokens=7)
    ask(service)

    assert [request.max_tokens for request in adapter.asked] == [4096, 4096, 7, None]


def test_a_system_prompt_alone_can_be_asked() -> None:
    adapter = Noting()
    ask(service_of(adapter), messages=[], system_prompt="Say hello.")

    assert (adapter.asked[0].system, adapter.asked[0].messages) == ("Say hello.", ())


def test_any_model_of_a_provider_without_a_list() -> None:
    assert ask(service_of(Noting()), provider="echo", model="whatever").model == "whatever-served"


def test_without_the_grant_nothing_is_asked() -> None:
    """Nor is anything said about what there is."""
    adapter = Noting()
    for changes in ({}, {"provider": "nobody"}):
        with pytest.raises(AdminError, match="permission_denied") as caught:
            ask(service_of(adapter), Caller("nobody"), **changes)
        assert caught.value.code == Code.PERMISSION_DENIED
        assert caught.value.data == {"capability": "llm_complete"}

    assert adapter.asked == []


WRONG: dict[str, Any] = {
    "nothing": None,
    "a list": ["mine", "m-1"],
    "no parameters": {},
    "no such provider": call(provider="nobody"),
    "no such model": call(model="m-9"),
    "no model": call(model=...),
    "a number for a name": call(provider=7),
    "no messages": call(messages=[]),
    "a message that is none": call(messages=["Hello!"]),
    "no such role": call(messages=[{"role": "judge", "content": "x"}]),
    "too hot": call(temperature=9),
    "no tokens": call(max_tokens=0),
    "good ones": call(),
}


@pytest.mark.parametrize("name", WRONG)
def test_without_the_grant_all_parameters_are_answered_alike(name: str) -> None:
    """Whoever may do nothing learns nothing: neither what is wrong, nor what there is."""
    adapter = Noting()
    method = service_of(adapter).methods[METHOD]

    for caller in (Caller("nobody"), Caller("ci", max_calls=1)):
        with pytest.raises(AdminError) as caught:
            asyncio.run(method(WRONG[name], caller))  # type: ignore[arg-type]
        assert caught.value.code == Code.PERMISSION_DENIED
        assert caught.value.data == {"capability": "llm_complete"}

    assert adapter.asked == []


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("system", "system_prompt"),
        ("messages[1].content", "messages[3].content"),
        ("messages", "messages"),
        ("model", "model"),
        ("timeout_ms", "params"),
    ],
)
def test_what_an_adapter_refuses(given_: str, expected: str) -> None:
    """Is named as the caller wrote it; two of the messages became the system text."""
    system = {"role": "system", "content": "x"}
    user = {"role": "user", "content": "x"}
    with pytest.raises(InvalidRequest) as caught:
        ask(service_of(Noting(error=InvalidRequest(given_, "is odd"))), messages=[system, system, user, user])

    assert (caught.value.field, caught.value.reason) == (expected, "is odd")


def test_a_provider_that_is_not_set_up(caplog: pytest.LogCaptureFixture) -> None:
    """The reason is for whoever runs the server, and it is looked for anew each time."""
    said: list[str] = []

    def answer(name: str) -> LlmAdapter:
        said.append(name)
        raise InvalidRequest("api_key", "there is none; set MY_PRIVATE_VARIABLE")

    service = LlmService(SETTINGS, answer)
    for _ in range(2):
        with pytest.raises(InvalidRequest) as caught:
            ask(service)
        assert caught.value.field == "provider"
        assert "MY_PRIVATE_VARIABLE" not in str(caught.value)

    assert said == ["mine", "mine"]
    assert "MY_PRIVATE_VARIABLE" in caplog.text


def test_one_adapter_for_each_provider() -> None:
    """Made when it is wanted, and closed with the service."""
    made: dict[str, Noting] = {}

    def answer(name: str) -> LlmAdapter:
        return made.setdefault(name, Noting())

    service = LlmService(SETTINGS, answer)
    for _ in range(3):
        ask(service)
    ask(service, provider="echo")

    assert {name: len(one.asked) for name, one in made.items()} == {"mine": 3, "echo": 1}
    asyncio.run(service.aclose())
    assert [one.closed for one in made.values()] == [1, 1]


def test_an_adapter_for_all_is_closed_once() -> None:
    adapter = Noting()
    service = service_of(adapter)
    ask(service)
    ask(service, provider="echo")
    asyncio.run(service.aclose())

    assert adapter.closed == 1


async def _many(service: LlmService, caller: Caller, count: int, **changes: Any) -> list[Any]:
    given_ = LlmCompleteInput.from_dict(call(**changes))
    calls = (service.complete(given_, caller) for _ in range(count))
    return await asyncio.gather(*calls, return_exceptions=True)


def refusals(outcomes: list[Any]) -> list[AdminError]:
    assert all(isinstance(one, LlmCompleteResponse | AdminError) for one in outcomes)
    return [one for one in outcomes if isinstance(one, AdminError)]


def test_a_limit_on_calls_holds_under_twenty_at_once() -> None:
    """Seven are made, and not an eighth, then or later."""
    adapter = Noting(delay_s=0.01)
    service = service_of(adapter)
    caller = Caller("ci", frozenset(["llm_complete"]), max_calls=7)
    refused = refusals(asyncio.run(_many(service, caller, 20)))

    assert (len(refused), len(adapter.asked)) == (13, 7)
    assert {(one.code, one.data["limit"]) for one in refused if one.data} == {(Code.RATE_LIMITED, "calls")}
    with pytest.raises(AdminError, match="the 7 calls of this caller"):
        ask(service, caller)
    other = Caller("other", frozenset(["llm_complete"]), max_calls=7)
    assert ask(service, other).content == "Hi."


def test_a_limit_on_tokens_holds_under_twenty_at_once() -> None:
    """A call may cost 100 and more by its own limit, and costs 50: as many as fit, never too many."""
    adapter = Noting(TokenUsage(10, 40), delay_s=0.005)
    service = service_of(adapter)
    caller = Caller("ci", frozenset(["llm_complete"]), max_tokens=500)
    refused = refusals(asyncio.run(_many(service, caller, 20, max_tokens=100)))
    spent = 50 * len(adapter.asked)

    assert 300 <= spent <= 500
    assert len(refused) == 20 - len(adapter.asked)
    assert adapter.most_at_once <= 4  # what is under way counts at its most
    assert all("a smaller max_tokens may fit" in one.message for one in refused)


def test_calls_that_only_wait_for_others_are_made() -> None:
    """All twenty fit, but not all at their most at once."""
    adapter = Noting(TokenUsage(1, 1), delay_s=0.001)
    caller = Caller("ci", frozenset(["llm_complete"]), max_tokens=500)
    outcomes = asyncio.run(_many(service_of(adapter), caller, 20, max_tokens=100))

    assert refusals(outcomes) == []
    assert len(adapter.asked) == 20


@pytest.mark.parametrize(
    ("error", "is_free"),
    [
        (errors.Upstream(500), True),
        (errors.NoFixture("m", "ab"), True),
        (InvalidRequest("model", "is odd"), True),
        (errors.Timeout(1), False),
        (errors.Transport("gone"), False),
    ],
)
def test_what_a_failure_costs(error: Exception, is_free: bool) -> None:
    """Nothing where nobody answered; else it may have cost all that was set aside."""
    service = service_of(Noting(error=error))
    caller = Caller("ci", frozenset(["llm_complete"]), max_tokens=250)
    outcomes = [asyncio.run(_many(service, caller, 1, max_tokens=100))[0] for _ in range(5)]
    refused = [one for one in outcomes if isinstance(one, AdminError)]

    assert (refused == []) is is_free


def test_an_answer_of_unknown_cost() -> None:
    """Counts as what was set aside; and no tokens at all means no call at all."""
    service = service_of(Noting())
    caller = Caller("ci", frozenset(["llm_complete"]), max_tokens=250)
    ask(service, caller, max_tokens=150)
    with pytest.raises(AdminError, match="the 250 tokens of this caller"):
        ask(service, caller, max_tokens=150)
    with pytest.raises(AdminError, match="the 0 tokens"):
        ask(service, Caller("none", frozenset(["llm_complete"]), max_tokens=0))
    with pytest.raises(AdminError, match="a smaller max_tokens"):
        ask(service, Caller("some", frozenset(["llm_complete"]), max_tokens=5000))


def test_a_caller_who_leaves_gives_back_what_was_set_aside() -> None:
    """And pays for it, since the provider may."""
    adapter = Noting(TokenUsage(1, 1), delay_s=0.05)
    service = service_of(adapter)
    caller = Caller("ci", frozenset(["llm_complete"]), max_tokens=400)

    async def scenario() -> LlmCompleteResponse:
        given_ = LlmCompleteInput.from_dict(call(max_tokens=100))
        task = asyncio.ensure_future(service.complete(given_, caller))
        await until(lambda: adapter.asked)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await service.complete(given_, caller)

    assert asyncio.run(scenario()).content == "Hi."


def test_the_adapters_of_tests_answer_too(tmp_path: Path) -> None:
    """Each by its provider's name."""
    adapters: dict[str, LlmAdapter] = {"echo": EchoAdapter(), "scripted": ScriptedAdapter(lambda _: "So.")}
    settings = Settings(providers={"other": ProviderSettings(kind="echo")})
    service = LlmService(settings, adapters.__getitem__)

    assert ask(service, provider="echo").content == "Hello!"
    assert ask(service, provider="scripted").content == "So."
    with pytest.raises(InvalidRequest) as caught:
        ask(service, provider="echo", messages=[{"role": "system", "content": "x"}])
    assert caught.value.field == "messages"
