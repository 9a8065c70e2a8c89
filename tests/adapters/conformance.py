"""One suite for everything that answers requests: what an adapter promises, whatever stands behind it.

Behind every adapter here is the tiny model (``tests/servers/tiny_model.py``), served by a real server
or recorded from one, so that all of them have to give the same answers. A subclass of one of the two
classes at the end, with a fixture ``subject``, runs the suite over an adapter.

Usage counts and ids differ between two equal calls to one server; nothing here depends on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import re
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import pytest

from cortex_replay import (
    Answer,
    ClaudeAdapter,
    Fixture,
    InvalidRequest,
    LlmAdapter,
    LlmError,
    LlmRequest,
    LlmResponse,
    NoFixture,
    OllamaAdapter,
    OpenAICompatAdapter,
    ReplayAdapter,
    Store,
    StreamChunk,
    TimedChunk,
    ToolCall,
    ToolCallDelta,
    Upstream,
)
from tests.servers.tiny_model import MODEL

__all__ = [
    "HELLO",
    "LLAMACPP",
    "QUESTIONS",
    "AdapterConformance",
    "BasicConformance",
    "Question",
    "Subject",
    "ask_everything",
    "chat",
    "claude",
    "ollama",
    "replayed",
    "responses",
    "streamed",
]

HELLO: Final = "Hello from the tiny test model. All is well."
WEATHER: Final = "It is 18 C and sunny in Paris today."
TOOL: Final = {
    "name": "get_weather",
    "description": "The weather in a city, now.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["answer", "ok"],
}
_BAD_TOOL: Final = {"messages": "Say hello.", "tools": [{"name": "f", "input_schema": {"type": 5}}]}

RECORDED_TICKS: Final = 6
"""How long something endless is where it is recorded; as in one of the questions, so that it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to ask, and what the tiny model says to it."""

    settings: Mapping[str, Any]
    text: str
    finish_reason: str = "stop"
    reasoning: str | None = None
    parsed_json: object = None
    calls: tuple[tuple[str, object], ...] = ()


QUESTIONS: Final[Mapping[str, Question]] = {
    "hello": Question(settings={"messages": "Say hello."}, text=HELLO),
    "system": Question(
        settings={"messages": "Say hello.", "system": "Speak #json."}, text='{"answer": 42, "ok": true}'
    ),
    "turns": Question(
        settings={
            "messages": [
                {"role": "user", "content": "#dice"},
                {"role": "assistant", "content": "You rolled one!"},
                {"role": "user", "content": "Again."},
            ]
        },
        text="You rolled one!",
    ),
    # Its letters come as tokens of one byte each.
    "unicode": Question(settings={"messages": "#unicode – “é”"}, text="Café yes 🙂日"),
    "think": Question(
        settings={"messages": "#think"}, text="The answer is 42.", reasoning="Let me check that"
    ),
    "tool": Question(
        settings={"messages": "#tool", "tools": [TOOL]},
        text="",
        finish_reason="tool_calls",
        calls=(("get_weather", {"city": "Paris"}),),
    ),
    "schema": Question(
        settings={"messages": "#json", "json_schema": SCHEMA},
        text='{"answer": 42, "ok": true}',
        parsed_json={"answer": 42, "ok": True},
    ),
    "max_tokens": Question(
        settings={"messages": "#forever", "max_tokens": RECORDED_TICKS},
        text="tick tock tick tock tick tock",
        finish_reason="length",
    ),
    "stop": Question(settings={"messages": "Say hello.", "stop": ["tiny"]}, text="Hello from the "),
    "silence": Question(settings={"messages": "Say hello.", "stop": ["Hello"]}, text=""),
    "seed": Question(
        settings={"messages": "#dice", "temperature": 1.0, "top_p": 1.0, "seed": 2}, text="You rolled six!"
    ),
    "top_p": Question(
        settings={"messages": "#dice", "temperature": 1.0, "top_p": 0.01, "seed": 2}, text="You rolled one!"
    ),
    "top_k": Question(
        settings={"messages": "#dice", "temperature": 1.0, "top_p": 1.0, "top_k": 1, "seed": 2},
        text="You rolled one!",
    ),
    # Without a tool to call, the model's words for a call are only words.
    "tool_choice": Question(
        settings={"messages": "#tool", "tools": [TOOL], "tool_choice": "none"},
        text='<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An adapter, fresh for each test, and what is known of the server behind it."""

    adapter: LlmAdapter
    adapter_id: str
    model: str = MODEL
    answers_as: str = MODEL
    """The model's name in an answer."""
    unsaid: frozenset[str] = frozenset()
    """Fields of a request that the wire has no place for."""
    ignored: frozenset[str] = frozenset()
    """Questions that the server answers as if they were simpler ones."""
    ends_with_length: bool = True
    """Whether the server says that a limit ended an answer."""
    schema_extra: Mapping[str, Any] = field(default_factory=dict)
    """What the server wants besides a schema."""
    counts_tokens: bool = True
    has_pieces: bool = True
    """Whether a stream gives more than one chunk."""
    ticks: int = 3000
    """How long something endless may be."""
    rejected: Mapping[str, Any] = field(default_factory=lambda: _BAD_TOOL)
    """A request that every wire can carry, and the server does not take."""
    refusal: type[LlmError] = InvalidRequest
    """What a request raises that must not be sent."""
    rejection: type[LlmError] = Upstream
    """What a request raises that the server does not take."""

    def request(self, name: str) -> LlmRequest:
        """The question of this name, as it is put to this subject."""
        settings = dict(QUESTIONS[name].settings)
        if "json_schema" in settings:
            settings["extra"] = self.schema_extra
        return self.ask(**settings)

    def ask(self, messages: str | Sequence[Mapping[str, Any]], **settings: Any) -> LlmRequest:
        common = {"model": self.model, "temperature": 0.0, "max_tokens": 64}
        return LlmRequest.from_dict({**common, "messages": messages, **settings})

    def can_say(self, name: str) -> bool:
        return not self.unsaid & QUESTIONS[name].settings.keys()

    @property
    def endless(self) -> LlmRequest:
        return self.ask("#forever", max_tokens=self.ticks)

    def with_result(self, call: ToolCall) -> LlmRequest:
        """The question ``tool`` again, now with what the tool said."""
        turns: list[Mapping[str, Any]] = [
            {"role": "user", "content": "#tool"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "18 C, sunny", "tool_call_id": call.id},
        ]
        return self.ask(turns, tools=[TOOL])


