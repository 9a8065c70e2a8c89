"""Record real model calls once; replay them for ever, from files whose every byte is vouched for."""

from cortex_replay.adapters import LlmAdapter, ReplayAdapter
from cortex_replay.errors import (
    Finding,
    FixtureConflict,
    FixtureIntegrityFailed,
    InvalidRequest,
    LlmError,
    NoFixture,
    ResponseParse,
    StoreIo,
    Timeout,
    Transport,
    Upstream,
)
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import Answer, Fixture, FixtureKey, Store, TimedChunk
from cortex_replay.types import (
    LlmMessage,
    LlmRequest,
    LlmResponse,
    LlmRole,
    PromptCachePlan,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)

__all__ = [
    "Answer",
    "Finding",
    "Fixture",
    "FixtureConflict",
    "FixtureIntegrityFailed",
    "FixtureKey",
    "InvalidRequest",
    "LlmAdapter",
    "LlmError",
    "LlmMessage",
    "LlmRequest",
    "LlmResponse",
    "LlmRole",
    "NoFixture",
    "PromptCachePlan",
    "ReplayAdapter",
    "ResponseParse",
    "Store",
    "StoreIo",
    "StreamChunk",
    "TimedChunk",
    "Timeout",
    "TokenUsage",
    "ToolCall",
    "ToolCallDelta",
    "Transport",
    "Upstream",
    "__version__",
    "blake3_hex",
]

__version__ = "0.1.0"
