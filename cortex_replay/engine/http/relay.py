"""Passing calls on to their providers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from cortex_replay.canonical import JsonValue
from cortex_replay.config.servers import server_of
from cortex_replay.engine.bypass import bypassing
from cortex_replay.engine.http.aws import (
    SIGNATURE_HEADERS,
    is_for_server,
    refuse_unsigned,
    regional,
    signed_headers,
    signer_of,
)
from cortex_replay.engine.http.call import Call, Headers
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.other_calls import is_other
from cortex_replay.engine.http.routes import METHODS, path_problem
from cortex_replay.engine.http.upstreams import Upstreams, UpstreamServer
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.providers import DUMMY_KEY, provider_name
from cortex_replay.redact.process import learn_secret
from cortex_replay.secret_names.names import (
    CREDENTIAL_PARAMETERS,
    KEY_HEADERS,
    is_secret_field,
    is_secret_header,
    is_secret_setting,
)
from cortex_replay.secret_names.values import SHORTEST_SECRET, is_dummy, is_plain, secrets_in_header
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types.labels import LABELS_HEADER

if TYPE_CHECKING:
    from cortex_replay.adapters.http import AwsSigner, RelayClient, RelayReply
    from cortex_replay.adapters.http.sockets import UpgradeRefused, UpstreamSocket
    from cortex_replay.adapters.request_rate import RequestRate
    from cortex_replay.redact.redactor import Redactor

__all__ = ["GATEWAY_VARIABLE", "Relay", "SendOn", "client_headers", "client_keys_in", "recordable_headers"]

SendOn = Callable[[Call, Mapping[str, str]], AbstractAsyncContextManager["RelayReply"]]
"""Passes a call on, with the keys of an environment."""

GATEWAY_VARIABLE: Final = "CORTEX_REPLAY_GATEWAY"
"""Holds the URL of the gateway that a command runs behind."""

_HOP_BY_HOP: Final = frozenset(["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"])
_NOT_SENT: Final = _HOP_BY_HOP | frozenset(
    [
        "accept-encoding",
        "content-length",
        "cookie",
        "cookie2",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "origin",
        "referer",
        "via",
        # Some servers take the path, the method or the client from these.
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-real-ip",
        "x-rewrite-url",
        "x-upgrade",
    ]
)
_SET_ANYWAY: Final = frozenset(["connection", "content-length", "host"])
"""What every client sets itself, signed or not."""
_FAMILIES_NOT_SENT: Final = ("proxy-", "sec-", "x-cortex-replay-", "x-forwarded-")
_NOT_SENT_TO_OTHERS: Final = _HOP_BY_HOP | frozenset(["accept-encoding", "content-length", "expect", "host"])
_FAMILIES_NOT_SENT_TO_OTHERS: Final = ("proxy-", "x-cortex-replay-")
_NOT_GIVEN: Final = _HOP_BY_HOP | frozenset(
    [
        "alt-svc",
        "clear-site-data",
        "content-encoding",
        "content-length",
        "location",
        "refresh",
        "set-cookie",
        "set-cookie2",
        "strict-transport-security",
    ]
)
_FAMILIES_NOT_GIVEN: Final = ("access-control-", "proxy-", "x-cortex-replay-")
_KEPT: Final = frozenset(
    [
        *("content-type", "request-id", "x-request-id", "x-amzn-requestid", "x-amzn-errortype"),
        *("retry-after", "retry-after-ms", "x-should-retry"),
        # Bedrock's InvokeModel counts here, and its clients read it here.
        *(f"x-amzn-bedrock-{what}-token-count" for what in ("input", "output")),
        *(f"x-amzn-bedrock-cache-{what}-input-token-count" for what in ("read", "write")),
    ]
)
_NO_KEYS: Final = frozenset(["idempotency-key", "sec-websocket-key"])
"""Headers that are called so and hold none."""
_SCHEME: Final = re.compile(r"\A(?:bearer|basic|token) +", re.IGNORECASE)
_SUBPROTOCOL_KEY: Final = re.compile(r"\A(?:openai-insecure-api-key|xai-client-secret)\.")
_MAX_ANSWER: Final = 64 * 2**20
_MOST_AT_ONCE: Final = 100


def client_headers(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What a client gets of an upstream's headers while it is recorded."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _NOT_GIVEN | _hop_headers(lowered)
    return [
        (name, value)
        for name, value in lowered
        if name not in dropped and not name.startswith(_FAMILIES_NOT_GIVEN)
    ]


def _hop_headers(headers: Headers) -> frozenset[str]:
    """The headers that ``Connection`` says are for the next machine only."""
    return frozenset(
        listed.strip().lower()
        for name, value in headers
        if name == "connection"
        for listed in value.split(",")
    )


def _dropped_headers(
    call: Call, upstream: UpstreamServer, *, has_key: bool, is_signed: bool
) -> frozenset[str]:
    """What of a client's headers is not passed on; of a signed call, all that is signed is."""
    unsent = _NOT_SENT_TO_OTHERS if is_other(call.route.upstream) else _NOT_SENT
    dropped = unsent | _hop_headers(call.headers)
    if is_signed:
        return dropped - (signed_headers(call) - _SET_ANYWAY)
    return dropped | SIGNATURE_HEADERS if has_key and upstream.kind == "bedrock" else dropped


