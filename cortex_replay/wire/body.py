"""What lifting and lowering a request have in common, whatever the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRole
from cortex_replay.validation import MAX_U64, kind_of

__all__ = [
    "DROPPED",
    "DROPPED_WITHIN",
    "Block",
    "Body",
    "blocks_of",
    "content_and_parts",
    "fields_part",
    "is_number",
    "is_text_list",
    "lift_choice",
    "lift_content",
    "lift_message_list",
    "lift_tool",
    "parameters",
    "put",
    "take",
    "take_integer",
    "take_stop",
    "take_text",
    "take_tools",
    "text_block",
    "verbatim_message",
    "verbatim_of",
    "without_nulls",
    "without_unseen",
]

Block = dict[str, Any]
Body = dict[str, Any]

DROPPED: Final[Mapping[str, str]] = {
    "stream": "how the answer travels",
    "stream_options": "how the answer travels",
    "encoding_format": "how the answer travels",
    "metadata": "for the provider's records",
    "client_metadata": "for the provider's records",
    "user": "for the provider's records",
    "user_profile_id": "for the provider's records",
    "workspace_id": "for the provider's records",
    "safety_identifier": "for the provider's records",
    "store": "for the provider's records",
    "requestMetadata": "for the provider's records",
    "labels": "for the provider's records",
    "diagnostics": "what the provider looks into when a prompt was not cached",
    "service_tier": "how fast and at what price",
    "serviceTier": "how fast and at what price",
    "performanceConfig": "how fast and at what price",
    "anthropic_version": "how the request is written",
    "keep_alive": "how long the server holds the model",
    "cache_control": "what the provider keeps of the prompt",
    "prompt_cache_key": "what the provider keeps of the prompt",
    "prompt_cache_options": "what the provider keeps of the prompt",
    "prompt_cache_retention": "what the provider keeps of the prompt",
}
"""Parameters that no model sees, and why each is out of the key. Every other one counts."""

DROPPED_WITHIN: Final[Mapping[str, str]] = {
    "cache_control": "what the provider keeps of the prompt",
    "prompt_cache_breakpoint": "what the provider keeps of the prompt",
    "internal_chat_message_metadata_passthrough": "for the provider's records",
}
"""Fields of messages, items, blocks and tools that no model sees, and why. Every other one counts."""

_F32_MAX: Final = 3.4028234e38


def parameters(body: object) -> Body:
    """A body's parameters that count; ``null`` is as good as absent.

    Raises:
        InvalidRequest: The body is not an object.
    """
    if not isinstance(body, dict):
        raise InvalidRequest("body", f"expected an object, not {kind_of(body)}")
    return {name: value for name, value in body.items() if value is not None and name not in DROPPED}


def without_nulls(value: Mapping[str, Any], *dropped: str) -> Block:
    """A block's fields that say something."""
    return {name: item for name, item in value.items() if item is not None and name not in dropped}


def without_unseen(value: Mapping[str, Any], *dropped: str) -> Block:
    """As :func:`without_nulls`, for what a model reads: without what it does not see there."""
    return without_nulls(value, *DROPPED_WITHIN, *dropped)


def put(body: Body, name: str, value: object) -> None:
    """Put a parameter into a body where the request has it."""
    if value is not None:
        body[name] = value


def take_text(rest: Body, name: str) -> str:
    value = rest.pop(name, None)
    if not isinstance(value, str):
        raise InvalidRequest(name, f"expected text, not {kind_of(value)}")
    return value


def take(rest: Body, name: str, fits: Callable[[object], bool]) -> Any:
    """Take a parameter out of ``rest`` if its field can hold it; else it stays, and counts there."""
    return rest.pop(name) if name in rest and fits(rest[name]) else None


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_F32_MAX <= value <= _F32_MAX


def take_integer(rest: Body, name: str, least: int = -(2**63)) -> int | None:
    """As :func:`take`, for a whole number, however it is spelled."""
    value = rest.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MAX_U64:
        return None
    if value != int(value):
        return None
    return int(rest.pop(name))


def take_stop(rest: Body, name: str) -> tuple[str, ...]:
    """The stop sequences, given as a text or a list."""
    value = take(rest, name, lambda v: isinstance(v, str) or is_text_list(v)) or ()
    return (value,) if isinstance(value, str) else tuple(value)


def is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def content_and_parts(blocks: list[Block]) -> tuple[str, tuple[Block, ...]]:
    """The two fields that a list of blocks becomes: exactly one plain text needs no parts."""
    content = "".join(block["text"] for block in blocks if _is_text(block))
    is_plain = not blocks or (len(blocks) == 1 and _is_text(blocks[0]) and len(blocks[0]) == 2)
    return content, () if is_plain else tuple(blocks)


def fields_part(message: Mapping[str, Any], *known: str) -> tuple[Block, ...]:
    """A message's fields beyond the known ones, as its last part."""
    fields = without_unseen(message, *known)
    return ({"type": "fields", "fields": fields},) if fields else ()


