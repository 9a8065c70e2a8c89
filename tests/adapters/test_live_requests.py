"""What a live adapter sends, and what it refuses to send."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from cortex_replay import (
    ClaudeAdapter,
    InvalidRequest,
    LlmMessage,
    LlmRequest,
    LlmResponse,
    OllamaAdapter,
    OpenAICompatAdapter,
    PromptCachePlan,
    ResponseParse,
    Timeout,
    ToolCall,
    Upstream,
)
from cortex_replay.adapters.live import LiveAdapter
from tests.adapters.calling import complete, run
from tests.adapters.dialects import CANARY, DIALECTS, DIGEST, Dialect, ask
from tests.adapters.fake_provider import Exchange, serving_in_thread, stream, whole

CLAUDE, CHAT, RESPONSES, OLLAMA = DIALECTS
dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
PINNED = f"llama3.1:8b@sha256:{DIGEST}"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CORTEX_CLAUDE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_claude_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the argument, else from our own variable, else from Anthropic's; an empty one is none."""
    with pytest.raises(InvalidRequest, match="CORTEX_CLAUDE_API_KEY or ANTHROPIC_API_KEY"):
        ClaudeAdapter()
    for empty in ("", "  ", "\n"):
        with pytest.raises(InvalidRequest, match="api_key"):
            ClaudeAdapter(empty)
        monkeypatch.setenv("ANTHROPIC_API_KEY", empty)
        with pytest.raises(InvalidRequest, match="api_key"):
            ClaudeAdapter()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "second")
    assert _key_sent() == "second"
    monkeypatch.setenv("CORTEX_CLAUDE_API_KEY", "first\n")
    assert _key_sent() == "first"
    monkeypatch.setenv("CORTEX_CLAUDE_API_KEY", "")
    assert _key_sent() == "second"


def _key_sent() -> str:
    with serving_in_thread(whole(CLAUDE.answer())) as provider:
        ClaudeAdapter(base_url=provider.url).sync.complete(ask())
        return provider.received[0].headers["x-api-key"]