def recordable_headers(headers: list[tuple[str, str]]) -> dict[str, str]:
    """What a recording keeps of them: only what is named here."""
    return {name.lower(): value for name, value in headers if name.lower() in _KEPT}


def client_keys_in(headers: Headers, query: str) -> list[str]:
    """The keys that a client brings with its call, whether or not they are passed on.

    What a server without keys is given, such as ``not-needed``, is none.
    """
    found = [key for name, value in headers for key in secrets_in_header(name, value)]
    found += [
        value
        for name, value in parse_qsl(query)
        if (name.lower() in CREDENTIAL_PARAMETERS or is_secret_field(name))
        and len(value) >= SHORTEST_SECRET
        and not is_plain(value)
    ]
    return list(dict.fromkeys(found))


def _brings_key(headers: Headers, query: str) -> bool:
    parameters = {name.lower() for name, _ in parse_qsl(query)}
    return any(name in KEY_HEADERS for name, _ in headers) or bool(parameters & CREDENTIAL_PARAMETERS)


def _without(query: str, is_dropped: Callable[[str, str], bool]) -> str:
    """A query without some of its parameters; as it was written where it has none of them."""
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = [pair for pair in pairs if not is_dropped(*pair)]
    return query if kept == pairs else urlencode(kept)


def _refuse_without_key(upstream: UpstreamServer, environment: Mapping[str, str]) -> None:
    """Spare a client the provider's own refusal, which would name the dummy key or none."""
    if variables := upstream.missing_key(environment):
        reason = f"is not set, this call is not recorded, and {upstream.name} answers nobody without a key"
        raise ConfigError(" or ".join(variables), f"{reason}. Nothing was sent")


def _is_gateway(upstream: UpstreamServer, environment: Mapping[str, str]) -> bool:
    """Whether a call goes to the gateway that this process runs behind."""
    return upstream.base_url.startswith(f"{environment.get(GATEWAY_VARIABLE)}/")


