"""Recording and replay within a process: what SDKs send is intercepted, whatever library they send it with.

>>> from cortex_replay import intercept
>>> with intercept("tests/llm"):  # doctest: +SKIP
...     anthropic.Anthropic().messages.create(...)
"""

from cortex_replay.engine.bypass import bypassing
from cortex_replay.interception.block import intercept
from cortex_replay.interception.guard import LiveCallRefused
from cortex_replay.interception.interception import Interception

__all__ = ["Interception", "LiveCallRefused", "bypassing", "intercept"]