def claude(url: str, api_key: str = "any", **known: Any) -> Subject:
    """Whatever speaks the Messages API; here and below, ``known`` is what is known of the server."""
    return Subject(
        adapter=ClaudeAdapter(api_key, base_url=url),
        adapter_id="claude",
        unsaid=frozenset({"seed"}),
        **known,
    )


def chat(url: str, api_key: str | None = None, **known: Any) -> Subject:
    return Subject(
        adapter=OpenAICompatAdapter(f"{url}/v1", api_key),
        adapter_id="openai-compat",
        **known,
    )


def responses(url: str, api_key: str | None = None, **known: Any) -> Subject:
    return Subject(
        adapter=OpenAICompatAdapter(f"{url}/v1", api_key, api="responses"),
        adapter_id="openai-compat",
        unsaid=frozenset({"seed", "stop", "top_k"}),
        # Neither llama.cpp nor Ollama ever calls a response incomplete.
        **{"ends_with_length": False, **known},
    )


def ollama(url: str, digest: str, **known: Any) -> Subject:
    return Subject(
        adapter=OllamaAdapter(url),
        adapter_id="ollama",
        model=f"{MODEL}:latest@sha256:{digest}",
        answers_as=f"{MODEL}:latest",
        unsaid=frozenset({"tool_choice"}),
        # Ollama cannot put its own grammar for thinking before the one that xllamacpp makes of a schema.
        schema_extra={"think": False},
        **known,
    )


LLAMACPP: Final[Mapping[str, Callable[[str, str], Subject]]] = {
    "claude": lambda url, key: claude(url, key, ignored=frozenset({"tool_choice"})),
    "chat": chat,
    "responses": responses,
}
"""What llama.cpp's server can be asked with, given its URL and key."""


async def streamed(adapter: LlmAdapter, request: LlmRequest) -> list[StreamChunk]:
    return [chunk async for chunk in adapter.stream(request)]