class Relay:
    """One client for each upstream, made when it is first asked.

    Args:
        upstreams: Who may be asked.
        timeout_ms: What a call may take in all.
        redactor_for: The redactor that learns the keys of clients, and tells whether something holds one.
        rate_of: How often a provider may be asked, by its name in a configuration.
        max_answer: The largest body of an answer.
        most_at_once: How many calls may be under way at one server.
    """

    def __init__(
        self,
        upstreams: Mapping[str, UpstreamServer] | Upstreams,
        timeout_ms: int,
        redactor_for: Callable[[], Redactor],
        rate_of: Callable[[str], RequestRate | None],
        *,
        max_answer: int = _MAX_ANSWER,
        most_at_once: int = _MOST_AT_ONCE,
    ) -> None:
        self._max_answer = max_answer
        self._most_at_once = most_at_once
        self._upstreams = upstreams
        self._redactor_for = redactor_for
        self._rate_of = rate_of
        self._timeout_ms = timeout_ms
        self._clients: dict[tuple[str, str, str], tuple[RelayClient, bool]] = {}

    @asynccontextmanager
    async def send(self, call: Call, environment: Mapping[str, str]) -> AsyncIterator[RelayReply]:
        """Whatever the upstream answers.

        Args:
            call: What to pass on.
            environment: Where keys are.

        Raises:
            InvalidRequest: The method or the path is none that a key may go out with.
            ConfigError: Neither we nor the client have the key without which nobody is answered there, or
                nobody has said where the upstream is.
            Transport, Timeout: It could not be reached, or not in time.
        """
        from cortex_replay.adapters.deadline import Deadline  # noqa: PLC0415 - replay needs no client

        http, target, headers = await self._prepare(call, environment)
        with bypassing():
            relayed = await http.relay(call.method, target, headers, call.body, Deadline(self._timeout_ms))
        async with aclosing(relayed.body):
            yield relayed

    async def open_socket(
        self, call: Call, environment: Mapping[str, str]
    ) -> UpstreamSocket | UpgradeRefused:
        """A WebSocket to the upstream, or what it answered instead; see :meth:`send`."""
        from cortex_replay.adapters.deadline import Deadline  # noqa: PLC0415

        subprotocols = [name.strip() for name in call.header("sec-websocket-protocol").split(",")]
        # Where a client cannot set headers, it brings its key among the subprotocols.
        keys = [_SUBPROTOCOL_KEY.sub("", name) for name in subprotocols if _SUBPROTOCOL_KEY.match(name)]
        if keys and not call.header("authorization"):
            call = replace(call, headers=[*call.headers, ("authorization", f"Bearer {keys[0]}")])
        http, target, headers = await self._prepare(call, environment)
        offered = [name for name in subprotocols if name and not _SUBPROTOCOL_KEY.match(name)]
        with bypassing():
            return await http.open_socket(target, headers, offered, Deadline(self._timeout_ms))

    async def take_turn(self, call: Call, environment: Mapping[str, str]) -> None:
        """Wait until another message may go out over the WebSocket of a call; see :meth:`send`.

        Raises:
            TurnTooLate: That would be too late.
        """
        from cortex_replay.adapters.deadline import Deadline  # noqa: PLC0415

        http, _, _ = await self._prepare(call, environment)
        await http.take_turn(Deadline(self._timeout_ms))

    async def check_frame(self, call: Call, frame: str | bytes, environment: Mapping[str, str]) -> None:
        """Keep a key in a frame from a server that a project's file put in its provider's place.

        Raises:
            ConfigError: The user has not agreed.
        """
        upstream = call.server or self._upstreams[call.route.upstream]
        body = frame.encode() if isinstance(frame, str) else frame
        if upstream.is_strange and await aside(len(body), self._holds_key, replace(call, body=body), [], ""):
            upstream.refuse_key_of_client(environment)

    async def _prepare(
        self, call: Call, environment: Mapping[str, str]
    ) -> tuple[RelayClient, str, list[tuple[str, str]]]:
        """Who passes a call on, and with what target and headers."""
        if call.method not in METHODS:
            raise InvalidRequest("method", f"is not passed on; there are {', '.join(sorted(METHODS))}")
        is_for_other = is_other(call.route.upstream)  # who gets no key of ours, and what the client sends it
        if not is_for_other and (problem := path_problem(call.route.path)) is not None:
            raise InvalidRequest("path", f"is not passed on: it {problem}")
        self._learn(client_keys_in(call.headers, call.query))
        upstream = call.server or self._upstreams[call.route.upstream]
        if not upstream.base_url:
            reason = f"is not set, this call is not recorded, and nothing else says where {upstream.name} is"
            raise ConfigError(" or ".join(upstream.missing_key(environment)), f"{reason}. Nothing was sent")
        brought = call.header("authorization")
        upstream = regional(upstream, environment, brought)
        is_signed = is_for_server(call, upstream)
        signer = None if is_signed else signer_of(upstream, environment, brought)
        http, has_key = self._client(upstream, environment, signer, is_signed=is_signed)
        query = call.query if is_signed else _without(call.query, lambda _, value: DUMMY_KEY in value)
        is_elsewhere = bool(call.addressed) and server_of(call.addressed) != server_of(upstream.base_url)
        dropped = _dropped_headers(call, upstream, has_key=has_key, is_signed=is_signed)
        families = _FAMILIES_NOT_SENT_TO_OTHERS if is_for_other else _FAMILIES_NOT_SENT
        headers = [
            (name, value)
            for name, value in call.headers
            if name not in dropped
            and not name.startswith(families)
            and not (name in KEY_HEADERS and (has_key or DUMMY_KEY in value))
            and not (is_elsewhere and is_secret_header(name))
        ]
        if upstream.kind == "bedrock" and call.server is None and not has_key and not is_signed:
            refuse_unsigned(call, upstream)
        if is_elsewhere:
            query = _without(query, lambda name, _: name.lower() in CREDENTIAL_PARAMETERS)
        if not has_key and not _brings_key(headers, query):
            _refuse_without_key(upstream, environment)
        if has_key:
            query = _without(query, lambda name, _: name == "key")
        if upstream.is_strange and await aside(len(call.body), self._holds_key, call, headers, query):
            upstream.refuse_key_of_client(environment)
        if call.outer_scope and _is_gateway(upstream, environment):
            headers.append(("x-cortex-replay-scope", quote(call.outer_scope)))
            headers += [(name, value) for name, value in call.headers if name == LABELS_HEADER]
        return http, f"{call.route.path}?{query}" if query else call.route.path, headers

    def _learn(self, keys: list[str]) -> None:
        """What a client brings is neither to be stored nor to be shown, even if ours takes its place."""
        keys = [key for key in keys if DUMMY_KEY not in key]
        if keys:
            self._redactor_for().learn(*keys)
        for key in keys:
            learn_secret(key)

    def _holds_key(self, call: Call, headers: list[tuple[str, str]], query: str) -> bool:
        """Whether a client brings a key, by what it is called or by what it is, wherever in the call."""
        bare = [(name, _SCHEME.sub("", value)) for name, value in headers]
        # Where no key is needed, clients bring "EMPTY" or "not-needed": everybody knows these.
        given = [(name, value) for name, value in bare if value != DUMMY_KEY and not is_dummy(value)]
        names = [name for name, _ in given if name not in _NO_KEYS]
        names += [unquote_plus(pair.partition("=")[0]) for pair in re.split("[&;]", query)]
        if any(is_secret_setting(name) or name.lower() in CREDENTIAL_PARAMETERS for name in names):
            return True
        if call.header("content-encoding").lower() not in ("", "identity"):
            return True  # nobody can tell
        try:
            body = loads(call.body)
        except JsonError:
            body = call.body.decode(errors="replace")
        values: list[JsonValue] = [value for _, value in given if value]
        document = [*values, unquote_plus(f"{call.route.path}?{query}"), body]
        return bool(self._redactor_for().found_in(document))

    async def aclose(self) -> None:
        for http, _ in self._clients.values():
            await http.aclose()
        self._clients.clear()

    def _client(
        self,
        upstream: UpstreamServer,
        environment: Mapping[str, str],
        signer: AwsSigner | None,
        *,
        is_signed: bool,
    ) -> tuple[RelayClient, bool]:
        """The client for a server, and whether it brings a key or a signature of ours."""
        from cortex_replay.adapters.http import Endpoint, RelayClient  # noqa: PLC0415
        from cortex_replay.adapters.secret import read_key  # noqa: PLC0415

        value = None if is_signed else upstream.key(environment)
        signs = [] if signer is None else [part.reveal() for part in signer.credentials[1:] if part]
        # Another key, which a test may have set meanwhile, is another client.
        place = upstream.base_url, upstream.name, blake3_hex("\0".join([value or "", *signs]).encode())
        del signs
        if place not in self._clients:
            key = None if value is None else read_key(value)
            if isinstance(key, InvalidRequest):
                raise key
            header, prefix = upstream.key_header
            # A gateway around this process counts the requests that go out.
            is_last = not _is_gateway(upstream, environment)
            http = RelayClient(
                Endpoint(upstream.base_url),
                key=key,
                key_header=header,
                key_prefix=prefix,
                signer=signer if key is None else None,
                max_body_bytes=self._max_answer,
                most_at_once=self._most_at_once,
                rate=self._rate_of(provider_name(upstream.name)) if is_last else None,
            )
            self._clients[place] = http, key is not None or signer is not None
        return self._clients[place]
