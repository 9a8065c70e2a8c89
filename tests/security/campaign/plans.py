"""Calls through the gateway, each with a secret in one place of what is asked or answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

from tests.adapters.dialects import DIALECTS, Dialect
from tests.adapters.fake_provider import Exchange, Script, stream, whole
from tests.security.campaign.plant import Planted
from tests.security.campaign.upstream import cuts

__all__ = ["FAILURES", "OWN_KEY", "PLANS", "Plan", "WhatToDo", "asked", "route"]

OWN_KEY: Final = "gateway: a client's own key"
JSON: Final = {"content-type": "application/json"}


@dataclass(frozen=True)
class Plan:
    """One call, and what the upstream says to it."""

    path: str
    content: bytes = b""
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    answer: Script | None = None


WhatToDo = Callable[[Planted, Random], Plan]

_ROUTES: Final = {
    "anthropic-messages": "/anthropic/v1/messages",
    "openai-chat": "/openai/v1/chat/completions",
    "openai-responses": "/openai/v1/responses",
    "ollama-chat": "/ollama/api/chat",
}


def route(dialect: Dialect) -> str:
    return _ROUTES[dialect.protocol]


def asked(dialect: Dialect, text: str, **more: Any) -> bytes:
    """A completion as a client of this wire asks for it."""
    if dialect.protocol == "openai-responses":
        body: dict[str, Any] = {"model": "m", "input": text}
    else:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    if dialect.protocol == "anthropic-messages":
        body["max_tokens"] = 9
    if dialect.protocol == "ollama-chat":
        body["stream"] = False
    return json.dumps(body | more).encode()


def _lifted(dialect: Dialect, text: str, answer: Script | None = None, **more: Any) -> Plan:
    return Plan(route(dialect), asked(dialect, text, **more), headers=JSON, answer=answer)


def _prompt(dialect: Dialect) -> WhatToDo:
    def plan(one: Planted, random: Random) -> Plan:
        return _lifted(dialect, one.text)

    return plan


def _answer(dialect: Dialect) -> WhatToDo:
    return lambda one, _: _lifted(dialect, one.tag, whole(dialect.answer(one.text)))


def _stream(dialect: Dialect) -> WhatToDo:
    def plan(one: Planted, random: Random) -> Plan:
        events = dialect.events(*cuts(random, one.text))
        return _lifted(dialect, one.tag, stream(events, dialect.media_type), stream=True)

    return plan


def _failure(dialect: Dialect) -> WhatToDo:
    def plan(one: Planted, random: Random) -> Plan:
        status = random.choice([400, 404, 422, 429, 500, 529])
        return _lifted(dialect, one.tag, whole(dialect.error(status, f"wrong key: {one.text}"), status))

    return plan


def _error_event(dialect: Dialect) -> WhatToDo:
    def plan(one: Planted, _: Random) -> Plan:
        events = [*dialect.events("Well, ")[:2], dialect.error_event(f"wrong key: {one.text}")]
        return _lifted(dialect, one.tag, stream(events, dialect.media_type), stream=True)

    return plan


def _error_with_200(dialect: Dialect) -> WhatToDo:
    def plan(one: Planted, random: Random) -> Plan:
        bodies: list[bytes] = [
            dialect.error(500, f"wrong key: {one.text}"),
            json.dumps({"error": one.text}).encode(),
            json.dumps({"error": {"message": "no", "type": one.written, "note": one.tag}}).encode(),
        ]
        return _lifted(dialect, one.tag, whole(random.choice(bodies)))

    return plan


def _tool_name_in_request(one: Planted, _: Random) -> Plan:
    """A property of a tool's schema."""
    schema = {"type": "object", "properties": {one.written: {"type": "string", "description": one.tag}}}
    return _lifted(
        DIALECTS[0], one.tag, tools=[{"name": "f", "description": "Does it.", "input_schema": schema}]
    )


def _tool_arguments(one: Planted, _: Random) -> Plan:
    call = {"id": "call_1", "type": "function"}
    function = {"name": "run", "arguments": json.dumps({"command": one.text, "list": [one.written]})}
    body = DIALECTS[1].answer("")
    body["choices"][0]["message"]["tool_calls"] = [{**call, "function": function}]
    body["choices"][0]["finish_reason"] = "tool_calls"
    return _lifted(DIALECTS[1], one.tag, whole(body))


def _tool_arguments_name(one: Planted, _: Random) -> Plan:
    block = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {one.written: one.tag}}
    body = {**DIALECTS[0].answer(""), "content": [block], "stop_reason": "tool_use"}
    return _lifted(DIALECTS[0], one.tag, whole(body))


