"""The HTTP engine, bytes in and bytes out: no socket, no gateway, no client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from cortex_replay import LlmRequest, Store
from cortex_replay.config import Settings
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.providers import endpoint_of
from cortex_replay.run import Run
from cortex_replay.wire import WIRES
from tests.builder import ask as request_for
from tests.gateway.upstream import REAL_KEY

__all__ = ["PATHS", "PROTOCOLS", "Got", "answer", "ask", "body_of", "open_call", "request_for", "run_over"]

PATHS: Final = {protocol: endpoint_of(protocol, stream=False).path for protocol in WIRES}
"""Where each wire's requests go; one that names a model in its path stands for all of them."""
PROTOCOLS: Final = [
    protocol
    for protocol in WIRES
    if not endpoint_of(protocol, stream=False).models and protocol != "openai-completions"
]
"""The wires that any model may speak, and that carry a conversation and not only a text to go on with."""
_RUNNERS: Final[WeakKeyDictionary[Run, asyncio.Runner]] = WeakKeyDictionary()


class Got(NamedTuple):
    """What a client has at the end of a call."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@contextmanager
def run_over(root: Path, mode: Any = "replay", upstream: str | None = None, **options: Any) -> Iterator[Run]:
    """What answers in one run over a store; at the end it commits what it recorded. Made only here."""
    keys = dict.fromkeys(
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "CO_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
        REAL_KEY,
    )
    environment = {**keys, **({} if upstream is None else _servers_at(upstream))}
    environment |= options.pop("environment", {})
    store = Store.open_or_create(root, verify="on-read")
    names = ("budget_calls", "budget_tokens", "max_sensitivity", "every_answer")
    settings = Settings(**{name: options.pop(name) for name in names if name in options})
    run = Run(settings, mode, store, environment=environment, **options)
    with asyncio.Runner() as runner:
        _RUNNERS[run] = runner
        try:
            yield run
        finally:
            runner.run(run.engine().aclose())
            del _RUNNERS[run]
    if run.mode.writes:
        run.commit()


def _servers_at(url: str) -> dict[str, str]:
    names = (
        "ANTHROPIC_BASE_URL",
        "OLLAMA_HOST",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
        "CO_API_URL",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    )
    bare = dict.fromkeys(names, url)
    return bare | {"OPENAI_BASE_URL": f"{url}/v1"}


def ask(
    run: Run,
    method: str,
    path: str,
    body: object = b"",
    headers: Iterable[tuple[str, str]] = (),
    scope: str = "",
    *,
    is_quick: bool = True,
) -> Got:
    """Make one call and read its answer to the end. A body that is not bytes is sent as JSON."""
    return _RUNNERS[run].run(answer(run, method, path, body, headers, scope, is_quick=is_quick))


async def answer(run: Run, *call: Any, is_quick: bool = True, **options: Any) -> Got:
    """The same for several calls at once. One that is not quick never takes the short way of a replay."""
    async with open_call(run, *call, is_quick=is_quick, **options) as reply:
        body = reply.body
        if reply.live is not None:
            body = b"".join([piece async for piece in reply.live])
        elif reply.events:
            assert body == b"".join(data for _, data in reply.events)
        return Got(reply.status, dict(reply.headers), body)


@asynccontextmanager
async def open_call(
    run: Run,
    method: str,
    path: str,
    body: object = b"",
    headers: Iterable[tuple[str, str]] = (),
    scope: str = "",
    *,
    is_quick: bool = False,
) -> AsyncIterator[HttpReply]:
    """A call whose answer is under way."""
    given = list(headers)
    path, body = _sent(path, body)
    path, _, query = path.partition("?")
    engine = run.engine()
    route = engine.upstreams.route(method, path, lambda name: dict(given).get(name, ""))
    assert route is not None, path
    asking = engine.scope_of(scope, route, query)
    call = Call(method, route, query, given, body if isinstance(body, bytes) else orjson.dumps(body))
    question, quick = engine.begin(asking, call) if is_quick else (engine.read(asking, call), None)
    if quick is not None:
        yield quick
        return
    async with engine.answer(asking, call, question) as reply:
        yield reply


def _sent(path: str, body: object) -> tuple[str, object]:
    """A call as it goes out: what its path says is not in its body."""
    protocol = next((name for name, known in PATHS.items() if known == path), "")
    if "{" not in path or not isinstance(body, dict):
        return path, body
    return endpoint_of(protocol, stream=WIRES[protocol].wants_stream(body)).split(body)


def body_of(protocol: str, request: LlmRequest, *, stream: bool = False) -> dict[str, Any]:
    """The body by which a client of one wire asks this."""
    return WIRES[protocol].lower(request, stream=stream)
