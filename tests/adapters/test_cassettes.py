"""The suite over every live adapter, Ollama's too, without a server: from cassettes of real ones.

``python -m tests.adapters.test_cassettes`` records them again, from the root of the repository. It needs
what the tests in ``integration/`` need for Ollama. The tests themselves never record, and reach nobody.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import vcr

from cortex_replay import InvalidRequest, LlmError, ReplayAdapter
from tests.adapters import conformance
from tests.adapters.conformance import (
    LLAMACPP,
    RECORDED_TICKS,
    AdapterConformance,
    Subject,
    ask_everything,
    replayed,
    streamed,
)
from tests.servers.llamacpp import start_llamacpp

CASSETTES: Final = Path(__file__).parent / "cassettes"
NAMES: Final = (*LLAMACPP, "ollama")
NOWHERE: Final = "http://127.0.0.1:1"
"""Stands for the server in every cassette; nobody listens there."""
CANARY: Final = "sk-canary-3f9d27c1b8"
"""The key with which the cassettes were recorded, and without which the server would not have answered."""

_KEPT_HEADERS: Final = frozenset({"content-type", "anthropic-version"})


def cassette(name: str, record_mode: str = "none") -> AbstractContextManager[Any]:
    """Answers from a cassette; in the mode ``none``, and from nowhere else."""
    recorder = vcr.VCR(
        match_on=["method", "path", "same body"],
        filter_headers=["x-api-key", "authorization"],
        before_record_request=_without_place,
        before_record_response=_without_date,
        decode_compressed_response=True,
    )
    recorder.register_matcher("same body", _has_same_body)
    used: AbstractContextManager[Any] = recorder.use_cassette(
        CASSETTES / f"{name}.yaml", record_mode=record_mode, allow_playback_repeats=True
    )
    return used


def _has_same_body(one: Any, other: Any) -> bool:
    """To the byte; the library's own matcher works out the difference for each one that is not it."""
    return bool(one.body == other.body)


def _without_place(request: Any) -> Any:
    request.uri = re.sub(r"^http://127\.0\.0\.1:\d+", NOWHERE, request.uri)
    request.headers = {
        name: value for name, value in request.headers.items() if name.lower() in _KEPT_HEADERS
    }
    return request


def _without_date(response: Any) -> Any:
    kept = {name: value for name, value in response["headers"].items() if name.lower() in _KEPT_HEADERS}
    return {**response, "headers": kept}


@cache
def recorded_digest() -> str:
    """The digest of the model that Ollama had."""
    tape = vcr.cassette.Cassette.load(path=CASSETTES / "ollama.yaml")
    (tags,) = (
        answer["body"]["string"]
        for request, answer in zip(tape.requests, tape.responses, strict=True)
        if request.path == "/api/tags"
    )
    digest: str = json.loads(tags)["models"][0]["digest"]
    return digest


def offline(name: str) -> Subject:
    made = (
        conformance.ollama(NOWHERE, recorded_digest())
        if name == "ollama"
        else LLAMACPP[name](NOWHERE, CANARY)
    )
    return dataclasses.replace(made, ticks=RECORDED_TICKS)


@pytest.fixture(scope="module", params=NAMES)
def tape(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cassette that is being played, for many tests: it takes 100 ms to read one."""
    with cassette(request.param):
        yield request.param


class TestFromCassettes(AdapterConformance):
    @pytest.fixture
    def subject(self, tape: str) -> Subject:
        return offline(tape)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    async def record() -> Subject:
        async with offline("ollama").adapter as adapter:
            live = dataclasses.replace(offline("ollama"), adapter=adapter)
            return await replayed(live, tmp_path_factory.mktemp("store"), is_streamed=True)

    with cassette("ollama"):
        return asyncio.run(record())


class TestReplayOfOllama(AdapterConformance):
    """With a server that the other replays have not: its streams are of another kind."""

    @pytest.fixture
    def subject(self, recorded: Subject) -> Subject:
        assert isinstance(recorded.adapter, ReplayAdapter)
        return dataclasses.replace(recorded, adapter=ReplayAdapter(recorded.adapter.store))


def test_the_digest_of_a_pinned_model_is_compared() -> None:
    """With the one that the server gave; the message has both."""
    subject = offline("ollama")
    other = dataclasses.replace(subject, model=f"tiny:latest@sha256:{'0' * 64}")
    unknown = dataclasses.replace(subject, model=f"no-such-model:latest@sha256:{'0' * 64}")
    with cassette("ollama"), subject.adapter.sync as sync:
        with pytest.raises(InvalidRequest, match=f"sha256:{recorded_digest()} .* sha256:{'0' * 64}"):
            sync.complete(other.request("hello"))
        with pytest.raises(InvalidRequest, match="the server has no no-such-model:latest"):
            sync.complete(unknown.request("hello"))


def test_what_was_not_recorded_is_not_asked() -> None:
    """Or a test would pass only where a server happens to run."""
    subject = conformance.chat(NOWHERE, CANARY)
    hasty = dataclasses.replace(subject.ask("never recorded"), timeout_ms=200)
    with cassette("chat"), subject.adapter.sync as sync, pytest.raises(LlmError, match="CannotOverwrite"):
        sync.complete(hasty)


def test_the_cassettes_hold_no_key_and_no_place() -> None:
    """The canary was sent with each call but those to Ollama; ports and folders differ on every machine."""
    files = sorted(CASSETTES.iterdir())
    texts = {file.name: file.read_text("utf-8") for file in files}

    assert list(texts) == sorted(f"{name}.yaml" for name in NAMES)
    assert [name for name, text in texts.items() if CANARY in text or "canary" in text] == []
    assert [
        name for name, text in texts.items() if re.search("(?i)x-api-key|authorization|bearer", text)
    ] == []
    assert {
        address for text in texts.values() for address in re.findall(r"\d+\.\d+\.\d+\.\d+:\d+", text)
    } == {NOWHERE.removeprefix("http://")}
    assert [name for name, text in texts.items() if re.search(r"/tmp|/home|/root|/var|/Users", text)] == []
    assert sum(file.stat().st_size for file in files) < 200_000


async def _record(subject: Subject) -> None:
    """Ask all that the suite asks, whole and as a stream."""
    async with subject.adapter as adapter:
        async for request in ask_everything(subject):
            await adapter.complete(request)
            await streamed(adapter, request)
        rejected = subject.ask(**subject.rejected)
        for refused in (adapter.complete(rejected), streamed(adapter, rejected)):
            try:
                await refused
            except LlmError:
                continue
            raise AssertionError("the server took what it should not have")


@contextmanager
def _served(name: str) -> Iterator[Subject]:
    from integration.ollama import start_ollama  # noqa: PLC0415 - needed here only

    with tempfile.TemporaryDirectory() as folder:
        if name == "ollama":
            with start_ollama(Path(folder)) as server:
                yield conformance.ollama(server.url, server.digest)
        else:
            with start_llamacpp(Path(folder), api_key=CANARY) as url:
                yield LLAMACPP[name](url, CANARY)


def main() -> None:
    for name in NAMES:
        (CASSETTES / f"{name}.yaml").unlink(missing_ok=True)
        with _served(name) as subject, cassette(name, "new_episodes"):
            asyncio.run(_record(subject))


if __name__ == "__main__":
    main()
