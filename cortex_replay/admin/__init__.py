"""The admin RPC: completions for those who hold no key. `docs/admin.md` is the guide.

What a program needs that calls it is here; the server's side is in the modules.
"""

from cortex_replay.admin.client import AdminClient
from cortex_replay.admin.errors import AdminError, Code
from cortex_replay.admin.values import (
    METHOD,
    LlmCompleteInput,
    LlmCompleteMessage,
    LlmCompleteOutput,
    LlmCompleteUsage,
)

__all__ = [
    "METHOD",
    "AdminClient",
    "AdminError",
    "Code",
    "LlmCompleteInput",
    "LlmCompleteMessage",
    "LlmCompleteOutput",
    "LlmCompleteUsage",
]
