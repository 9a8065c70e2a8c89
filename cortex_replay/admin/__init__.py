"""The admin RPC: completions for those who hold no key. `docs/admin.md` is the guide.

What a program needs that calls it is here; the server's side is in the modules.
"""

from cortex_replay.admin.client import AdminClient
from cortex_replay.admin.errors import AdminError, Code
from cortex_replay.admin.values import (
    LLM_COMPLETE_METHOD,
    METHOD,
    LlmChatMessage,
    LlmCompleteInput,
    LlmCompleteMessage,
    LlmCompleteOutput,
    LlmCompleteResponse,
    LlmCompleteUsage,
    LlmUsage,
)

__all__ = [
    "LLM_COMPLETE_METHOD",
    "METHOD",
    "AdminClient",
    "AdminError",
    "Code",
    "LlmChatMessage",
    "LlmCompleteInput",
    "LlmCompleteMessage",
    "LlmCompleteOutput",
    "LlmCompleteResponse",
    "LlmCompleteUsage",
    "LlmUsage",
]