async def ask_everything(subject: Subject) -> AsyncIterator[LlmRequest]:
    """Each request of the suite that has an answer, in an order in which they can be asked."""
    for name in QUESTIONS:
        if subject.can_say(name):
            yield subject.request(name)
    answer = await subject.adapter.complete(subject.request("tool"))
    yield subject.with_result(answer.tool_calls[0])


async def replayed(subject: Subject, root: Path, *, is_streamed: bool) -> Subject:
    """The same, from a store of what a subject answers, whole or as a stream."""
    store = Store.create(root)
    async for request in ask_everything(subject):
        if is_streamed:
            store.add(Fixture.of(request, await _replay_stream(subject.adapter, request)))
        else:
            store.add(Fixture.of(request, await subject.adapter.complete(request)))
    store.commit()
    return dataclasses.replace(
        subject,
        adapter=ReplayAdapter(root),
        adapter_id="replay",
        has_pieces=is_streamed,
        ticks=RECORDED_TICKS,
        refusal=NoFixture,
        rejection=NoFixture,
    )


async def _replay_stream(adapter: LlmAdapter, request: LlmRequest) -> Answer:
    start = time.monotonic()
    chunks = [
        TimedChunk(round((time.monotonic() - start) * 1000, 3), chunk)
        async for chunk in adapter.stream(request)
    ]
    response = chunks[-1].chunk.response
    assert response is not None
    (answer,) = Fixture.of(request, response).answers
    return dataclasses.replace(answer, stream=tuple(chunks))


def plain(response: LlmResponse) -> LlmResponse:
    """A response without what differs between two equal calls."""
    calls = tuple(dataclasses.replace(call, id=None) for call in response.tool_calls)
    return dataclasses.replace(response, usage=None, raw_hash="", tool_calls=calls)


def assert_says(response: LlmResponse, question: Question, subject: Subject) -> None:
    reason = question.finish_reason
    if reason == "length" and not subject.ends_with_length:
        reason = "stop"
    assert response.text.lstrip() == question.text  # llama.cpp takes a leading space away, Ollama does not
    assert response.finish_reason == reason
    assert response.reasoning == question.reasoning
    assert response.parsed_json == question.parsed_json
    assert tuple((call.name, call.arguments) for call in response.tool_calls) == question.calls
    assert response.model == subject.answers_as


def assert_adds_up(chunks: Sequence[StreamChunk]) -> LlmResponse:
    """A stream's pieces are its response, which is on the last chunk and on no other."""
    *before, last = chunks
    assert [chunk for chunk in before if chunk.response or chunk.finish_reason] == []
    assert last.response is not None
    assert last.finish_reason == last.response.finish_reason
    assert "".join(chunk.delta for chunk in chunks) == last.response.text
    assert ("".join(chunk.reasoning or "" for chunk in chunks) or None) == last.response.reasoning
    pieces = [piece for chunk in chunks for piece in chunk.tool_calls]
    assert ToolCallDelta.join(pieces) == last.response.tool_calls
    return last.response