@pytest.mark.parametrize("key", ["a b", "käse", "a\nb", "a\x00b", "a\x7fb"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    """The client would quote it in its own error."""
    for make in (ClaudeAdapter, lambda k: OpenAICompatAdapter("http://localhost", k)):
        with pytest.raises(InvalidRequest) as caught:
            make(key)
        assert key not in str(caught.value)


def test_the_headers_of_claude() -> None:
    _, provider = run(CLAUDE, complete, whole(CLAUDE.answer()))
    headers = provider.received[0].headers
    assert headers["anthropic-version"] == "2023-06-01"
    assert headers["x-api-key"] == CANARY
    assert "anthropic-beta" not in headers
    assert provider.received[0].path == "/v1/messages"

    _, provider = run(CLAUDE, complete, whole(CLAUDE.answer()), version="2026-10-21", betas=("a", "b"))
    headers = provider.received[0].headers
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2026-10-21", "a,b")


def test_the_key_of_an_openai_compatible_server_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    """And OpenAI's own is never sent to somebody else's server unasked."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with serving_in_thread(whole(CHAT.answer())) as provider:
        OpenAICompatAdapter(provider.url).sync.complete(ask())
        assert "authorization" not in provider.received[0].headers
        assert provider.received[0].path == "/chat/completions"
        OpenAICompatAdapter(provider.url + "/v1/", "key").sync.complete(ask())
        assert provider.received[1].headers["authorization"] == "Bearer key"
        assert provider.received[1].path == "/v1/chat/completions"


@pytest.mark.parametrize("model", ["claude-3-5-sonnet-latest", "claude-LATEST"])
def test_a_model_without_a_fixed_name_is_refused(model: str) -> None:
    outcome, provider = run(CLAUDE, complete, whole(CLAUDE.answer()), request=ask(model=model))
    assert isinstance(outcome, InvalidRequest)
    assert outcome.field == "model"
    assert provider.received == []

    request = ask(model=model)
    outcome, _ = run(CLAUDE, complete, whole(CLAUDE.answer()), request=request, allow_latest=True)
    assert outcome.text == "Hello."


def test_claude_needs_a_limit() -> None:
    outcome, _ = run(CLAUDE, complete, whole(CLAUDE.answer()), request=ask(max_tokens=None))

    assert isinstance(outcome, InvalidRequest)
    assert outcome.field == "max_tokens"


CANNOT_CARRY: list[tuple[Dialect, str, dict[str, Any]]] = [
    (CLAUDE, "seed", {"seed": 1}),
    (RESPONSES, "seed", {"seed": 1}),
    (RESPONSES, "stop", {"stop": ["x"]}),
    (RESPONSES, "top_k", {"top_k": 1}),
    (OLLAMA, "tool_choice", {"tool_choice": "required"}),
    (CHAT, "extra.stream", {"extra": {"stream": True}}),
    (CHAT, "temperature", {"temperature": None, "extra": {"temperature": 1}}),
    (CHAT, "tool_choice", {"tool_choice": "auto"}),
    (
        CHAT,
        "tools[0]",
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
    ),
    (
        CHAT,
        "messages[1].tool_call_id",
        {"messages": [{"role": "user", "content": "q"}, {"role": "tool", "content": "r"}]},
    ),
    (
        CHAT,
        "messages[0].parts",
        {
            "messages": [
                {"role": "user", "content": "q", "parts": [{"type": "image", "url": "https://example.com"}]}
            ]
        },
    ),
    (
        CLAUDE,
        "messages[0].parts[0]",
        {"messages": [{"role": "user", "content": "", "parts": [{"type": "image", "blake3": "0" * 64}]}]},
    ),
]


@pytest.mark.parametrize(
    ("dialect", "field", "fields"), CANNOT_CARRY, ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_a_wire_cannot_carry_is_refused_by_name(
    dialect: Dialect, field: str, fields: dict[str, Any]
) -> None:
    """Nothing is dropped in silence, and nothing is sent under another key than the request's."""
    outcome, provider = run(dialect, complete, whole(dialect.answer()), request=ask(**fields))

    assert isinstance(outcome, InvalidRequest), outcome
    assert outcome.field.startswith(field), outcome
    assert provider.received == []


def test_several_answers_at_once_are_refused() -> None:
    outcome, _ = run(CHAT, complete, whole(CHAT.answer()), request=ask(extra={"n": 2}))

    assert isinstance(outcome, InvalidRequest)


def test_the_name_of_the_limit_follows_the_server() -> None:
    """OpenAI's newer models take one name, and most other servers the other."""
    _, provider = run(CHAT, complete, whole(CHAT.answer()))
    assert provider.received[0].json["max_tokens"] == 50
    _, provider = run(CHAT, complete, whole(CHAT.answer()), max_tokens_field="max_completion_tokens")
    assert provider.received[0].json["max_completion_tokens"] == 50

    own = OpenAICompatAdapter(api_key="k")._wire.lower(ask())
    assert own["max_completion_tokens"] == 50
    with pytest.raises(InvalidRequest, match="api"):
        OpenAICompatAdapter("http://localhost", api="completions")  # type: ignore[arg-type]


def tags(digest: str = DIGEST, name: str = "llama3.1:8b") -> dict[str, Any]:
    return {"models": [{"name": "other:1", "digest": "b" * 64}, {"name": name, "digest": digest}]}


def test_a_pinned_model_is_compared_once_and_sent_without_its_digest() -> None:
    async def script(exchange: Exchange) -> None:
        body = tags() if exchange.received.path == "/api/tags" else OLLAMA.answer()
        await whole(body)(exchange)

    with serving_in_thread(script) as provider:
        ollama = OllamaAdapter(provider.url)
        for _ in range(2):
            ollama.sync.complete(ask(model=PINNED))

    assert [(r.method, r.path) for r in provider.received] == [
        ("GET", "/api/tags"),
        ("POST", "/api/chat"),
        ("POST", "/api/chat"),
    ]
    assert provider.received[1].json["model"] == "llama3.1:8b"
    assert provider.received[1].json["stream"] is False


WRONG_TAGS: dict[str, Any] = {
    "another digest": tags("c" * 64),
    "not there": tags(name="llama3.1:70b"),
    "none": {"models": None},
}


@pytest.mark.parametrize("name", WRONG_TAGS)
def test_a_model_that_is_not_the_pinned_one_is_not_asked(name: str) -> None:
    with serving_in_thread(whole(WRONG_TAGS[name])) as provider:
        with pytest.raises(InvalidRequest, match="model") as caught:
            OllamaAdapter(provider.url).sync.complete(ask(model=PINNED))
        assert len(provider.received) == 1
    if name == "another digest":
        assert "c" * 64 in caught.value.reason
        assert DIGEST in caught.value.reason


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"models": 5}', b'{"models": [{"name": 5}]}'])
def test_a_list_of_models_that_is_none(body: bytes) -> None:
    with serving_in_thread(whole(body)) as provider, pytest.raises(ResponseParse):
        OllamaAdapter(provider.url).sync.complete(ask(model=PINNED))
    with serving_in_thread(whole(b"", 404)) as provider, pytest.raises(Upstream):
        OllamaAdapter(provider.url).sync.complete(ask(model=PINNED))


@pytest.mark.parametrize(
    "model",
    [
        "llama3.1:8b",
        "llama3.1",
        f"llama3.1@sha256:{DIGEST}",
        "llama3.1:8b@sha256:abc",
        f"llama3.1:8b@sha256:{DIGEST.upper()}",
        f"llama3.1:8b@md5:{DIGEST}",
        f"llama3.1:8b@sha256:{DIGEST}x",
        f"@sha256:{DIGEST}",
        "",
    ],
)
def test_a_model_that_is_not_pinned_is_refused(model: str) -> None:
    with pytest.raises(InvalidRequest, match="sha256"):
        OllamaAdapter("http://127.0.0.1:1").sync.complete(ask(model=model))


@pytest.mark.parametrize("name", ["registry.example.com:5000/team/m:1", "team/m:latest", "hf.co/a/b:Q4_K_M"])
def test_names_that_can_be_pinned(name: str) -> None:
    with serving_in_thread(whole(tags(name=name)), whole(OLLAMA.answer())) as provider:
        OllamaAdapter(provider.url).sync.complete(ask(model=f"{name}@sha256:{DIGEST}"))
        assert provider.received[1].json["model"] == name


def _cached(plan: PromptCachePlan, turns: int = 2) -> Any:
    messages = [
        LlmMessage("user" if i % 2 == 0 else "assistant", f"turn {i}", id=f"m{i}") for i in range(turns)
    ]
    request = LlmRequest(
        "m", "Be brief.", messages, 0.5, 50, tools=[{"name": "f", "input_schema": {}}], cache=plan
    )
    _, provider = run(CLAUDE, complete, whole(CLAUDE.answer()), request=request)
    body = provider.received[0].json
    assert CLAUDE.wire.lift(body).prompt_hash() == request.prompt_hash(), "markers are not part of the key"
    return body


def test_cache_markers_stand_where_the_plan_says() -> None:
    body = _cached(
        PromptCachePlan(cache_tools=True, cache_system=True, breakpoint_message_ids=("m0",), ttl="1h")
    )

    marker = {"type": "ephemeral", "ttl": "1h"}
    assert body["tools"][-1]["cache_control"] == marker
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": marker}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "turn 0", "cache_control": marker}]
    assert body["messages"][1]["content"] == "turn 1"
    assert "cache_control" not in str(_cached(PromptCachePlan()))


def test_no_more_markers_than_the_provider_takes() -> None:
    """The last ones are kept: each caches everything before it."""
    ids = tuple(f"m{i}" for i in range(6))

    body = _cached(PromptCachePlan(cache_tools=True, cache_system=True, breakpoint_message_ids=ids), turns=6)

    assert str(body).count("cache_control") == 4
    assert [isinstance(message["content"], list) for message in body["messages"]] == [False] * 2 + [True] * 4


def test_a_plan_for_a_message_that_is_not_there_is_refused() -> None:
    request = LlmRequest("m", "", "q", 0.5, 50, cache=PromptCachePlan(breakpoint_message_ids=("nobody",)))

    outcome, _ = run(CLAUDE, complete, whole(CLAUDE.answer()), request=request)

    assert isinstance(outcome, InvalidRequest)


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, OLLAMA], ids=str)
def test_a_plan_does_not_disturb_providers_without_markers(dialect: Dialect) -> None:
    message = LlmMessage("user", "q", id="m0")
    plan = PromptCachePlan(cache_system=True, breakpoint_message_ids=("m0",))
    request = LlmRequest("m", "s", [message], 0.5, 50, cache=plan)

    _, provider = run(dialect, complete, whole(dialect.answer()), request=request)

    assert "cache" not in str(provider.received[0].json)


