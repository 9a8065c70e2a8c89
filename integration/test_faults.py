"""What live adapters make of servers and networks that fail: one of our errors, in time, or the answer."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import pytest

from cortex_replay import (
    ClaudeAdapter,
    LlmAdapter,
    LlmError,
    LlmRequest,
    LlmResponse,
    OllamaAdapter,
    OpenAICompatAdapter,
    ResponseParse,
    StreamChunk,
    Timeout,
    Transport,
    Upstream,
)
from integration.mocks import Aimock, Llmock, start_aimock, start_llmock
from integration.toxiproxy import Proxy, Stream, Toxic, Toxiproxy, start_toxiproxy
from tests.adapters.conformance import HELLO, QUESTIONS
from tests.servers.tiny_model import MODEL

How = Literal["whole", "streamed"]

KEY: Final = "sk-not-a-real-key"
SAID: Final = "One two three four five six seven eight."

ADAPTERS: Final[Mapping[str, Callable[..., LlmAdapter]]] = {
    "claude": lambda url, **options: ClaudeAdapter(KEY, base_url=url, **options),
    "chat": lambda url, **options: OpenAICompatAdapter(f"{url}/v1", KEY, **options),
    "responses": lambda url, **options: OpenAICompatAdapter(f"{url}/v1", KEY, api="responses", **options),
    "ollama": lambda url, **options: OllamaAdapter(url, allow_unpinned=True, **options),
}
THREE: Final = ("claude", "chat", "responses")

each_way = pytest.mark.parametrize("how", ["whole", "streamed"])
each_of_three = pytest.mark.parametrize("api", THREE)
each_of_four = pytest.mark.parametrize("api", ADAPTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended."""

    answer: LlmResponse | None
    error: LlmError | None
    said: str
    """What a stream gave before it ended."""
    seconds: float


async def called(adapter: LlmAdapter, request: LlmRequest, how: How) -> Outcome:
    """Make a call; an error that is none of ours is not caught here, and fails the test."""
    start = time.monotonic()
    answer, error, chunks = None, None, list[StreamChunk]()
    try:
        if how == "whole":
            answer = await adapter.complete(request)
        else:
            async for chunk in adapter.stream(request):
                chunks.append(chunk)
            answer = chunks[-1].response
    except LlmError as caught:
        error = caught
    if error is not None:
        # What stands behind an error may hold the request, and with it the key.
        assert (error.__cause__, error.__context__) == (None, None)
        assert KEY not in repr(error)
    said = "".join(chunk.delta for chunk in chunks)
    return Outcome(answer=answer, error=error, said=said, seconds=time.monotonic() - start)


def call(adapter: LlmAdapter, request: LlmRequest, how: How) -> Outcome:
    async def run() -> Outcome:
        async with adapter:
            return await called(adapter, request, how)

    return asyncio.run(run())


def ask(content: str = "Say hello.", timeout_ms: int = 10_000, max_tokens: int = 64) -> LlmRequest:
    return LlmRequest(MODEL, messages=content, temperature=0.0, max_tokens=max_tokens, timeout_ms=timeout_ms)


def answered(outcome: Outcome, text: str) -> bool:
    return outcome.error is None and outcome.answer is not None and outcome.answer.text == text


# --- Servers that answer with errors, or with half an answer -----------------------------------------------


@pytest.fixture(scope="module")
def llmock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llmock]:
    with start_llmock(tmp_path_factory.mktemp("llmock")) as server:
        yield server


@pytest.fixture
def llmock(llmock_server: Llmock) -> Llmock:
    """Says the same to everybody, until it is told to fail."""
    llmock_server.reset()
    llmock_server.script({"type": "reply", "text": SAID, "times": None})
    return llmock_server


def before_llmock(llmock: Llmock, api: str, **options: Any) -> LlmAdapter:
    return ADAPTERS[api](f"{llmock.url}/anthropic" if api == "claude" else llmock.url, **options)


@each_of_three
@pytest.mark.parametrize("after", [0, 1, 4, 6])
@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
def test_a_stream_that_is_cut_is_transport(llmock: Llmock, api: str, kind: str, after: int) -> None:
    """Whether the connection breaks or ends as if all were well; what came before was given."""
    llmock.script({"type": "stream_fault", "kind": kind, "after_chunks": after})
    outcome = call(before_llmock(llmock, api), ask(), "streamed")

    assert isinstance(outcome.error, Transport)
    assert SAID.startswith(outcome.said)
    assert len(outcome.said) < len(SAID)


@each_of_three
@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_event_that_is_no_json_is_a_parse_error(llmock: Llmock, api: str, after: int) -> None:
    llmock.script({"type": "stream_fault", "kind": "malformed", "after_chunks": after})
    outcome = call(before_llmock(llmock, api), ask(), "streamed")

    assert isinstance(outcome.error, ResponseParse)