class BasicConformance:
    """What holds for every adapter, even before a server that knows little."""

    questions: ClassVar[Sequence[str]] = ("hello",)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "question" in metafunc.fixturenames:
            metafunc.parametrize("question", self.questions)

    def test_its_id_is_a_constant(self, subject: Subject) -> None:
        assert subject.adapter.adapter_id == type(subject.adapter).adapter_id == subject.adapter_id

    def test_a_whole_answer_has_all_its_fields(self, subject: Subject) -> None:
        async def run() -> LlmResponse:
            async with subject.adapter as adapter:
                return await adapter.complete(subject.request("hello"))

        response = asyncio.run(run())

        assert_says(response, QUESTIONS["hello"], subject)
        assert re.fullmatch("[0-9a-f]{64}", response.raw_hash)
        assert response.usage is not None
        assert (response.usage.prompt_tokens > 0) == subject.counts_tokens
        assert (response.usage.completion_tokens > 0) == subject.counts_tokens

    def test_an_answer_is_what_the_model_said(self, subject: Subject, question: str) -> None:
        """Which also shows that each setting got there; what the wire cannot say is refused."""

        async def run() -> None:
            async with subject.adapter as adapter:
                if not subject.can_say(question):
                    with pytest.raises(subject.refusal):
                        await adapter.complete(subject.request(question))
                    return
                response = await adapter.complete(subject.request(question))
                if question not in subject.ignored:
                    assert_says(response, QUESTIONS[question], subject)

        asyncio.run(run())

    def test_a_stream_adds_up_to_the_whole_answer(self, subject: Subject, question: str) -> None:

        async def run() -> None:
            async with subject.adapter as adapter:
                if not subject.can_say(question):
                    with pytest.raises(subject.refusal):
                        await streamed(adapter, subject.request(question))
                    return
                whole = await adapter.complete(subject.request(question))
                chunks = await streamed(adapter, subject.request(question))
                response = assert_adds_up(chunks)
                assert plain(response) == plain(whole)
                assert (response.usage is None) == (whole.usage is None)

        asyncio.run(run())

    def test_a_stream_comes_in_pieces(self, subject: Subject) -> None:
        chunks = list(subject.adapter.sync.stream(subject.request("hello")))
        subject.adapter.sync.close()

        assert_adds_up(chunks)
        assert len(chunks) > 3 or not subject.has_pieces

    def test_calls_at_once_each_get_their_own_answer(self, subject: Subject) -> None:
        """Eight of them, whole and streamed."""
        known = [name for name in self.questions if subject.can_say(name)]
        known = [name for name in known if name not in subject.ignored]
        names = [known[i % len(known)] for i in range(8)]

        async def one(number: int, name: str) -> LlmResponse:
            if number % 2:
                return await subject.adapter.complete(subject.request(name))
            return assert_adds_up(await streamed(subject.adapter, subject.request(name)))

        async def run() -> None:
            async with subject.adapter:
                answers = await asyncio.gather(*(one(i, name) for i, name in enumerate(names)))
            for name, answer in zip(names, answers, strict=True):
                assert_says(answer, QUESTIONS[name], subject)

        asyncio.run(run())

    def test_streams_may_be_read_by_turns(self, subject: Subject) -> None:
        async def run() -> None:
            async with subject.adapter as adapter:
                first, second = (adapter.stream(subject.request("hello")) for _ in range(2))
                pairs = [(chunk, await anext(second)) async for chunk in first]
                assert await anext(second, None) is None
            for chunks in zip(*pairs, strict=True):
                assert_says(assert_adds_up(chunks), QUESTIONS["hello"], subject)

        asyncio.run(run())

    def test_it_has_a_synchronous_face(self, subject: Subject) -> None:
        with subject.adapter.sync as sync:
            whole = sync.complete(subject.request("hello"))
            chunks = list(sync.stream(subject.request("hello")))

        assert plain(assert_adds_up(chunks)) == plain(whole)
        assert_says(whole, QUESTIONS["hello"], subject)

    def test_it_works_again_after_it_was_closed(self, subject: Subject) -> None:
        async def run() -> None:
            async with subject.adapter as adapter:
                assert adapter is subject.adapter
                first = await adapter.complete(subject.request("hello"))
            await adapter.aclose()
            async with adapter:
                assert plain(await adapter.complete(subject.request("hello"))) == plain(first)

        asyncio.run(run())

    def test_it_outlives_its_event_loop(self, subject: Subject) -> None:
        """As in a script that calls ``asyncio.run`` twice, without closing anything in between."""

        async def run() -> LlmResponse:
            return await subject.adapter.complete(subject.request("hello"))

        first = asyncio.run(run())
        chunks = asyncio.run(streamed(subject.adapter, subject.request("hello")))
        whole = subject.adapter.sync.complete(subject.request("hello"))
        subject.adapter.sync.close()

        assert plain(first) == plain(assert_adds_up(chunks)) == plain(whole)

    def test_it_forgets_a_loop_that_is_finished(self, subject: Subject) -> None:
        """An adapter for a whole test suite sees as many loops as there are tests."""
        loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

        async def run() -> None:
            loops.append(weakref.ref(asyncio.get_running_loop()))
            await subject.adapter.complete(subject.request("hello"))

        for _ in range(4):
            asyncio.run(run())
        gc.collect()

        assert len([loop for loop in loops if loop() is not None]) <= 1  # the last one may be, until the next

    @pytest.mark.parametrize("settings", [{"json_schema": {"type": "no such type"}}, {"extra": {"n": 2}}])
    def test_what_makes_no_sense_is_refused(self, subject: Subject, settings: dict[str, Any]) -> None:
        """A schema that is none; several answers, where one is given."""
        with pytest.raises(subject.refusal):
            subject.adapter.sync.complete(subject.ask("Say hello.", **settings))
        with pytest.raises(subject.refusal):
            list(subject.adapter.sync.stream(subject.ask("Say hello.", **settings)))
        subject.adapter.sync.close()

    @pytest.mark.parametrize("what", ["deep schema", "deep arguments"])
    def test_what_is_nested_deeply_is_answered_or_an_error_of_ours(self, subject: Subject, what: str) -> None:
        """As deep as a request may be, which is deeper than some bodies can, and than some servers take."""
        deep: Any = {}
        for _ in range(248):
            deep = {"properties": deep}
        call = {"id": "a", "name": "f", "arguments": {"x": deep} if what == "deep arguments" else {}}
        turns: list[Mapping[str, Any]] = [
            {"role": "user", "content": "Say hello."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "", "tool_call_id": "a"},
        ]
        schema = deep if what == "deep schema" else None
        with subject.adapter.sync as sync, contextlib.suppress(LlmError):
            sync.complete(subject.ask(turns, json_schema=schema, timeout_ms=300))


