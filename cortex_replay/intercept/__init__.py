"""Recording and replay inside of a process: SDKs on httpx and httpx2 are intercepted at their transport.

>>> from cortex_replay import intercept
>>> with intercept("tests/llm"):  # doctest: +SKIP
...     anthropic.Anthropic().messages.create(...)

The module can be called itself, because ``cortex_replay.intercept`` is both.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from cortex_replay.intercept.block import intercept
from cortex_replay.intercept.guard import LiveCallRefused
from cortex_replay.intercept.interception import Interception, bypassing

__all__ = ["Interception", "LiveCallRefused", "bypassing", "intercept"]


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return intercept(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