@dialects
def test_a_wrong_level_is_refused_when_the_adapter_is_made(dialect: Dialect) -> None:
    with pytest.raises(InvalidRequest, match="max_sensitivity"):
        dialect.adapter("http://127.0.0.1:1", max_sensitivity="none")


@dialects
def test_a_log_tells_the_host_and_nothing_that_was_said(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="cortex_replay")
    refusal = whole(dialect.error(500, "busy"), 500, retry_after_ms="1")

    run(dialect, complete, refusal, whole(dialect.answer()), request=ask("PROMPT"), max_retries=1)

    assert "127.0.0.1 failed" in caplog.text
    assert "PROMPT" not in caplog.text


def test_a_proxy_does_not_stand_between_this_machine_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    outcome, _ = run(OLLAMA, complete, whole(OLLAMA.answer()))

    assert outcome.text == "Hello."


def test_one_adapter_serves_several_event_loops() -> None:
    """A script that calls ``asyncio.run`` twice, and the synchronous face in between."""
    with serving_in_thread(whole(CLAUDE.answer())) as provider:
        adapter = CLAUDE.adapter(provider.url)
        for _ in range(2):
            assert asyncio.run(adapter.complete(ask())).text == "Hello."
            assert adapter.sync.complete(ask()).text == "Hello."
        adapter.sync.close()


