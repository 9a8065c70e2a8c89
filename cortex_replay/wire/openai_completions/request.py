"""Requests of the completions API.

The model goes on with the prompt itself: no template of a chat is put around it. Ollama calls that ``raw``,
and so does the request here, so that a completion never has the key of a chat.
"""

from __future__ import annotations

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole
from cortex_replay.wire.body import (
    Body,
    is_number,
    parameters,
    put,
    take,
    take_integer,
    take_stop,
    take_text,
)

__all__ = ["encode_request", "lift_request"]


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    model = take_text(rest, "model")
    if "raw" in rest:
        raise InvalidRequest("raw", "openai-completions has no such parameter")
    prompt = rest.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]  # a list of one prompt asks for what the prompt alone asks for
    messages = []
    if isinstance(prompt, str):  # several, or tokens, stay as they are
        messages.append(LlmMessage(LlmRole.USER, prompt))
        del rest["prompt"]
    elif not isinstance(prompt, list | dict | None):
        raise InvalidRequest("prompt", "expected text or a list")
    return LlmRequest(
        model=model,
        messages=messages,
        temperature=take(rest, "temperature", is_number),
        max_tokens=take_integer(rest, "max_tokens", 0),
        stop=take_stop(rest, "stop"),
        top_p=take(rest, "top_p", is_number),
        top_k=take_integer(rest, "top_k", 0),
        seed=take_integer(rest, "seed"),
        extra={**rest, "raw": True},
    )


def encode_request(request: LlmRequest) -> Body:
    body: Body = {"model": request.model}
    match request.messages:
        case (message,) if message.role is LlmRole.USER and not message.parts:
            body["prompt"] = message.content
        case ():
            pass
        case _:
            raise InvalidRequest("messages", "openai-completions carries one prompt: a user message of text")
    if request.extra.get("raw") is not True:
        raise InvalidRequest("extra.raw", "openai-completions sends a prompt as it is: say so with true")
    put(body, "temperature", request.temperature)
    put(body, "max_tokens", request.max_tokens)
    put(body, "top_p", request.top_p)
    put(body, "top_k", request.top_k)
    put(body, "seed", request.seed)
    put(body, "stop", list(request.stop) or None)
    for name, value in request.extra.items():
        if name != "raw":
            body.setdefault(name, value)
    return body