@each_of_three
@pytest.mark.parametrize("after", [0, 4])
def test_a_stream_that_stalls_ends_with_the_budget(llmock: Llmock, api: str, after: int) -> None:
    llmock.script({"type": "stream_fault", "kind": "stall", "after_chunks": after, "stall_seconds": 5})
    outcome = call(before_llmock(llmock, api), ask(timeout_ms=400), "streamed")

    assert isinstance(outcome.error, Timeout)
    assert outcome.error.timeout_ms == 400
    assert 0.35 < outcome.seconds < 2


@each_way
@each_of_three
def test_an_answer_that_does_not_come_ends_with_the_budget(llmock: Llmock, api: str, how: How) -> None:
    llmock.script({"type": "delay", "seconds": 5})
    outcome = call(before_llmock(llmock, api), ask(timeout_ms=400), how)

    assert isinstance(outcome.error, Timeout)
    assert 0.35 < outcome.seconds < 2


@each_way
@each_of_three
def test_a_server_that_asks_to_wait_is_asked_again(llmock: Llmock, api: str, how: How) -> None:
    """Twice, when it said so, and then it answers."""
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.2, "times": 2})
    outcome = call(before_llmock(llmock, api), ask(), how)

    assert answered(outcome, SAID)
    assert 0.4 <= outcome.seconds < 3


@each_way
@each_of_three
def test_a_wait_beyond_the_budget_is_not_begun(llmock: Llmock, api: str, how: How) -> None:
    """The error comes at once; there is only one, so a second call would be answered."""
    llmock.script({"type": "fail", "status": 429, "retry_after": 20})
    outcome = call(before_llmock(llmock, api), ask(timeout_ms=5000), how)

    assert isinstance(outcome.error, Upstream)
    assert (outcome.error.status, outcome.error.error_type) == (429, "rate_limit_error")
    assert outcome.seconds < 2


@each_way
@each_of_three
def test_a_server_that_always_asks_to_wait_is_not_asked_for_ever(llmock: Llmock, api: str, how: How) -> None:
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.05, "times": 3})
    adapter = before_llmock(llmock, api)

    async def run() -> tuple[Outcome, Outcome]:
        async with adapter:
            return await called(adapter, ask(), how), await called(adapter, ask(), how)

    first, second = asyncio.run(run())

    assert isinstance(first.error, Upstream)
    assert first.error.status == 429
    assert answered(second, SAID)  # so exactly three were used up


@each_way
@each_of_three
@pytest.mark.parametrize("status", [500, 503, 529])
def test_a_failing_server_is_asked_again(llmock: Llmock, api: str, how: How, status: int) -> None:
    llmock.script({"type": "fail", "status": status, "retry_after": 0.05})

    assert answered(call(before_llmock(llmock, api), ask(), how), SAID)


@each_way
@each_of_three
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_request_that_is_refused_is_not_sent_again(llmock: Llmock, api: str, how: How, status: int) -> None:
    llmock.script({"type": "fail", "status": status, "message": "Not like this."})
    outcome = call(before_llmock(llmock, api), ask(), how)

    assert isinstance(outcome.error, Upstream)
    assert (outcome.error.status, outcome.error.message) == (status, "Not like this.")


@each_of_three
def test_arguments_that_are_no_json_stay_text(llmock: Llmock, api: str) -> None:
    """A model may write anything; that is no fault of the wire."""
    llmock.reset()
    llmock.script({"type": "tool_fault", "kind": "malformed_arguments", "times": None})
    tool = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    request = LlmRequest(MODEL, messages="Call it.", max_tokens=64, tools=[tool])
    outcome = call(before_llmock(llmock, api), request, "streamed")

    assert outcome.answer is not None
    assert [(made.name, made.arguments) for made in outcome.answer.tool_calls] == [("f", "{")]


SCRIPT: Final[list[dict[str, Any]]] = [
    {"match": {"userMessage": "Say hello."}, "response": {"content": SAID}},
    {"match": {"userMessage": "Break off."}, "response": {"content": SAID}, "truncateAfterChunks": 3},
    {
        "match": {"userMessage": "Go away."},
        "response": {"content": SAID},
        "latency": 30,
        "disconnectAfterMs": 100,
    },
    {"match": {"userMessage": "Half a letter."}, "response": {"content": "abc🙂def"}},
]


@pytest.fixture(scope="module")
def aimock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    with start_aimock(tmp_path_factory.mktemp("aimock"), SCRIPT, ["--chunk-size", "4"]) as server:
        yield server