def _tool_id(one: Planted, _: Random) -> Plan:
    block = {"type": "tool_use", "id": one.written, "name": "run", "input": {"x": one.tag}}
    body = {**DIALECTS[0].answer(""), "content": [block], "stop_reason": "tool_use"}
    return _lifted(DIALECTS[0], one.tag, whole(body))


def _model_name(one: Planted, _: Random) -> Plan:
    return _lifted(DIALECTS[1], one.tag, model=one.written)


def _answering_model(one: Planted, _: Random) -> Plan:
    return _lifted(DIALECTS[1], one.tag, whole({**DIALECTS[1].answer(one.tag), "model": one.written}))


def _system_and_extras(one: Planted, random: Random) -> Plan:
    places: list[dict[str, Any]] = [
        {"system": one.text},
        {"metadata": {"user_id": one.written}},
        {"stop_sequences": [one.written]},
        {"unheard_of": {"deep": [{one.written: 1}]}},
        {"system": [{"type": "text", "text": piece} for piece in _halves(random, one.text)]},
    ]
    return _lifted(DIALECTS[0], one.tag, **random.choice(places))


def _labels(one: Planted, random: Random) -> Plan:
    """What a client calls the blocks of its system text: at times longer than what is noted of it."""
    blocks = [{"type": "text", "text": text} for text in (one.tag, "Be kind.")]
    label = f"{'so called ' * random.choice([0, 3, 7])}{one.text}"
    headers = {**JSON, "x-cortex-replay-labels": f"{quote(label, safe='')},kind"}
    return replace(_lifted(DIALECTS[0], one.tag, system=blocks), headers=headers)


def _cache_words(one: Planted, random: Random) -> Plan:
    """What OpenAI's cache is told."""
    names = ["prompt_cache_key", "prompt_cache_retention"]
    places: list[dict[str, Any]] = [{name: one.written} for name in names]
    places.append({"prompt_cache_options": {"mode": one.written}})
    return _lifted(DIALECTS[2], one.tag, **random.choice(places))


def _cache_miss_reason(one: Planted, _: Random) -> Plan:
    reason = {"diagnostics": {"cache_miss_reason": {"type": one.written}}}
    return _lifted(DIALECTS[0], one.tag, whole(DIALECTS[0].answer(one.tag) | reason))


def _text_parts(one: Planted, random: Random) -> Plan:
    """Split over neighbouring parts of a message."""
    parts = [{"type": "text", "text": piece} for piece in _halves(random, one.text)]
    return _lifted(DIALECTS[0], one.tag, messages=[{"role": "user", "content": parts}])