@pytest.mark.filterwarnings("ignore:asynchronous generator")
def test_a_loop_that_goes_on_behind_its_end_is_served() -> None:
    """Frameworks with a synchronous face keep a loop, and close its generators behind each call."""
    loop = asyncio.new_event_loop()
    with serving_in_thread(whole(CLAUDE.answer())) as provider:
        adapter = CLAUDE.adapter(provider.url)
        for _ in range(2):
            assert loop.run_until_complete(adapter.complete(ask())).text == "Hello."
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(adapter.aclose())
    loop.close()


@dialects
def test_cookies_are_not_kept(dialect: Dialect) -> None:
    """A call must not depend on the calls before it."""

    async def twice(adapter: LiveAdapter, request: LlmRequest) -> None:
        await adapter.complete(request)
        await adapter.complete(request)

    _, provider = run(dialect, twice, whole(dialect.answer(), set_cookie="session=1; Path=/"))

    assert "cookie" not in provider.received[1].headers


@dialects
def test_what_no_model_sees_can_be_sent_beside_the_request(dialect: Dialect) -> None:
    """And is no part of its key; what a model may see is refused there."""
    beside = {"metadata": {"user_id": "u"}, "store": False}
    _, provider = run(dialect, complete, whole(dialect.answer()), also_send=beside)
    assert provider.received[0].json.items() >= beside.items()

    for name in ("temperature", "stream", "tools"):
        with pytest.raises(InvalidRequest, match=f"also_send.{name}"):
            dialect.adapter("http://127.0.0.1:1", also_send={name: 1})


def test_a_call_beside_text_is_not_held_against_the_schema() -> None:
    answer = CLAUDE.answer("Let me look.", tool_calls=(ToolCall(id="c", name="f", arguments={}),))

    outcome, _ = run(CLAUDE, complete, whole(answer), request=ask(json_schema={"type": "object"}))

    assert (outcome.text, outcome.parsed_json) == ("Let me look.", None)