def blocks_of(message: LlmMessage, where: str) -> tuple[list[Block], Block]:
    """A message's blocks and its further fields, to be lowered.

    The content is a block of its own, after the others, unless these hold the text already.
    """
    blocks: list[Block] = []
    fields: Block = {}
    for i, part in enumerate(message.parts):
        if not isinstance(part, dict):
            raise InvalidRequest(f"{where}.parts[{i}]", f"expected an object, not {kind_of(part)}")
        if "blake3" in part:
            reason = "holds only the hash of its data, which cannot be sent; give the data itself"
            raise InvalidRequest(f"{where}.parts[{i}]", reason)
        if part.get("type") == "fields" and isinstance(part.get("fields"), dict):
            fields = dict(part["fields"])  # type: ignore[arg-type]
        else:
            blocks.append(part)
    if message.content and not any(_is_text(block) for block in blocks):
        blocks.append(text_block(message.content))
    return blocks, fields


def verbatim_message(message: Block) -> LlmMessage:
    """A message of a kind that is not known here; it counts as it is."""
    return LlmMessage(LlmRole.USER, "", parts=({"type": "verbatim", "verbatim": message},))


def verbatim_of(block: Block) -> Block | None:
    """What a verbatim part holds."""
    inner = block.get("verbatim") if block.get("type") == "verbatim" else None
    return dict(inner) if isinstance(inner, dict) else None


def lift_message_list(
    value: object, name: str, lift: Callable[[Block], Iterable[LlmMessage]]
) -> list[LlmMessage]:
    """Every message of a list, in order.

    Raises:
        InvalidRequest: It is not a list of objects, or one of them cannot be read.
    """
    if not isinstance(value, list):
        raise InvalidRequest(name, f"expected a list, not {kind_of(value)}")
    messages: list[LlmMessage] = []
    for i, message in enumerate(value):
        if not isinstance(message, dict):
            raise InvalidRequest(f"{name}[{i}]", f"expected an object, not {kind_of(message)}")
        try:
            messages.extend(lift(message))
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}[{i}].{error.field}", error.reason) from None
    return messages


def lift_content(content: object, lift_block: Callable[[Block], Block]) -> list[Block]:
    """The blocks of a content that is a text, a list of blocks, or nothing.

    Raises:
        InvalidRequest: It is something else.
    """
    if not content:
        return []
    if isinstance(content, str):
        return [text_block(content)]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise InvalidRequest("content", f"expected text or a list of objects, not {kind_of(content)}")
    return [lift_block(block) for block in content]


def lift_tool(tool: JsonValue, *, is_typed: bool = False) -> JsonValue:
    """A tool without its wrapper: ``name``, ``description``, ``input_schema`` and whatever else.

    Args:
        tool: As it was sent.
        is_typed: Whether a tool of this wire must say that it is a function. One that does not is none.
    """
    if not isinstance(tool, dict):
        return tool
    plain = without_unseen(tool)
    if is_typed and "type" not in plain and "name" in plain:
        return {"type": None, **plain}
    if plain.get("type") == "mcp":
        plain = without_nulls(plain, "authorization", "headers")  # for the server, not for the model
    if plain.get("type") == "function" and set(plain) == {"type", "function"}:
        inner = plain["function"]
        plain = {"type": "function", **without_nulls(inner)} if isinstance(inner, dict) else plain
    if plain.get("type") in ("function", "custom") and ("name" in plain):
        if plain["type"] == "custom" and "input_schema" not in plain:
            return plain  # OpenAI's custom tools are another thing
        del plain["type"]
    if "parameters" in plain and "input_schema" not in plain:
        plain["input_schema"] = plain.pop("parameters")
    return plain


def take_tools(rest: Body, *, is_typed: bool = False) -> list[JsonValue]:
    """The tools of a body, each as :func:`lift_tool` has it."""
    tools = take(rest, "tools", lambda value: isinstance(value, list)) or ()
    return [lift_tool(tool, is_typed=is_typed) for tool in tools]


def lift_choice(choice: JsonValue) -> JsonValue:
    """A tool choice in the one form for the four things every provider can say; any other as it is."""
    if not isinstance(choice, str | dict):
        return choice
    plain = {"type": choice} if isinstance(choice, str) else without_nulls(choice)
    function = plain.get("function")
    if isinstance(function, dict) and set(plain) == {"type", "function"}:
        plain = {**without_nulls(function), "type": plain["type"]}
    match plain:
        case {"type": "auto"} if len(plain) == 1:
            return None
        case {"type": "any" | "required"} if len(plain) == 1:
            return "required"
        case {"type": "none"} if len(plain) == 1:
            return "none"
        case {"type": "tool" | "function", "name": str(name)} if len(plain) == 2:
            return {"name": name}
    if plain.keys() <= {"name"}:
        return {"type": None, **plain}  # without a type it says nothing on any wire, but would here
    return choice
