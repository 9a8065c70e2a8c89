"""Coverage looks at tests and their fixtures alone: it slows what pytest itself does around each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from typing import Any

import pytest


class Tracing:
    """Pauses a trace function of the main thread between the parts of a test."""

    def __init__(self, trace: Callable[..., Any]) -> None:
        self._trace = trace

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """From the first fixture to the last, pytest's own work is not looked at."""
        sys.settrace(None)
        try:
            return (yield)
        finally:
            sys.settrace(self._trace)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_fixture_setup(self) -> Generator[None, object, object]:
        """What a fixture does, also one that a test asks for while it runs."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(before)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """What a test does."""
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