class AdapterConformance(BasicConformance):
    """What holds for every adapter before the tiny model."""

    questions: ClassVar[Sequence[str]] = tuple(QUESTIONS)

    def test_the_answer_to_a_tool_s_result_follows(self, subject: Subject) -> None:
        """A whole round: the call, then the answer to what the tool said."""

        async def run() -> None:
            async with subject.adapter as adapter:
                (call,) = (await adapter.complete(subject.request("tool"))).tool_calls
                whole = await adapter.complete(subject.with_result(call))
                streamed_answer = assert_adds_up(await streamed(adapter, subject.with_result(call)))
            assert (whole.text, whole.finish_reason, whole.tool_calls) == (WEATHER, "stop", ())
            assert plain(streamed_answer) == plain(whole)

        asyncio.run(run())

    def test_streams_that_are_left_early_do_not_stay(self, subject: Subject) -> None:
        """More of them than the server takes at once; afterwards the adapter works as before."""

        async def run() -> None:
            async with subject.adapter as adapter:
                for _ in range(6):
                    async with contextlib.aclosing(cast("Any", adapter.stream(subject.endless))) as chunks:
                        assert (await anext(chunks)).delta.lstrip().startswith("tick")
                async for _ in adapter.stream(subject.endless):
                    break  # and one that nobody closes
                assert_says(await adapter.complete(subject.request("hello")), QUESTIONS["hello"], subject)

        asyncio.run(run())

    def test_a_call_may_be_cancelled(self, subject: Subject) -> None:
        async def run() -> None:
            async with subject.adapter as adapter:
                # Fewer than the server takes at once: llama.cpp looks only once a second who is still there.
                calls = [
                    asyncio.create_task(adapter.complete(subject.endless)),
                    asyncio.create_task(_drained(adapter, subject.endless)),
                ]
                await asyncio.sleep(0.02)
                for call in calls:
                    call.cancel()
                ends = await asyncio.gather(*calls, return_exceptions=True)
                # An adapter that answers at once is done before it can be cancelled.
                assert [
                    end for end in ends if not isinstance(end, LlmResponse | asyncio.CancelledError)
                ] == []
                assert_says(await adapter.complete(subject.request("hello")), QUESTIONS["hello"], subject)

        asyncio.run(run())

    def test_what_the_server_does_not_take_is_an_error_of_ours(self, subject: Subject) -> None:
        with pytest.raises(subject.rejection):
            subject.adapter.sync.complete(subject.ask(**subject.rejected))
        with pytest.raises(subject.rejection):
            list(subject.adapter.sync.stream(subject.ask(**subject.rejected)))
        subject.adapter.sync.close()


async def _drained(adapter: LlmAdapter, request: LlmRequest) -> LlmResponse:
    return assert_adds_up(await streamed(adapter, request))
