"""What goes out to a server and what comes back: which headers, which keys, and never the dummy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cortex_replay.adapters.http import RelayClient, RelayReply
from cortex_replay.config import ProviderSettings
from cortex_replay.config.origin import ProjectOrigin
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.relay import Relay, client_headers
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.providers import DUMMY_KEY, PROVIDERS
from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names.names import CREDENTIAL_PARAMETERS, KEY_HEADERS

OURS, THEIRS = "our-own-key-of-4711-chars", "the-client-s-own-key-0815"
SERVERS = {
    name: UpstreamServer(name, row.kind, row.base_url, None, row.key_variables)
    for name, row in PROVIDERS.items()
    if row.base_url and name != "bedrock"  # which signs
}
OTHER = UpstreamServer("https://other.example", "http", "https://other.example")
STRANGE = UpstreamServer(
    "local",
    "openai-compat",
    "https://strange.example/v1",
    ProviderSettings(
        kind="openai-compat",
        base_url="https://strange.example/v1",
        project=ProjectOrigin(Path("/project"), frozenset({"base_url"})),
    ),
)
"""A server that a project's file put in the place of the provider's."""
headers_of_keys = pytest.mark.parametrize("header", sorted(KEY_HEADERS))


class Sent(NamedTuple):
    """What goes out."""

    target: str
    headers: dict[str, str]
    key: str | None

    @property
    def text(self) -> str:
        return f"{self.target} {self.headers} {self.key}"


class Passing:
    """A relay whose clients send nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.redactor = Redactor()
        self.sent: list[Sent] = []
        self._relay = Relay(
            {**SERVERS, OTHER.name: OTHER, STRANGE.name: STRANGE}, 1000, lambda: self.redactor, lambda _: None
        )

        async def note(client: Any, _: str, target: str, headers: Any, *__: Any) -> RelayReply:
            key = None if client._key is None else client._key.reveal()
            self.sent.append(Sent(target, dict(headers), key))
            return RelayReply(200, [], _Nothing())

        monkeypatch.setattr(RelayClient, "relay", note)

    def send(
        self,
        upstream: str,
        *headers: tuple[str, str],
        query: str = "",
        addressed: str = "",
        **environment: str,
    ) -> Sent:
        call = Call("POST", Route(upstream, "/v1/x", None), query, headers, b"{}", addressed=addressed)
        return self.pass_on(call, environment)

    def pass_on(self, call: Call, environment: dict[str, str]) -> Sent:
        async def main() -> None:
            async with self._relay.send(call, environment):
                pass

        asyncio.run(main())
        return self.sent[-1]


class _Nothing:
    content_type = ""

    async def read(self) -> bytes:
        return b""

    async def read_all(self) -> bytes:
        return b""

    async def aclose(self) -> None:
        pass


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    return Passing(monkeypatch)


def keys_for(upstream: str, value: str = OURS) -> dict[str, str]:
    return dict.fromkeys(SERVERS[upstream].key_variables[:1], value)


@headers_of_keys
@pytest.mark.parametrize("upstream", [*SERVERS, OTHER.name])
def test_the_dummy_goes_to_nobody(passing: Passing, upstream: str, header: str) -> None:
    """Neither in place of a key of ours, nor where a server needs none; else nothing is sent."""
    server = SERVERS.get(upstream, OTHER)
    brought = (header, f"Bearer {DUMMY_KEY}")
    if server.key_variables:
        assert DUMMY_KEY not in passing.send(upstream, brought, **keys_for(upstream)).text
    if server.missing_key({}):
        with pytest.raises(ConfigError, match="Nothing was sent"):
            passing.send(upstream, brought)
    else:
        assert DUMMY_KEY not in passing.send(upstream, brought).text


@pytest.mark.parametrize("name", sorted(CREDENTIAL_PARAMETERS))
@pytest.mark.parametrize("upstream", ["openai", "gemini", "ollama"])
def test_the_dummy_in_a_query_goes_to_nobody(passing: Passing, upstream: str, name: str) -> None:
    """And it is no key with which a call could go out."""
    query = f"a=1&{name}={DUMMY_KEY}"
    if SERVERS[upstream].key_variables:
        sent = passing.send(upstream, query=query, **keys_for(upstream))
        assert DUMMY_KEY not in sent.text
        assert "a=1" in sent.target
    if SERVERS[upstream].missing_key({}):
        with pytest.raises(ConfigError):
            passing.send(upstream, query=query)
    else:
        assert DUMMY_KEY not in passing.send(upstream, query=query).text


