"""A test that holds what a prompt costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

import pytest

from cortex_replay import Answer, LlmMessage, LlmRequest, PromptCachePlan, TokenUsage
from cortex_replay.canonical import JsonValue
from cortex_replay.config import Price
from cortex_replay.engine.money import PriceList
from cortex_replay.prompt import CacheCostExceeded, CacheMissed, PrefixChanged, PromptBlock, to_request
from cortex_replay.pytest_plugin.recording import LlmRecording
from cortex_replay.redact.redactor import Redactor
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread
from tests.pytest_plugin.conftest import run_in_process

SUITE = """
import os
import httpx, pytest

POLICY = "Refunds take five days."
CATALOGUE = "Umbrella, 12 EUR. " * 300

def ask(question, number):
    cached = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": POLICY}, {"type": "text", "text": CATALOGUE, **cached}]
    messages = [{"role": "user", "content": question}]
    body = {"model": "claude-opus-5", "max_tokens": 9, "system": system, "messages": messages}
    base = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    key = {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
    return httpx.post(base + "/v1/messages", json=body, headers=key)

@pytest.mark.llm_replay
def test_it(request, llm_recording):
    for number, question in enumerate(["Where is it?", "When?", "Why?"]):
        ask(question, number)
    assert llm_recording.is_replay == (request.config.getoption("llm_mode") is None)
    assert all("asked_at" in call.answer.meta for call in llm_recording.calls if call.is_answered)
    llm_recording.assert_cache(reads_at_least=0.8)
    llm_recording.assert_cache_cost(at_most=2100, unit="tokens")
    llm_recording.assert_cache_cost(at_most=0.0105)
"""
PRICES = 'currency = "USD"\n[prices]\n"claude-opus-5" = { input = 5, output = 25 }\n'


async def answer(exchange: Exchange) -> None:
    """A provider whose every token has four bytes, and whose cache has never read anything."""
    body = exchange.received.json
    size = sum(len(block["text"]) for block in body["system"]) // 4 + 10
    usage = {
        "input_tokens": 10,
        "output_tokens": 2,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": size - 10,
    }
    content = [{"type": "text", "text": "Soon."}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "usage": usage}
    await exchange.whole(json.dumps({**message, "model": body["model"], "stop_reason": "end_turn"}).encode())


@pytest.fixture
def shop(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A project with a suite and prices, before a provider."""
    (project.path / "cortex-replay.toml").write_text(PRICES)
    project.makepyfile(test_shop=SUITE)
    monkeypatch.delenv("CI", raising=False)
    with serving_in_thread(answer) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-of-the-shop")
        yield provider


KEY = "sk-ant-api03-" + "x1Y2" * 20
CLOCK = ('"text": POLICY}', '"text": f"{POLICY} It is 09:15:0{number}.\\n' + KEY + '"}')


def test_a_change_that_makes_the_prompt_dearer_fails_and_names_the_block(
    project: pytest.Pytester, shop: FakeProvider
) -> None:
    """Somebody puts the time into the first block."""
    run_in_process(project, "--llm-mode", "once").assert_outcomes(passed=1)
    project.makepyfile(test_shop=SUITE.replace(*CLOCK))

    missed = run_in_process(project)
    recorded = run_in_process(project, "--llm-mode", "once", "--llm-keep-failed")
    replayed = run_in_process(project)

    assert len(shop.received) == 6
    for done in (missed, recorded, replayed):
        done.assert_outcomes(failed=1)
        assert KEY not in "\n".join(line for line in done.outlines if line.startswith("E "))
        done.stdout.fnmatch_lines(
            [
                "*CacheMissed: the prompt cache reads 0% of these prompts; expected at least 80%",
                "*system block 1 changed (2 calls): * were paid again, which costs * input*",
                "*-Refunds take five days. It is 09:15:00.",
                "*+Refunds take five days. It is 09:15:01.",
                "*What changed looks like a time.",
                "*Move system block 1 behind everything that is cached: it changed 2 times. That saves *",
            ]
        )
    counted = (
        "*call 2 of 1,393 tokens: 0 read, 1,383 written, 10 fresh; the provider reported 0 read, 1,383 *"
    )
    recorded.stdout.fnmatch_lines([counted])
    replayed.stdout.fnmatch_lines([counted])
    # The prompt was edited and not recorded: the assertion does not hide the explanation of the miss.
    missed.stdout.fnmatch_lines(
        [
            "*3 calls were not answered, of 3: nothing is recorded for such a prompt.*",
            "*cortex-replay: nothing is recorded for claude-opus-5*",
            "*It is 09:15:00*",
        ]
    )


def call(recording: LlmRecording, question: str, asked_at: str | None = None, run: str = "r") -> None:
    """A call of a test that Claude answered: 2,000 tokens that are cached, and 10 that are not."""
    meta = {} if asked_at is None else {"asked_at": asked_at, "run": run}
    read = 2000 if recording.calls else 0
    request = LlmRequest(
        "claude-opus-5",
        "x" * 8000,
        [LlmMessage("user", question)],
        cache=PromptCachePlan(cache_system=True),
    )
    usage = TokenUsage(2010, 2, read, 2000 - read)
    recording.observe(lambda: request, Answer("Soon.", usage=usage, meta=dict(meta)))


def test_calls_come_at_the_times_at_which_they_were_recorded() -> None:
    """Six minutes after the first, nothing is left of it."""
    recording = LlmRecording()
    call(recording, "Where?", "2026-11-16T09:00:00.000Z")
    call(recording, "When?", "2026-11-16T09:06:00.000Z")

    with pytest.raises(CacheMissed, match="the cache entry up to system text had expired") as caught:
        recording.assert_cache(reads_at_least=0.5)

    assert (caught.value.share, caught.value.why) == (0, "ttl")


@pytest.mark.parametrize("times", [(None, None), ("2026-11-16T09:00:00.000Z", "2026-11-18T09:00:00.000Z")])
def test_answers_of_several_runs_or_without_a_time_come_in_their_order(
    times: tuple[str | None, str | None],
) -> None:
    """One of them was recorded again two days later, which says nothing about how the test asks."""
    recording = LlmRecording()
    call(recording, "Where?", times[0], "monday")
    call(recording, "When?", times[1], "wednesday")

    recording.assert_cache(reads_at_least=0.99)
    with pytest.raises(CacheMissed, match=r"reads 99.5% of these prompts; expected at least 99.9%"):
        recording.assert_cache(reads_at_least=0.999)


def test_what_cannot_be_said_is_refused_with_what_to_do() -> None:
    recording = LlmRecording()
    with pytest.raises(ValueError, match="has asked no model yet"):
        recording.assert_cache_cost(at_most=1, unit="tokens")
    call(recording, "Where?")
    with pytest.raises(ValueError, match="a cache needs two calls to read anything"):
        recording.assert_cache(reads_at_least=0.5)
    with pytest.raises(ValueError, match=r"no price is configured for claude-opus-5\..*unit=\"tokens\""):
        recording.assert_cache_cost(at_most=1)
    with pytest.raises(ValueError, match="unit is 'money' or 'tokens', not 'EUR'"):
        recording.assert_cache_cost(at_most=1, unit="EUR")  # type: ignore[arg-type]
    request = LlmRequest("my-own-model", messages="Hi.")
    recording.observe(lambda: request, Answer("Hello."))
    with pytest.raises(ValueError, match="how my-own-model is cached is not known"):
        recording.assert_cache_cost(at_most=1, unit="tokens")


def test_a_call_that_goes_on_from_a_response_has_its_whole_prompt() -> None:
    """It sends two words, and is counted with the rest."""
    recording = LlmRecording()
    meta: dict[str, JsonValue] = {"wire": "openai-responses", "provider": "openai"}
    rows = [("Why? " * 2000, None, TokenUsage(2600, 2, 0)), ("And so?", "resp_0", TokenUsage(2650, 2, 2560))]
    for i, (text, before, usage) in enumerate(rows):
        extra: dict[str, JsonValue] = {} if before is None else {"previous_response_id": before}
        request = LlmRequest("gpt-5.1", messages=text, extra=extra)
        said = Answer("So.", usage=usage, meta=meta, wire={"body": f'{{"id": "resp_{i}"}}'})
        recording.observe(lambda asked=request: asked, said)  # type: ignore[misc]

    recording.assert_cache(reads_at_least=2560 / 2650)

    request = LlmRequest("gpt-5.1", messages="Hi.", extra={"previous_response_id": "resp_of_yesterday"})
    recording.observe(lambda: request, said)
    with pytest.raises(ValueError, match="goes on from a response of no earlier call"):
        recording.assert_cache(reads_at_least=0.5)


def test_a_cost_is_exact_at_its_limit() -> None:
    """2,000 tokens are written and then read, 10 are fresh each time."""
    recording = LlmRecording()
    call(recording, "Where?")
    call(recording, "When?")

    recording.assert_cache_cost(at_most=2720, unit="tokens")
    with pytest.raises(CacheCostExceeded, match=r"cost 2,720 input tokens, more than 2719.9\n"):
        recording.assert_cache_cost(at_most=2719.9, unit="tokens")


def test_with_prices_a_cost_is_in_money() -> None:
    """What is not given follows from the price of input, by the provider's factors."""
    recording = LlmRecording(prices=PriceList({"claude-opus-5": Price(5, 25)}, "USD"))
    call(recording, "Where?")
    call(recording, "When?")

    recording.assert_cache_cost(at_most=Decimal("0.0136"))
    with pytest.raises(
        CacheCostExceeded, match=r"these prompts cost 0\.0136 USD, more than 0\.01\n"
    ) as caught:
        recording.assert_cache_cost(at_most=0.01)

    assert caught.value.cost.value == Fraction("0.0136")


def test_a_call_that_failed_while_it_was_recorded_costs_nothing() -> None:
    recording = LlmRecording(is_replay=False)
    call(recording, "Where?")
    request = recording.requests[0]
    recording.observe(lambda: request, None)
    call(recording, "When?")

    recording.assert_cache_cost(at_most=2720, unit="tokens")


def test_an_assertion_quotes_no_secret_and_steers_no_terminal() -> None:
    """Not even the piece of a secret that differs."""
    redactor = Redactor()
    secrets = [f"{'q9Zr' * 30}{end}" for end in ("tail-one", "tail-two")]
    redactor.learn(*secrets)
    recording = LlmRecording(clean=lambda text: redactor.text(text)[0])
    for number, secret in enumerate(secrets):
        request = to_request(
            [PromptBlock.cached_short("\x1b[2J##[error]", f"{secret} \x1b[31m{number} {'x' * 9000}")],
            wire="anthropic-messages",
            model="claude-opus-5",
            messages="Where?",
        )
        recording.observe(partial(replace, request), Answer("Soon.", usage=TokenUsage(2400, 2, 0, 2390)))

    with pytest.raises(CacheMissed) as missed:
        recording.assert_cache(reads_at_least=0.5)
    with pytest.raises(CacheCostExceeded) as exceeded:
        recording.assert_cache_cost(at_most=1, unit="tokens")
    with pytest.raises(PrefixChanged) as changed:
        recording.assert_prefix_stable()

    for said in (str(missed.value), str(exceeded.value), str(changed.value)):
        assert "changed" in said
        assert "[31m1 xxx" in said
        assert "\x1b" not in said
        assert "##[" not in said
        assert "q9Zr" not in said
        assert "tail" not in said


@pytest.mark.usefixtures("shop")
def test_the_plugin_redacts_what_an_assertion_says(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the value of the fixture, which pytest shows beside it."""
    secret = ('"text": POLICY}', '"text": f"{os.environ[\'SHOP_API_KEY\']}: {number}"}')
    project.makepyfile(test_shop=SUITE.replace(*secret))
    monkeypatch.setenv("SHOP_API_KEY", "Zq8vN3xK2mB7tR5wY1cD9f")
    done = run_in_process(project, "--llm-mode", "once")

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*CacheMissed: the prompt cache reads 0%*", "*REDACTED*: 1"])
    assert "Zq8vN3xK2mB7tR5wY1cD9f" not in done.stdout.str()