def test_a_model_that_is_passed_on_to_another_machine_is_refused() -> None:
    models = {"models": [{"name": "llama3.1:8b", "digest": DIGEST, "remote_host": "https://example.com"}]}
    with serving_in_thread(whole(models), whole(OLLAMA.answer())) as provider:
        with pytest.raises(InvalidRequest, match="passed on"):
            OllamaAdapter(provider.url).sync.complete(ask(model=PINNED))
        provider.received.clear()
        OllamaAdapter(provider.url, allow_remote=True).sync.complete(ask(model=PINNED))


@pytest.mark.parametrize("url", ["http://xn--0", "http://[::1", "http://h\x00", 5, None])
def test_a_url_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(InvalidRequest, match="base_url"):
        OpenAICompatAdapter(url)


def test_a_path_in_the_base_url_is_kept_as_it_is() -> None:
    with serving_in_thread(whole(CHAT.answer())) as provider:
        OpenAICompatAdapter(provider.url + "/a%2Fb/v1").sync.complete(ask())
        assert provider.received[0].path == "/a%2Fb/v1/chat/completions"


def _canary() -> str:
    return "sk-canary" + chr(45) + "4f1d"  # a traceback shows the source too


def test_a_constructor_that_fails_shows_no_key() -> None:
    """In no frame of ours; the caller's own is the caller's."""
    makes: list[Callable[[], object]] = [
        lambda: ClaudeAdapter(_canary(), base_url="ftp://x"),
        lambda: ClaudeAdapter(_canary(), max_sensitivity="x"),  # type: ignore[arg-type]
        lambda: ClaudeAdapter(_canary() + "\u200b"),
        lambda: ClaudeAdapter(_canary(), version="ü"),
        lambda: OpenAICompatAdapter("ftp://x", _canary()),
        lambda: OpenAICompatAdapter("http://x", _canary(), api="x"),  # type: ignore[arg-type]
    ]
    for make in makes:
        with pytest.raises(InvalidRequest) as caught:
            make()
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        assert _canary() not in "".join(shown.format())


def test_a_key_that_a_limit_would_cut_is_cut_out_first() -> None:
    long = whole({"error": {"message": "x" * 1990 + CANARY}}, 400)

    outcome, _ = run(CLAUDE, complete, long)

    assert isinstance(outcome, Upstream)
    assert CANARY[:6] not in outcome.message
    assert len(outcome.message) <= 2000


def test_many_calls_at_once_keep_to_their_deadline() -> None:
    async def many(adapter: LiveAdapter, request: LlmRequest) -> int:
        answers = await asyncio.gather(
            *(adapter.complete(request) for _ in range(300)), return_exceptions=True
        )
        return sum(isinstance(answer, LlmResponse) for answer in answers)

    outcome, _ = run(CLAUDE, many, whole(CLAUDE.answer()), request=ask(timeout_ms=20_000))

    assert outcome == 300


@pytest.mark.parametrize(
    "value", ["-1", "nan", "inf", "1e400", "soon", "Wed, 21 Oct 2015 07:28:00 +99999999999999999999", ""]
)
def test_a_wait_that_makes_no_sense_is_ours_to_choose(value: str) -> None:
    refusal = whole(CLAUDE.error(429, "later"), 429, retry_after=value)

    outcome, provider = run(CLAUDE, complete, refusal, whole(CLAUDE.answer()), max_retries=1)

    assert outcome.text == "Hello."
    assert len(provider.received) == 2


def test_a_compressed_answer_that_is_cut_or_goes_on_is_refused() -> None:
    packed = gzip.compress(json.dumps(CLAUDE.answer()).encode())
    for broken in (packed[:-9], packed + packed):
        outcome, _ = run(CLAUDE, complete, whole(broken, content_encoding="gzip"))
        assert isinstance(outcome, ResponseParse)


def test_a_deadline_that_passes_while_the_reader_waits_has_passed() -> None:
    events = b"".join(CLAUDE.events("a", "b"))

    async def slowly(adapter: LiveAdapter, request: LlmRequest) -> None:
        async for _ in adapter.stream(request):
            await asyncio.sleep(0.2)

    outcome, _ = run(CLAUDE, slowly, stream([events]), request=ask(timeout_ms=100))

    assert isinstance(outcome, Timeout)
