"""Record real model calls once; replay them forever, from files whose every byte is vouched for.

Every public name is loaded when it is first used: a command, or a test run with nothing to replay, starts
without what it does not need.
"""

TYPE_CHECKING = False  # as type checkers read it; `typing` itself is slow to load
if TYPE_CHECKING:
    from cortex_replay.adapters import LlmAdapter as LlmAdapter, WrapperAdapter as WrapperAdapter
    from cortex_replay.adapters.claude import ClaudeAdapter as ClaudeAdapter
    from cortex_replay.adapters.ollama import OllamaAdapter as OllamaAdapter
    from cortex_replay.adapters.openai_compat import OpenAICompatAdapter as OpenAICompatAdapter
    from cortex_replay.engine.recording import RecordingAdapter as RecordingAdapter
    from cortex_replay.engine.replay import ReplayAdapter as ReplayAdapter
    from cortex_replay.errors import (
        BudgetSpent as BudgetSpent,
        ConfigError as ConfigError,
        Finding as Finding,
        FixtureConflict as FixtureConflict,
        FixtureIntegrityFailed as FixtureIntegrityFailed,
        InvalidRequest as InvalidRequest,
        LlmError as LlmError,
        NoFixture as NoFixture,
        RecordingRefused as RecordingRefused,
        ResponseParse as ResponseParse,
        StoreIo as StoreIo,
        Timeout as Timeout,
        Transport as Transport,
        TurnTooLate as TurnTooLate,
        Upstream as Upstream,
    )
    from cortex_replay.faults.adapter import FaultAdapter as FaultAdapter
    from cortex_replay.hashing import blake3_hex as blake3_hex
    from cortex_replay.interception.block import intercept as intercept
    from cortex_replay.modes import Mode as Mode
    from cortex_replay.run import Run as Run
    from cortex_replay.store import (
        Answer as Answer,
        Fixture as Fixture,
        FixtureKey as FixtureKey,
        Store as Store,
        TimedChunk as TimedChunk,
    )
    from cortex_replay.types import (
        LlmMessage as LlmMessage,
        LlmRequest as LlmRequest,
        LlmResponse as LlmResponse,
        LlmRole as LlmRole,
        PromptCachePlan as PromptCachePlan,
        StreamChunk as StreamChunk,
        TokenUsage as TokenUsage,
        ToolCall as ToolCall,
        ToolCallDelta as ToolCallDelta,
    )

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
        "TurnTooLate",
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
__all__ = sorted([*_PLACES, "__version__"])  # noqa: PLE0605 - the names are written down above, once


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a program that starts often needs none of these names

    value = getattr(import_module(f"cortex_replay.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
