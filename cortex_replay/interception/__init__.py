"""Recording and replay within a process: SDKs on httpx and httpx2 are intercepted at their transport.

>>> from cortex_replay import intercept
>>> with intercept("tests/llm"):  # doctest: +SKIP
...     anthropic.Anthropic().messages.create(...)
"""

from cortex_replay.engine.bypass import bypassing
from cortex_replay.interception.block import intercept
from cortex_replay.interception.guard import LiveCallRefused
from cortex_replay.interception.interception import Interception

__all__ = ["Interception", "LiveCallRefused", "bypassing", "intercept"]
