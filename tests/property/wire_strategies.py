"""Requests and answers in the form that lifting gives, for each wire within what it can carry."""

from __future__ import annotations

import base64
import itertools
from typing import Any

from hypothesis import strategies as st

from cortex_replay import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from tests.property.strategies import json_values, objects, texts
from tests.sampling import IS_TORTURE

PROTOCOLS = [
    "anthropic-messages",
    "openai-chat",
    "openai-responses",
    "openai-completions",
    "ollama-chat",
    "ollama-generate",
    "cohere-chat",
    "gemini-generate",
    "bedrock-converse",
    # Those above in another wrapper: too much alike to be tried as often.
    *(["bedrock-anthropic", "bedrock-nova"] if IS_TORTURE else []),
]
MESSAGES_API = ("anthropic-messages", "bedrock-anthropic")
CONVERSE = ("bedrock-converse", "bedrock-nova")
LIKE_ANTHROPIC = MESSAGES_API + CONVERSE
GEMINI = "gemini-generate"

said = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
names = st.text("abcdefghij_", min_size=1, max_size=8)
data = st.binary(min_size=1, max_size=12).map(lambda raw: base64.b64encode(raw).decode())
not_null = json_values.filter(lambda value: value is not None)


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def media_parts(protocol: str) -> st.SearchStrategy[dict[str, Any]]:
    if protocol.startswith("ollama"):
        return st.builds(lambda d: {"type": "image", "data": d}, data)
    inline = st.builds(lambda d: {"type": "image", "media_type": "image/png", "data": d}, data)
    pdf = st.builds(lambda d: {"type": "document", "media_type": "application/pdf", "data": d}, data)
    if protocol in CONVERSE:
        return st.one_of(
            inline,
            pdf,
            st.builds(lambda d: {"type": "document", "media_type": "video/mp4", "data": d}, data),
            st.builds(lambda d: {"type": "audio", "media_type": "audio/wav", "data": d}, data),
            st.builds(lambda t: {"type": "document", "text": t, "title": "t"}, said),
            st.just({"type": "image", "media_type": "image/png", "url": "s3://bucket/cat.png"}),
            st.just({"type": "search_result", "source": "s", "content": [text_part("x")]}),
            st.just({"type": "guardContent", "guardContent": {"text": {"text": "x"}}}),
        )
    linked = st.just({"type": "image", "url": "https://example.com/cat.png"})
    if protocol == GEMINI:
        linked = st.just({"type": "image", "media_type": "image/png", "url": "https://example.com/cat.png"})
    kinds = [inline, linked]
    if protocol == "cohere-chat":
        return st.one_of(kinds)
    if protocol in MESSAGES_API:
        kinds += [
            st.builds(lambda t: {"type": "document", "text": t, "title": "t"}, said),
            st.just({"type": "image", "file_id": "file_1"}),
            st.just({"type": "search_result", "source": "s", "content": [text_part("x")]}),
        ]
    elif protocol == GEMINI:
        part = {"executableCode": {"language": "PYTHON", "code": "1"}}
        kinds += [
            st.just({"type": "part", "part": part}),
            st.just({"type": "document", "media_type": "video/mp4", "url": "gs://a/b", "displayName": "b"}),
            st.builds(lambda d: {"type": "audio", "media_type": "audio/wav", "data": d}, data),
        ]
    else:
        kinds.append(st.builds(lambda d: {"type": "audio", "media_type": "audio/wav", "data": d}, data))
        kinds.append(st.just({"type": "image", "url": "https://example.com/a", "detail": "high"}))
    kinds.append(pdf)
    return st.one_of(kinds)


@st.composite
def blocks(draw: st.DrawFn, protocol: str, media: bool = True) -> dict[str, Any]:
    """The content and the parts of a message."""
    if draw(st.booleans()):
        return {"content": draw(texts)}
    if protocol.startswith("ollama"):  # a text, then images
        text = draw(texts)
        images = draw(st.lists(media_parts(protocol), min_size=1, max_size=2))
        return {"content": text, "parts": ([text_part(text)] if text else []) + images}
    one = st.builds(text_part, said)
    parts = draw(st.lists(one | media_parts(protocol) if media else one, min_size=2, max_size=4))
    return {
        "content": "".join(part.get("text", "") for part in parts if part["type"] == "text"),
        "parts": parts,
    }


