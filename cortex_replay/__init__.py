"""Record real model calls once; replay them forever, from files whose every byte is vouched for.

Every public name is loaded when it is first used: a command, or a test run with nothing to replay, starts
without what it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortex_replay.adapters import LlmAdapter, WrapperAdapter
    from cortex_replay.adapters.claude import ClaudeAdapter
    from cortex_replay.adapters.ollama import OllamaAdapter
    from cortex_replay.adapters.openai_compat import OpenAICompatAdapter
    from cortex_replay.engine.recording import RecordingAdapter
    from cortex_replay.engine.replay import ReplayAdapter
    from cortex_replay.errors import (
        BudgetSpent,
        ConfigError,
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
    from cortex_replay.faults.adapter import FaultAdapter
    from cortex_replay.hashing import blake3_hex
    from cortex_replay.interception.block import intercept
    from cortex_replay.modes import Mode
    from cortex_replay.run import Run
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
    "BudgetSpent",
    "ClaudeAdapter",
    "ConfigError",
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
    "Mode",
    "NoFixture",
    "OllamaAdapter",
    "OpenAICompatAdapter",
    "PromptCachePlan",
    "RecordingAdapter",
    "RecordingRefused",
    "ReplayAdapter",
    "ResponseParse",
    "Run",
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
    "WrapperAdapter",
    "__version__",
    "blake3_hex",
    "intercept",
]

__version__ = "0.1.0"


_MODULES = {
    "adapters.base": ("LlmAdapter",),
    "adapters.claude": ("ClaudeAdapter",),
    "adapters.ollama": ("OllamaAdapter",),
    "adapters.openai_compat": ("OpenAICompatAdapter",),
    "adapters.wrapper": ("WrapperAdapter",),
    "engine.recording": ("RecordingAdapter",),
    "engine.replay": ("ReplayAdapter",),
    "errors": (
        "BudgetSpent",
        "ConfigError",
        "Finding",
        "FixtureConflict",
        "FixtureIntegrityFailed",
        "InvalidRequest",
        "LlmError",
        "NoFixture",
        "RecordingRefused",
        "ResponseParse",
        "StoreIo",
        "Timeout",
        "Transport",
        "Upstream",
    ),
    "faults.adapter": ("FaultAdapter",),
    "hashing": ("blake3_hex",),
    "interception.block": ("intercept",),
    "modes": ("Mode",),
    "run": ("Run",),
    "store": ("Answer", "Fixture", "FixtureKey", "Store", "TimedChunk"),
    "types": (
        "LlmMessage",
        "LlmRequest",
        "LlmResponse",
        "LlmRole",
        "PromptCachePlan",
        "StreamChunk",
        "TokenUsage",
        "ToolCall",
        "ToolCallDelta",
    ),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"cortex_replay.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