@pytest.fixture
def aimock(aimock_server: Aimock) -> Aimock:
    aimock_server.break_all()
    return aimock_server


@each_way
@each_of_four
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("dropRate", Upstream(500, "Chaos: request dropped", "server_error")),
        ("rateLimitRate", Upstream(429, "Chaos: rate limit exceeded", "rate_limit_error")),
        ("disconnectRate", Transport()),
        ("malformedRate", ResponseParse()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_goes_wrong_is_told_and_passes(
    aimock: Aimock, api: str, how: How, fault: str, error: LlmError
) -> None:
    """The same adapter works again once the server does."""
    adapter = ADAPTERS[api](aimock.url, max_retries=0)

    async def run() -> tuple[Outcome, Outcome]:
        async with adapter:
            aimock.break_all(**{fault: 1})
            failed = await called(adapter, ask(), how)
            aimock.break_all()
            return failed, await called(adapter, ask(), how)

    failed, recovered = asyncio.run(run())

    assert failed.error is not None
    assert type(failed.error) is type(error)
    assert failed.error.args == error.args or not isinstance(error, Upstream)
    assert answered(recovered, SAID)


@each_of_four
@pytest.mark.parametrize("question", ["Break off.", "Go away."])
def test_a_server_that_goes_away_in_the_middle_is_transport(aimock: Aimock, api: str, question: str) -> None:
    """The connection is closed before or between two chunks."""
    outcome = call(ADAPTERS[api](aimock.url, max_retries=0), ask(question), "streamed")

    assert isinstance(outcome.error, Transport)
    assert SAID.startswith(outcome.said)
    assert len(outcome.said) < len(SAID)


@each_of_four
def test_half_of_a_letter_is_a_parse_error(aimock: Aimock, api: str) -> None:
    """A server in JavaScript may cut a text inside a pair of surrogates, neither of which is a letter."""
    outcome = call(ADAPTERS[api](aimock.url, max_retries=0), ask("Half a letter."), "streamed")

    assert isinstance(outcome.error, ResponseParse)


@each_way
@each_of_four
def test_a_slow_server_ends_with_the_budget(aimock: Aimock, api: str, how: How) -> None:
    aimock.break_all(latencyMs=5000)
    outcome = call(ADAPTERS[api](aimock.url), ask(timeout_ms=400), how)

    assert isinstance(outcome.error, Timeout)
    assert 0.35 < outcome.seconds < 2


# --- Networks that fail, before a server that does not -----------------------------------------------------


@pytest.fixture(scope="module")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    with start_toxiproxy(tmp_path_factory.mktemp("toxiproxy")) as server:
        yield server


@pytest.fixture
def proxy(toxiproxy: Toxiproxy, llamacpp: str) -> Proxy:
    """A way to llama.cpp's server, as good as new."""
    return toxiproxy.before(llamacpp)


@each_way
@each_of_three
def test_a_way_without_faults_gives_the_answer(proxy: Proxy, api: str, how: How) -> None:
    assert answered(call(ADAPTERS[api](proxy.url), ask(), how), HELLO)


@each_way
@each_of_three
@pytest.mark.parametrize("size", [0, 1, 20, 100, 180, 260, 400, 700, 1100])
def test_wherever_the_connection_ends_it_is_transport(proxy: Proxy, api: str, how: How, size: int) -> None:
    """In the head, in the body, or after all of it: then there is an answer."""
    proxy.add("limit_data", {"bytes": size})
    outcome = call(ADAPTERS[api](proxy.url, max_retries=0), ask(), how)

    assert isinstance(outcome.error, Transport) or answered(outcome, HELLO)
    assert outcome.error is not None or size > 300
    assert HELLO.startswith(outcome.said)


@each_way
@each_of_three
@pytest.mark.parametrize("stream", ["downstream", "upstream"])
@pytest.mark.parametrize("after_ms", [0, 30])
def test_a_connection_that_is_reset_is_transport(
    proxy: Proxy, api: str, how: How, stream: Stream, after_ms: int
) -> None:
    proxy.add("reset_peer", {"timeout": after_ms}, stream)
    outcome = call(ADAPTERS[api](proxy.url, max_retries=0), ask("#forever", max_tokens=400), how)

    assert isinstance(outcome.error, Transport)


@each_way
@each_of_three
@pytest.mark.parametrize(
    ("toxic", "attributes", "stream", "max_tokens"),
    [
        # As long as the server still has something to say, the connection stays.
        ("timeout", {"timeout": 0}, "downstream", 3900),
        ("timeout", {"timeout": 0}, "upstream", 64),
        ("latency", {"latency": 5000}, "downstream", 64),
        ("bandwidth", {"rate": 1}, "downstream", 400),
    ],
    ids=["no answer", "no request", "late", "slow"],
)
def test_a_network_that_is_too_slow_ends_with_the_budget(
    proxy: Proxy,
    api: str,
    how: How,
    toxic: Toxic,
    attributes: dict[str, int],
    stream: Stream,
    max_tokens: int,
) -> None:
    """The whole call counts, not the wait for each piece of it."""
    proxy.add(toxic, attributes, stream)
    outcome = call(ADAPTERS[api](proxy.url), ask("#forever", 700, max_tokens), how)

    assert isinstance(outcome.error, Timeout)
    assert 0.6 < outcome.seconds < 3


@each_way
@each_of_three
@pytest.mark.parametrize("question", ["hello", "unicode", "think", "tool"])
@pytest.mark.parametrize("size", [1, 7])
def test_how_a_network_cuts_its_packets_does_not_matter(
    proxy: Proxy, api: str, how: How, question: str, size: int
) -> None:
    """Not even at every byte, which is inside letters, lines and the sizes of chunks."""
    proxy.add("slicer", {"average_size": size, "size_variation": size // 2, "delay": 0})
    wanted = QUESTIONS[question]
    common = {"model": MODEL, "temperature": 0.0, "max_tokens": 64}
    outcome = call(ADAPTERS[api](proxy.url), LlmRequest.from_dict({**common, **wanted.settings}), how)

    assert answered(outcome, wanted.text)
    assert outcome.answer is not None
    assert outcome.answer.reasoning == wanted.reasoning
    assert [(made.name, made.arguments) for made in outcome.answer.tool_calls] == list(wanted.calls)


async def interrupted(adapter: LlmAdapter, interrupt: Callable[[], None], timeout_ms: int) -> Outcome:
    """Read some of an endless stream, let something happen to it, and read on."""
    request = ask("#forever", timeout_ms, max_tokens=3000)
    start = time.monotonic()
    said = ""
    error = None
    async with adapter:
        chunks = adapter.stream(request)
        try:
            async for chunk in chunks:
                if not said:
                    interrupt()
                said += chunk.delta
        except LlmError as caught:
            error = caught
    return Outcome(answer=None, error=error, said=said, seconds=time.monotonic() - start)


@each_of_three
def test_a_stream_that_stalls_in_the_middle_ends_with_the_budget(proxy: Proxy, api: str) -> None:
    proxy.add("bandwidth", {"rate": 20})  # or it would be there before anything can happen to it

    def stall() -> None:
        proxy.add("timeout", {"timeout": 0})

    outcome = asyncio.run(interrupted(ADAPTERS[api](proxy.url), stall, 1200))

    assert isinstance(outcome.error, Timeout)
    assert 1.1 < outcome.seconds < 4
    assert outcome.said.startswith("tick")


@each_of_three
def test_a_way_that_is_gone_in_the_middle_of_a_stream_is_transport(proxy: Proxy, api: str) -> None:
    """It is not tried again: what was given already would come twice."""
    proxy.add("bandwidth", {"rate": 20})
    outcome = asyncio.run(interrupted(ADAPTERS[api](proxy.url), lambda: proxy.enable(False), 10_000))

    assert isinstance(outcome.error, Transport)
    assert outcome.seconds < 5
    assert outcome.said.startswith("tick")


@each_way
@each_of_four
def test_where_nobody_listens_it_is_transport(api: str, how: How) -> None:
    """At once, if it is not to be tried again."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    outcome = call(ADAPTERS[api](f"http://127.0.0.1:{port}", max_retries=0), ask(), how)

    assert isinstance(outcome.error, Transport)
    assert outcome.seconds < 2


@each_way
@each_of_three
def test_a_server_that_is_away_for_a_moment_is_asked_again(proxy: Proxy, api: str, how: How) -> None:
    proxy.enable(False)
    later = threading.Timer(0.2, proxy.enable)
    later.start()
    try:
        outcome = call(ADAPTERS[api](proxy.url), ask(), how)
    finally:
        later.join()

    assert answered(outcome, HELLO)


@each_way
@each_of_three
def test_a_connection_that_was_closed_between_two_calls_does_no_harm(
    proxy: Proxy, api: str, how: How
) -> None:
    """As when a server restarts; nothing needs to be tried again for that."""
    adapter = ADAPTERS[api](proxy.url, max_retries=0)

    async def run() -> tuple[Outcome, Outcome]:
        async with adapter:
            before = await called(adapter, ask(), how)
            proxy.enable(False)
            proxy.enable()
            await asyncio.sleep(0.05)  # until the loop has heard of it
            return before, await called(adapter, ask(), how)

    before, after = asyncio.run(run())

    assert answered(before, HELLO)
    assert answered(after, HELLO)