@st.composite
def assistant_turn(draw: st.DrawFn, protocol: str, call_ids: list[str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": draw(texts)}
    parts: list[dict[str, Any]] = []
    if draw(st.booleans()):
        if protocol == "openai-responses":
            item = {"type": "reasoning", "summary": [], "id": "rs_1", "encrypted_content": "x"}
            parts.append({"type": "verbatim", "verbatim": item})
        else:
            thinking: dict[str, Any] = {"type": "thinking", "thinking": draw(said)}
            if protocol in (*LIKE_ANTHROPIC, GEMINI):
                thinking["signature"] = "c2ln"
            parts.append(thinking)
    if not protocol.startswith("ollama") and draw(st.booleans()):
        several = draw(st.lists(st.builds(text_part, said), min_size=2, max_size=3))
        parts += several
        message["content"] = "".join(part["text"] for part in several)
    if protocol == "openai-chat" and draw(st.booleans()):
        if message["content"] and not any(part["type"] == "text" for part in parts):
            parts.append(text_part(message["content"]))
        parts.append({"type": "refusal", "refusal": draw(said)})
    if parts:
        message["parts"] = parts
    if call_ids:
        message["tool_calls"] = [{"id": i, "name": draw(names), "arguments": draw(objects)} for i in call_ids]
    return message


@st.composite
def gemini_results(draw: st.DrawFn) -> dict[str, Any]:
    """What a function gave: a text, which may be an error, or a value; and pictures beside it."""
    if draw(st.booleans()):
        return {"content": draw(texts), "is_error": draw(st.booleans())}
    response = draw(objects.filter(lambda value: set(value) not in ({"output"}, {"error"})))
    media = draw(st.lists(media_parts(GEMINI), max_size=1))
    return {"content": "", "parts": [{"type": "function_response", "response": response}, *media]}


@st.composite
def conversations(draw: st.DrawFn, protocol: str) -> list[dict[str, Any]]:
    if protocol == "openai-completions":
        return [{"role": "user", "content": draw(texts)}]
    if protocol == "ollama-generate":
        return [{"role": "user", **draw(blocks(protocol))}]
    messages: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(0, 3))):
        messages.append({"role": "user", **draw(blocks(protocol))})
        calls = [f"id{turn}{i}" for i in range(draw(st.integers(0, 2)))]
        messages.append(draw(assistant_turn(protocol, calls)))
        for call_id in calls:
            media = protocol in (*LIKE_ANTHROPIC, "openai-responses", "ollama-chat")
            result: dict[str, Any] = {"role": "tool", "tool_call_id": call_id}
            result |= draw(gemini_results() if protocol == GEMINI else blocks(protocol, media))
            if protocol in LIKE_ANTHROPIC and draw(st.booleans()):
                result["is_error"] = True
            messages.append(result)
        if protocol != GEMINI and draw(st.booleans()):
            messages.append({"role": "system", "content": draw(said)})
    has_name: bool = draw(st.booleans())
    if has_name and messages and not protocol.startswith("ollama"):
        messages[0]["parts"] = [*messages[0].get("parts", []), {"type": "fields", "fields": {"name": "bob"}}]
    return messages


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": draw(names), "input_schema": draw(objects)}
    for name, value in (("description", texts), ("strict", st.booleans())):
        if draw(st.booleans()):
            tool[name] = draw(value)
    return tool


