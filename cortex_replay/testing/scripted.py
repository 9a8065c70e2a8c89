"""An adapter that answers by rules."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from cortex_replay import validation as check
from cortex_replay.errors import InvalidRequest, Timeout
from cortex_replay.testing.performance import Performance, PerformanceAdapter, respond
from cortex_replay.testing.request_view import RequestView
from cortex_replay.testing.rules import Reply, Rule, perform
from cortex_replay.testing.script import default_rules, load_rules, rules_of
from cortex_replay.types import LlmRequest, LlmResponse

__all__ = ["ScriptedAdapter"]

ScriptResult = str | Reply | LlmResponse | None
Script = Sequence[Rule | Mapping[str, Any]] | Callable[[LlmRequest], ScriptResult | Awaitable[ScriptResult]]


class ScriptedAdapter(PerformanceAdapter):
    """Answers by rules: the first one that fits, with streams, tool calls and failures as scripted.

    It is a class to carry a count: rules with several answers, and rules for the n-th call, count the
    calls of one adapter. A call counts when it starts, whatever becomes of it. One adapter may be
    used from any number of tasks, threads and event loops.

    Args:
        script: Rules; or a function that takes the request and returns (or, if it is async, is awaited
            for) a text, a :class:`Reply`, a whole response, or ``None`` where it has no answer. What
            the function raises is not touched. Without a script, :func:`default_rules`.
    """

    adapter_id: ClassVar[str] = "scripted"

    def __init__(self, script: Script | None = None) -> None:
        self._function = script if callable(script) else None
        self._rules = () if callable(script) else default_rules() if script is None else rules_of(script)
        self._matches = [0] * len(self._rules)
        self._replies = [0] * len(self._rules)
        self._lock = threading.Lock()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Answer by the rules of a TOML file; `docs/testing.md` describes it.

        Raises:
            InvalidRequest: It cannot be read, or a rule is not as it should be.
        """
        return cls(load_rules(path))

    async def _perform(self, request: LlmRequest) -> Performance:
        if self._function is None:
            return self._perform_rule(request)
        result = self._function(request)
        if inspect.isawaitable(result):
            result = await _in_time(result, request.timeout_ms)
        return _performance_of(result, request)

    def _perform_rule(self, request: LlmRequest) -> Performance:
        view = RequestView(request)
        with self._lock:  # around all of it: calls meet every rule in one order
            number, groups = self._first_fit(view)
            given = self._replies[number]
            self._replies[number] += 1
        rule = self._rules[number]
        content = rule.nth(given)
        if content is None:
            reason = f"rule {number + 1} has given all its {len(rule.answers)} answers: {view}"
            raise InvalidRequest("messages", reason)
        places = {"last_user": view.last_user or "", "last_tool": view.last_tool or ""}
        return perform(content, request, {**places, "model": request.model, **groups})

    def _first_fit(self, view: RequestView) -> tuple[int, dict[str, str]]:
        """The rule that answers, by its place, and what it found.

        A rule for the n-th call counts those that another one answers too: rules for the first, the
        second and the third call may stand one after another.
        """
        first: tuple[int, dict[str, str]] | None = None
        for number, rule in enumerate(self._rules):
            turn = rule.when.turn
            if first is not None and turn is None:
                continue
            groups = rule.when.match(view)
            if groups is None:
                continue
            self._matches[number] += 1
            if first is None and turn in (None, self._matches[number]):
                first = number, groups
        if first is None:
            raise InvalidRequest("messages", f"no rule of the script fits {view}")
        return first


async def _in_time(result: Awaitable[ScriptResult], timeout_ms: int) -> ScriptResult:
    timeout = asyncio.timeout(timeout_ms / 1000)
    try:
        async with timeout:
            return await result
    except TimeoutError:
        if timeout.expired():
            raise Timeout(timeout_ms) from None
        raise


def _performance_of(result: object, request: LlmRequest) -> Performance:
    if isinstance(result, str):
        return Performance(response=respond(request, check.text(result, "script")))
    if isinstance(result, Reply):
        return perform(result, request)
    if isinstance(result, LlmResponse):
        reason = result.finish_reason or ("tool_calls" if result.tool_calls else "stop")
        return Performance(response=dataclasses.replace(result, finish_reason=reason))
    if result is None:
        raise InvalidRequest("messages", f"the script has no answer to {RequestView(request)}")
    expected = "a text, a Reply, an LlmResponse or None"
    raise InvalidRequest("script", f"the function gave {check.kind_of(result)}, not {expected}")