@headers_of_keys
def test_our_key_goes_alone_and_a_client_s_where_we_have_none(passing: Passing, header: str) -> None:
    brought = (header, f"Bearer {THEIRS}")

    ours = passing.send("openai", brought, **keys_for("openai"))
    assert (ours.key, THEIRS in ours.text) == (OURS, False)
    theirs = passing.send("openai", brought)
    assert (theirs.key, theirs.headers[header]) == (None, f"Bearer {THEIRS}")
    assert THEIRS not in passing.redactor.text(f"It is {THEIRS}.")[0], "it is known from now on"


@pytest.mark.parametrize("header", [*sorted(KEY_HEADERS), "x-auth-token"])
def test_a_key_goes_to_no_other_server_than_it_was_meant_for(passing: Passing, header: str) -> None:
    """A client addressed one server, and another is asked in its place."""
    brought, elsewhere = (header, f"Bearer {THEIRS}"), "https://api.openai.example"
    query = f"a=1&key={THEIRS}"
    for addressed, arrives in (("", True), (SERVERS["ollama"].base_url, True), (elsewhere, False)):
        sent = passing.send("ollama", brought, query=query, addressed=addressed)
        assert [THEIRS in sent.headers.get(header, ""), THEIRS in sent.target] == [arrives] * 2, addressed
        assert "a=1" in sent.target


def test_another_key_is_another_client(passing: Passing) -> None:
    """A test may have set it meanwhile."""
    keys = [passing.send("openai", **keys_for("openai", f"{OURS}-{n}")).key for n in (1, 2, 1)]
    assert keys == [f"{OURS}-{n}" for n in (1, 2, 1)]


@pytest.mark.parametrize("upstream", ["openai", OTHER.name])
def test_what_is_for_us_or_for_the_way_is_not_passed_on(passing: Passing, upstream: str) -> None:
    own = [
        ("x-cortex-replay-token", "t"),
        ("x-cortex-replay-scope", "s"),
        ("proxy-authorization", "p"),
        ("connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
        ("host", "127.0.0.1:1"),
        ("content-length", "2"),
    ]
    sent = passing.send(upstream, *own, ("x-other", "1"), ("authorization", f"Bearer {THEIRS}"))

    assert set(sent.headers) == {"x-other", "authorization"}


def test_what_would_lead_a_client_around_us_is_not_given() -> None:
    came = [
        *(("Set-Cookie", "a=1"), ("set-cookie2", "b=2"), ("Location", "http://x"), ("Refresh", "1")),
        *(("Alt-Svc", "h3"), ("Connection", "X-Hop"), ("X-Hop", "1"), ("Content-Encoding", "gzip")),
        *(("Access-Control-Allow-Origin", "*"), ("X-Cortex-Replay-Token", "t"), ("Retry-After", "1")),
    ]
    assert client_headers(came) == [("retry-after", "1")]


BRINGS: dict[str, dict[str, Any]] = {
    "a header": {"headers": [("authorization", f"Bearer {THEIRS}")]},
    "a header of its own": {"headers": [("x-my-api-key", "short")]},
    "the query": {"query": "a=1&api_key=short"},
    "an escaped name": {"query": "a=1&api%5Fkey=short"},
    "the body": {"body": b'{"deep": [{"text": "use sk-ant-api03-' + b"Ab3dE6gH9j" * 4 + b'"}]}'},
    "a body that is no JSON": {"body": b"key: sk-ant-api03-" + b"Ab3dE6gH9j" * 4},
    "a body that nobody can read": {"headers": [("content-encoding", "br")]},
}
"""Where a client may have a key."""


@pytest.mark.parametrize("place", BRINGS)
def test_a_key_goes_to_no_server_that_a_project_names(passing: Passing, place: str) -> None:
    given = {"query": "", "headers": [], "body": b"{}", **BRINGS[place]}

    with pytest.raises(ConfigError):
        passing.pass_on(Call("POST", Route(STRANGE.name, "/v1/x", None), **given), {})
    assert passing.sent == []


@pytest.mark.parametrize("value", ["EMPTY", "not-needed", f"Bearer {DUMMY_KEY}"])
def test_what_stands_for_no_key_may_go_there(passing: Passing, value: str) -> None:
    sent = passing.send(STRANGE.name, ("authorization", value), ("accept", "*/*"), query="a=1")

    assert (sent.target, sent.key) == ("/v1/x?a=1", None)


@pytest.mark.parametrize(
    ("method", "path", "problem"),
    [("TRACE", "/v1/x", "method: is not passed on"), ("POST", "/v1/../x", "path: is not passed on")],
)
def test_what_no_provider_serves_is_not_passed_on(
    passing: Passing, method: str, path: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        passing.pass_on(Call(method, Route("openai", path, None)), keys_for("openai"))
    assert passing.sent == []