def _halves(random: Random, text: str) -> list[str]:
    at = random.randrange(len(text) // 4, 3 * len(text) // 4)
    return [text[:at], text[at:]]


def _embeddings(one: Planted, _: Random) -> Plan:
    return Plan("/openai/v1/embeddings", _json({"model": "e", "input": one.text}), headers=JSON)


def _embeddings_list(one: Planted, random: Random) -> Plan:
    """Cut in the middle of the secret, over two or more neighbours."""
    at = random.randrange(4, len(one.written) - 4)
    pieces = [f"{one.tag} ", one.written[:at], one.written[at:]]
    if random.random() < 0.5:
        pieces = [one.tag, *cuts(random, one.written)]
    return Plan("/openai/v1/embeddings", _json({"model": "e", "input": pieces}), headers=JSON)


def _object_name(one: Planted, _: Random) -> Plan:
    body = {"model": "e", "input": one.tag, "extra": {one.written: one.tag}}
    return Plan("/openai/v1/embeddings", _json(body), headers=JSON)


def _object_name_in_answer(one: Planted, _: Random) -> Plan:
    body = {"model": "e", "input": one.tag}
    answer = whole({"data": [{one.written: one.tag}]})
    return Plan("/openai/v1/embeddings", _json(body), headers=JSON, answer=answer)


def _list_in_answer(one: Planted, random: Random) -> Plan:
    answer = whole({"data": [one.tag, *cuts(random, one.written)]})
    return Plan("/openai/v1/embeddings", _json({"input": one.tag}), headers=JSON, answer=answer)


def _token_count(one: Planted, _: Random) -> Plan:
    body = {"model": "m", "system": one.tag, "messages": [{"role": "user", "content": one.text}]}
    return Plan("/anthropic/v1/messages/count_tokens", _json(body), headers=JSON)


def _model_list(one: Planted, _: Random) -> Plan:
    answer = whole({"object": "list", "data": [{"id": one.written, "owned_by": one.tag}]})
    return Plan(f"/openai/v1/models?after={one.tag}", method="GET", answer=answer)


def _form(one: Planted, _: Random) -> Plan:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    content = urlencode({"purpose": one.tag, "note": one.written}).encode()
    return Plan("/openai/v1/files", content, headers=headers)


def _form_name(one: Planted, _: Random) -> Plan:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return Plan("/openai/v1/files", urlencode({one.written: one.tag}).encode(), headers=headers)


def _multipart(one: Planted, random: Random) -> Plan:
    boundary = f"b{random.randrange(10**9)}"
    fields = {"purpose": one.tag, "file": one.text}
    parts = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    content = "".join([*parts, f"--{boundary}--\r\n"]).encode()
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    return Plan("/openai/v1/files", content, headers=headers)


def _binary_request(one: Planted, _: Random) -> Plan:
    headers = {"content-type": "application/octet-stream", "x-note": one.tag}
    return Plan("/openai/v1/audio/transcriptions", b"\xff\xfe\x00" + one.text.encode(), headers=headers)


def _binary_answer(one: Planted, random: Random) -> Plan:
    data = b"\xff\xfe\x00" * random.randrange(1, 4) + one.text.encode() + b"\x80"
    answer = whole(data, 200, "audio/mpeg")
    return Plan("/openai/v1/audio/speech", _json({"input": one.tag}), headers=JSON, answer=answer)


def _text_answer(one: Planted, _: Random) -> Plan:
    answer = whole(one.text.encode(), 200, "text/plain")
    return Plan("/openai/v1/files/content", _json({"input": one.tag}), headers=JSON, answer=answer)


def _other_sse(one: Planted, random: Random) -> Plan:
    """Events of another API: a delta each, under a name that no wire has."""
    name = random.choice(["delta", "text", "output", "transcript", "token"])
    events = [
        f"data: {json.dumps({'type': 'x', name: piece})}\n\n".encode() for piece in cuts(random, one.text)
    ]
    return Plan(
        "/openai/v1/audio/transcriptions", _json({"input": one.tag}), headers=JSON, answer=stream(events)
    )


def _plain_sse(one: Planted, random: Random) -> Plan:
    """Events whose data is the text itself."""
    events = [f"data: {piece}\n\n".encode() for piece in cuts(random, one.written)]
    note = f"data: {one.tag}\n\n".encode()
    answer = stream([note, *events])
    return Plan("/openai/v1/audio/speech", _json({"input": one.tag}), headers=JSON, answer=answer)


def _other_ndjson(one: Planted, random: Random) -> Plan:
    lines = [(json.dumps({"status": piece}) + "\n").encode() for piece in cuts(random, one.text)]
    answer = stream(lines, "application/x-ndjson")
    return Plan("/ollama/api/pull", _json({"model": one.tag}), headers=JSON, answer=answer)


def _path(one: Planted, _: Random) -> Plan:
    return Plan(f"/openai/v1/files/{quote(one.written, safe='')}/{one.tag}", method="GET")


def _query(one: Planted, _: Random) -> Plan:
    return Plan(f"/openai/v1/files?after={one.tag}&{urlencode({'cursor': one.written})}", method="GET")


def _query_name(one: Planted, _: Random) -> Plan:
    return Plan(f"/openai/v1/files?after={one.tag}&{urlencode({one.written: 'x'})}", method="GET")


def _credential_in_query(one: Planted, random: Random) -> Plan:
    """A key that a client brings in the query, and that the server repeats."""
    name = random.choice(["api_key", "token", "access_token", "sig"])
    answer = whole({"you": f"{one.tag} sent {one.value}"})
    query = urlencode({"after": one.tag, name: one.value})
    return Plan(f"/openai/v1/files?{query}", method="GET", answer=answer)


def _request_header(one: Planted, random: Random) -> Plan:
    name = random.choice(["x-note", "user-agent", "openai-organization", "anthropic-beta", "accept"])
    body = {"model": "m", "system": "s", "messages": [{"role": "user", "content": one.tag}]}
    headers = {**JSON, name: one.written}
    return Plan("/anthropic/v1/messages/count_tokens", _json(body), headers=headers)


def _response_header(one: Planted, random: Random) -> Plan:
    name = random.choice(["request_id", "x_request_id", "retry_after", "x_other", "set_cookie", "location"])

    async def script(exchange: Exchange) -> None:
        await exchange.whole(b'{"data": []}', 200, "application/json", **{name: one.written})

    body = {"model": "e", "input": one.tag}
    return Plan("/openai/v1/embeddings", _json(body), headers=JSON, answer=script)


def _content_type(one: Planted, _: Random) -> Plan:
    answer = whole(b"{}", 200, f'application/json; note="{one.written}"')
    return Plan("/openai/v1/embeddings", _json({"input": one.tag}), headers=JSON, answer=answer)


def _lifted_header(one: Planted, random: Random) -> Plan:
    dialect = random.choice(DIALECTS)
    name = random.choice(["request_id", "x_request_id"])
    return _lifted(dialect, one.tag, whole(dialect.answer(one.tag), 200, **{name: one.written}))


def _kept_refusal(one: Planted, random: Random) -> Plan:
    """Errors of calls that are recorded as they are: some are kept, some are not."""
    status = random.choice([400, 404, 401, 429, 500])
    answer = whole({"error": {"message": one.text}}, status)
    return Plan("/openai/v1/embeddings", _json({"input": one.tag}), headers=JSON, answer=answer)


def _redirect(one: Planted, _: Random) -> Plan:
    answer = whole(b"", 307, location=f"http://127.0.0.1:1/?k={quote(one.written, safe='')}")
    return Plan("/openai/v1/embeddings", _json({"input": one.tag}), headers=JSON, answer=answer)


def _own_key(one: Planted, random: Random) -> Plan:
    """A key that only the client has: known from the moment it is used."""
    dialect = DIALECTS[0]
    texts = {
        "answer": whole(dialect.answer(f"{one.tag} used {one.written}")),
        "error": whole(dialect.error(400, f"{one.tag}: wrong key {one.written}"), 400),
        "event": stream([dialect.events("a")[0], dialect.error_event(f"{one.tag}: {one.written}")]),
    }
    plan = _lifted(dialect, one.tag, random.choice(list(texts.values())))
    return Plan(plan.path, plan.content, headers={**JSON, "x-api-key": one.value}, answer=plan.answer)


def _scope(one: Planted, _: Random) -> Plan:
    """The name of a test, in front of the path."""
    return Plan(
        f"/s-{quote(one.written, safe='')}{route(DIALECTS[1])}", asked(DIALECTS[1], one.tag), headers=JSON
    )


def _unheard_of(one: Planted, _: Random) -> Plan:
    """A provider that there is not."""
    return Plan(f"/{quote(one.written, safe='')}/v1/{one.tag}", method="GET")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _by_wire(name: str, make: Callable[[Dialect], WhatToDo]) -> dict[str, WhatToDo]:
    return {f"gateway, {dialect}: {name}": make(dialect) for dialect in DIALECTS}


FAILURES: Final[dict[str, WhatToDo]] = {
    **_by_wire("failure", _failure),
    **_by_wire("error event", _error_event),
    **_by_wire("200 with an error", _error_with_200),
}
PLANS: Final[dict[str, WhatToDo]] = {
    **_by_wire("prompt", _prompt),
    **_by_wire("answer", _answer),
    **_by_wire("stream", _stream),
    **FAILURES,
    "gateway: system, metadata, extras": _system_and_extras,
    "gateway: labels": _labels,
    "gateway: what a cache is told": _cache_words,
    "gateway: a cache's reason": _cache_miss_reason,
    "gateway: neighbouring text parts": _text_parts,
    "gateway: property of a tool": _tool_name_in_request,
    "gateway: tool arguments": _tool_arguments,
    "gateway: name in tool arguments": _tool_arguments_name,
    "gateway: id of a tool call": _tool_id,
    "gateway: model name": _model_name,
    "gateway: model that answered": _answering_model,
    "gateway: header of a completion": _lifted_header,
    "gateway: scope": _scope,
    "gateway: provider in the path": _unheard_of,
    "exchange: embeddings": _embeddings,
    "exchange: list of strings": _embeddings_list,
    "exchange: list in the answer": _list_in_answer,
    "exchange: object name": _object_name,
    "exchange: object name in the answer": _object_name_in_answer,
    "exchange: token count": _token_count,
    "exchange: model list": _model_list,
    "exchange: form": _form,
    "exchange: form name": _form_name,
    "exchange: multipart": _multipart,
    "exchange: binary request": _binary_request,
    "exchange: binary answer": _binary_answer,
    "exchange: text answer": _text_answer,
    "exchange: SSE": _other_sse,
    "exchange: SSE of plain text": _plain_sse,
    "exchange: NDJSON": _other_ndjson,
    "exchange: path": _path,
    "exchange: query": _query,
    "exchange: query name": _query_name,
    "exchange: credential in the query": _credential_in_query,
    "exchange: request header": _request_header,
    "exchange: response header": _response_header,
    "exchange: content type": _content_type,
    "exchange: error": _kept_refusal,
    "exchange: redirect": _redirect,
    OWN_KEY: _own_key,
}
