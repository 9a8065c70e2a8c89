"""One recorded test as a family: every call fails once in every way."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from cortex_replay.errors import InvalidRequest, LlmError
from cortex_replay.faults import Fault
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.pytest_plugin.session import LlmSession
from cortex_replay.pytest_plugin.terminal import shown

__all__ = ["family_of"]

_FAULTS: Final = ("429:0.01", "529", "timeout", "cut", "malformed-tool")
_FAULTS_OF_TOOLS: Final = ("tool-error", "tool-fail")


def family_of(session: LlmSession, test: str, marker: pytest.Mark) -> list[str]:
    """The faults of each member; the first is the test itself. While recording there is only that."""
    if session.run.mode.asks:
        return [""]
    try:
        named = [Fault.parse(str(kind).partition("@")[0]) for kind in marker.args]
    except InvalidRequest as error:
        raise pytest.UsageError(shown(f"{test}: llm_faults: {error.reason}")) from None
    models, tools = _recorded_calls(session, session.clean(test))
    if not models and not tools:
        models = 1
    kinds = named or [Fault.parse(kind) for kind in (*_FAULTS, *(_FAULTS_OF_TOOLS if tools else ()))]
    counts = {
        kind: sum(kind.fits(*tool) for tool in tools) or bool(named) if kind.is_of_tools else models
        for kind in kinds
    }
    turns = marker.kwargs.get("turns")
    most = turns or max(counts.values())
    faults = [
        str(replace(kind, turn=turn))
        for turn in range(1, most + 1)
        for kind in kinds
        if turn <= (turns or counts[kind])
    ]
    return ["", *faults]


def _recorded_calls(session: LlmSession, test: str) -> tuple[int, list[tuple[str, str]]]:
    """How many answers of models a test has recorded, as its fixtures say; and the tools of MCP that it has
    called, each with its server."""
    count = 0
    tools: list[tuple[str, str]] = []
    try:
        store = session.store
        for item in store.list():
            fixture = store.get(item.model, item.prompt_hash)
            tests = (fixture.meta or {}).get("tests")
            if isinstance(tests, list) and test in tests:
                count += len(fixture.answers)
        tools = [
            (call.server, call.tool)
            for call in read_mcp_calls(store)
            if call.tool is not None and test in call.scopes
        ]
    except (LlmError, pytest.fail.Exception):
        return 1, []
    return count, tools
