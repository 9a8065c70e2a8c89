"""The values that everything else passes around: frozen, typed, validated when made.

A value that exists is a value that can be hashed, stored and sent. Each constructor takes plain
dicts and strings where they can mean only one thing, keeps its own copy of free JSON, and refuses
everything else with :class:`~cortex_replay.errors.InvalidRequest`, which names the field.
"""

from cortex_replay.canonical import JsonValue
from cortex_replay.types.message import LlmMessage, LlmRole
from cortex_replay.types.request import REQUEST_FIELDS, CacheMark, CacheTime, LlmRequest, PromptCachePlan
from cortex_replay.types.response import LlmResponse, StreamChunk, TokenUsage
from cortex_replay.types.tools import ToolCall, ToolCallDelta

__all__ = [
    "REQUEST_FIELDS",
    "CacheMark",
    "CacheTime",
    "JsonValue",
    "LlmMessage",
    "LlmRequest",
    "LlmResponse",
    "LlmRole",
    "PromptCachePlan",
    "StreamChunk",
    "TokenUsage",
    "ToolCall",
    "ToolCallDelta",
]
