"""Record real model calls once; replay them for ever, from files whose every byte is vouched for."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from cortex_replay.adapters import LlmAdapter, ReplayAdapter
from cortex_replay.errors import (
    BudgetSpent,
    Finding,
    FixtureConflict,
    FixtureIntegrityFailed,
    InvalidRequest,
    LlmError,
    NoFixture,
    RecordingRefused,
    ResponseParse,
    StoreIo,
    Timeout,
    Transport,
    Upstream,
)
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import Answer, Fixture, FixtureKey, Store, TimedChunk
from cortex_replay.store.trusted import use_wire_decoder
from cortex_replay.types import (
    JsonValue,
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

if TYPE_CHECKING:
    from cortex_replay.adapters.claude import ClaudeAdapter
    from cortex_replay.adapters.ollama import OllamaAdapter
    from cortex_replay.adapters.openai_compat import OpenAICompatAdapter
    from cortex_replay.recorder import RecordingAdapter
    from cortex_replay.recorder.faults import FaultAdapter

__all__ = [
    "Answer",
    "BudgetSpent",
    "ClaudeAdapter",
    "FaultAdapter",
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
    "OllamaAdapter",
    "OpenAICompatAdapter",
    "PromptCachePlan",
    "RecordingAdapter",
    "RecordingRefused",
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


def _decode_wire(wire: Mapping[str, JsonValue], asked_model: str) -> LlmResponse:
    """Load the codecs with the first recorded wire that is checked."""
    from cortex_replay.wire.recorded import decode_recorded  # noqa: PLC0415

    return decode_recorded(wire, asked_model)


use_wire_decoder(_decode_wire)

_ON_DEMAND = {
    "ClaudeAdapter": "adapters.claude",
    "FaultAdapter": "recorder.faults",
    "OllamaAdapter": "adapters.ollama",
    "OpenAICompatAdapter": "adapters.openai_compat",
    "RecordingAdapter": "recorder",
}


def __getattr__(name: str) -> object:
    """Load what asks real models, and with it the HTTP client, when it is first named: replay needs none."""
    if name in _ON_DEMAND:
        return getattr(import_module(f"cortex_replay.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