@st.composite
def wire_requests(draw: st.DrawFn, protocol: str) -> LlmRequest:
    is_chat = protocol != "openai-completions"
    fields: dict[str, Any] = {
        "model": draw(names),
        "system": draw(texts) if is_chat else "",
        "messages": draw(conversations(protocol)),
        "temperature": draw(st.none() | st.floats(0, 2)),
        "max_tokens": draw(st.none() | st.integers(0, 2**32)),
        "top_p": draw(st.none() | st.floats(0, 1)),
        "json_schema": draw(st.none() | objects) if is_chat else None,
        "tools": draw(st.lists(tools(), max_size=2)) if is_chat else [],
        "extra": draw(st.dictionaries(st.sampled_from(["x_one", "x_two"]), not_null, max_size=2)),
    }
    if protocol == GEMINI:  # where a name has no underscores, and no null says anything
        fields["extra"] = draw(st.dictionaries(st.sampled_from(["xOne", "xTwo"]), said, max_size=2))
    if not is_chat:
        fields["extra"]["raw"] = True
    if protocol != "openai-responses":
        fields["stop"] = draw(st.lists(texts, max_size=2))
        fields["top_k"] = draw(st.none() | st.integers(0, 100))
    if protocol not in ("openai-responses", *LIKE_ANTHROPIC):
        fields["seed"] = draw(st.none() | st.integers(-(2**63), 2**64 - 1))
    if protocol == "cohere-chat":
        fields["tool_choice"] = draw(st.sampled_from([None, "required", "none"]))
    elif is_chat and not protocol.startswith("ollama"):
        choices = ["required", {"name": "f"}, *([] if protocol in CONVERSE else ["none"])]
        fields["tool_choice"] = draw(st.none() | st.sampled_from(choices))
        if protocol not in (*CONVERSE, GEMINI) and draw(st.booleans()):
            fields["extra"]["parallel_tool_calls"] = False
        has_description = protocol not in (*MESSAGES_API, GEMINI)
        if fields["json_schema"] is not None and has_description and draw(st.booleans()):
            fields["extra"] |= {"schema_description": draw(texts)}
            fields["extra"] |= {} if protocol in CONVERSE else {"strict": True}
    elif is_chat and draw(st.booleans()):
        fields["extra"]["options"] = {"num_ctx": 4096, "repeat_penalty": 1.1}
    return LlmRequest.from_dict(fields)


@st.composite
def responses(draw: st.DrawFn, protocol: str) -> LlmResponse:
    calls = tuple(
        ToolCall(id=f"call{i}", name=draw(names), arguments=draw(objects))
        for i in range(draw(st.integers(0, 2)) if protocol != "openai-completions" else 0)
    )
    prompt = draw(st.integers(0, 1000))
    cached = draw(st.none() | st.integers(0, prompt))
    written = draw(st.none() | st.integers(0, prompt - (cached or 0)))
    counts_writes = protocol in LIKE_ANTHROPIC or protocol.startswith("openai-")
    return LlmResponse(
        text=draw(texts),
        parsed_json=None,
        model="asked" if protocol in (*CONVERSE, "cohere-chat") else draw(names),  # their answers do not say
        usage=TokenUsage(prompt, 7, cached, written if counts_writes else None),
        raw_hash="",
        finish_reason="tool_calls" if calls else draw(st.sampled_from(["stop", "length"])),
        tool_calls=calls,
        reasoning=draw(st.none() | said) if protocol != "openai-completions" else None,
    )


@st.composite
def chunked(draw: st.DrawFn, response: LlmResponse) -> list[StreamChunk]:
    """An answer cut into chunks, as a model might say it."""

    def pieces(text: str) -> list[str]:
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
        ends = [0, *cuts, len(text)]
        return [text[a:b] for a, b in itertools.pairwise(ends) if a != b]

    chunks = [StreamChunk("", reasoning=piece) for piece in pieces(response.reasoning or "")]
    chunks += [StreamChunk(piece) for piece in pieces(response.text)]
    for i, call in enumerate(response.tool_calls):
        whole = ToolCallDelta.whole(i, call)
        chunks.append(StreamChunk("", tool_calls=(ToolCallDelta(i, whole.id, whole.name),)))
        chunks += [
            StreamChunk("", tool_calls=(ToolCallDelta(i, arguments=p),)) for p in pieces(whole.arguments)
        ]
    return [*chunks, StreamChunk("", response.finish_reason, response=response)]
