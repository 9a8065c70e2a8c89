"""The story of a run: its calls to models and to MCP servers, in order, and what led to what.

A recorded call of a tool says which tool call of a model caused it. Where equal calls got equal answers, one
recording stands for all of them; then what is equal is found by comparing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.mcp.tool_names import arguments_text, names_tool
from cortex_replay.types import LlmMessage, LlmRole, ToolCall

__all__ = [
    "McpStep",
    "ModelStep",
    "Sampling",
    "Story",
    "ToolOutcome",
    "ToolUse",
    "calls_made",
    "tell_story",
    "tool_uses",
]

_SAMPLING: Final = "sampling/createMessage"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call of a model's answer, and what became of it."""

    number: int
    """Among those of the answer, from 1."""
    call: ToolCall
    made: McpCall | None
    """The recorded call of a server; ``None`` where none is known: the client may have the tool itself."""
    is_certain: bool
    """Whether the recording names this very tool call; else it is the one recorded call that equals it."""
    result_in: int | None
    """The number of the first model call whose prompt has the result."""

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "number": self.number,
            **self.call.to_dict(),
            "made": None if self.made is None else _place(self.made),
            "is_certain": self.is_certain,
            "result_in": self.result_in,
        }


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool call of a recording, and the call to a model that got its result."""

    call: HistoryCall
    use: ToolUse
    came_back: HistoryCall | None

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        back = self.came_back
        place = None if back is None else {"prompt_hash": back.prompt_hash, "path": back.path}
        return {**self.use.to_dict(), "answer": self.call.answer, "run": self.call.run, "result_in": place}


@dataclass(frozen=True, slots=True)
class Sampling:
    """A request of a server that a model answered through the client."""

    made: McpCall
    """The call that the server was busy with."""
    request: int
    """Which of the server's requests, from 1."""


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A call to a model."""

    number: int
    """Among the model calls of the story, from 1."""
    call: HistoryCall
    uses: tuple[ToolUse, ...]
    sampled_by: Sampling | None

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        call, by = self.call, self.sampled_by
        return {
            "kind": "model",
            "number": self.number,
            "model": call.model,
            "prompt_hash": call.prompt_hash,
            "path": call.path,
            "answer": call.answer,
            "run": call.run,
            "asked_at": call.at,
            "scopes": list(call.scopes),
            "usage": None if call.usage is None else call.usage.to_dict(),
            "text": call.said.text if call.said is not None else "",
            "tool_calls": [use.to_dict() for use in self.uses],
            "sampled_by": None if by is None else {**_place(by.made), "request": by.request},
        }


@dataclass(frozen=True, slots=True)
class McpStep:
    """A call of a server."""

    call: McpCall
    caused_by: int | None
    """The number of the model call that caused it, if that is in the story."""

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"kind": "mcp", **self.call.to_dict(), "caused_by": self.caused_by}


@dataclass(frozen=True, slots=True)
class Story:
    """What happened, in order."""

    steps: tuple[ModelStep | McpStep, ...]

    @property
    def runs(self) -> list[str]:
        """The runs that it is made of."""
        return sorted({step.call.run for step in self.steps})

    @property
    def model_steps(self) -> list[ModelStep]:
        return [step for step in self.steps if isinstance(step, ModelStep)]

    @property
    def mcp_steps(self) -> list[McpStep]:
        return [step for step in self.steps if isinstance(step, McpStep)]

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"runs": self.runs, "steps": [step.to_dict() for step in self.steps]}


def tell_story(
    calls: Sequence[HistoryCall], mcp_calls: Sequence[McpCall], every: Sequence[McpCall] | None = None
) -> Story:
    """Put calls into one order, and say which led to which.

    Args:
        calls: To models, in their order.
        mcp_calls: To servers, in theirs.
        every: All calls to servers that tool calls may have made, if not only those.
    """
    makers = _Makers(mcp_calls if every is None else every)
    steps: list[ModelStep | McpStep] = []
    causes: dict[int, int] = {}
    prompts = _Prompts(calls)
    samplings = _Samplings(mcp_calls)
    for number, call in enumerate(calls, start=1):
        uses = tuple(
            _use(call, position, tool_call, makers, prompts.with_result(number, tool_call))
            for position, tool_call in enumerate(call.said.tool_calls if call.said else (), start=1)
        )
        causes |= {id(use.made): number for use in uses if use.made is not None and use.is_certain}
        steps.append(ModelStep(number, call, uses, samplings.find(call)))
    steps += [McpStep(call, causes.get(id(call))) for call in mcp_calls]
    depths = _depths(steps)
    return Story(tuple(sorted(steps, key=lambda step: _place_in_time(step, depths[id(step)]))))


def calls_made(calls: Sequence[HistoryCall], every: Sequence[McpCall]) -> list[McpCall]:
    """The calls of servers that tool calls of these answers made, as far as that is known.

    Args:
        calls: To models.
        every: To servers.
    """
    uses = (use for step in tell_story(calls, (), every).model_steps for use in step.uses)
    return [use.made for use in uses if use.made is not None]


def tool_uses(calls: Sequence[HistoryCall], every: Sequence[McpCall], path: str) -> list[ToolOutcome]:
    """What the tool calls of one recording caused, and where their results came back, in the same run.

    Args:
        calls: To models, in their order.
        every: To servers.
        path: The file of the recording.
    """
    found: list[ToolOutcome] = []
    for run in dict.fromkeys(call.run for call in calls if call.path == path):
        of_run = [call for call in calls if call.run == run]
        for step in tell_story(of_run, (), every).model_steps:
            if step.call.path == path:
                found += [
                    ToolOutcome(step.call, use, None if use.result_in is None else of_run[use.result_in - 1])
                    for use in step.uses
                ]
    return found


def _place_in_time(step: ModelStep | McpStep, depth: int) -> tuple[bool, float, int]:
    """Each kind is in order already, and sorting keeps that. Of one moment, causes come first."""
    return step.call.at is None, step.call.at or 0.0, depth


def _depths(steps: Sequence[ModelStep | McpStep]) -> dict[int, int]:
    """How many calls led to each step, one by one, by the identity of the step."""
    depths: dict[int, int] = {}
    of_model: dict[int, int] = {}
    of_call: dict[int, int] = {}
    for step in steps:
        if isinstance(step, McpStep):
            # What no model caused prepares what one will.
            depths[id(step)] = -1 if step.caused_by is None else of_model[step.caused_by] + 1
            continue
        by = step.sampled_by
        before = -1 if by is None else of_call.get(id(by.made), -1)
        depth = depths[id(step)] = max(of_model.get(step.number, 0), before + 1)
        of_model[step.number] = depth
        for use in step.uses:
            if use.made is not None:
                of_call.setdefault(id(use.made), depth + 1)
            if use.result_in is not None:
                of_model[use.result_in] = max(of_model.get(use.result_in, 0), depth + 2)
    return depths


def _place(call: McpCall) -> dict[str, JsonValue]:
    return {"server": call.server, "key": call.key, "path": call.path, "answer": call.answer}


def _use(
    call: HistoryCall, number: int, tool_call: ToolCall, makers: _Makers, result_in: int | None
) -> ToolUse:
    made = makers.caused(call, number, tool_call)
    is_certain = made is not None
    return ToolUse(number, tool_call, made or makers.equal(tool_call), is_certain, result_in)


class _Makers:
    """Calls of servers, by what caused them and by what they ask."""

    def __init__(self, calls: Iterable[McpCall]) -> None:
        self._by_cause: dict[tuple[str, str, int, int], McpCall] = {}
        self._by_id: dict[tuple[str, str, str], McpCall] = {}
        self._by_arguments: dict[str, list[McpCall]] = {}
        for call in calls:
            if call.tool is None:
                continue
            self._by_arguments.setdefault(arguments_text(call.arguments), []).append(call)
            if (cause := call.cause) is not None:
                self._by_cause.setdefault(cause[:4], call)
                if cause.id is not None:  # which stays when keys are made anew
                    self._by_id.setdefault((call.run, cause.model, cause.id), call)

    def caused(self, call: HistoryCall, number: int, tool_call: ToolCall) -> McpCall | None:
        """What says that this very tool call caused it, and still equals it: a committed file stays when an
        equal call is recorded anew, whatever caused that."""
        place = (call.model, call.prompt_hash, call.answer, number)
        found = [self._by_cause.get(place)]
        if tool_call.id is not None:
            found.append(self._by_id.get((call.run, call.model, tool_call.id)))
        return next((made for made in found if made is not None and _is_equal(tool_call, made)), None)

    def equal(self, tool_call: ToolCall) -> McpCall | None:
        """The call that equals a tool call, if all that do have one key."""
        candidates = self._by_arguments.get(arguments_text(tool_call.arguments), [])
        found = [call for call in candidates if _is_equal(tool_call, call)]
        return found[0] if len({call.key for call in found}) == 1 else None


def _is_equal(wish: ToolCall, made: McpCall) -> bool:
    is_same_tool = made.tool is not None and names_tool(wish.name, made.server, made.tool)
    return is_same_tool and arguments_text(wish.arguments) == arguments_text(made.arguments)


class _Prompts:
    """Which prompts have the result of which tool call."""

    def __init__(self, calls: Sequence[HistoryCall]) -> None:
        self._by_id: dict[str, list[int]] = {}
        self._by_call: dict[tuple[str, str], list[int]] = {}
        for number, call in enumerate(calls, start=1):
            for message in call.request.messages:
                if message.role is LlmRole.TOOL and message.tool_call_id is not None:
                    _add(self._by_id.setdefault(message.tool_call_id, []), number)
                for made in message.tool_calls:
                    if made.id is None:
                        _add(self._by_call.setdefault(_words(made), []), number)

    def with_result(self, number: int, tool_call: ToolCall) -> int | None:
        """The first call behind a number whose prompt has the result of a tool call."""
        found = (
            self._by_call.get(_words(tool_call), [])
            if tool_call.id is None
            else self._by_id.get(tool_call.id, [])
        )
        return next((later for later in found if later > number), None)


def _add(numbers: list[int], number: int) -> None:
    if numbers[-1:] != [number]:
        numbers.append(number)


def _words(call: ToolCall) -> tuple[str, str]:
    return call.name, arguments_text(call.arguments)


class _Samplings:
    """What servers asked models through their clients, and what these said."""

    def __init__(self, calls: Iterable[McpCall]) -> None:
        self._found: dict[str, list[tuple[str, Sampling]]] = {}
        """By the model's words: the last words of the question, and where it stands."""
        for call in calls:
            for number, asked, said in _sampled(call):
                self._found.setdefault(said, []).append((asked, Sampling(call, number)))

    def find(self, call: HistoryCall) -> Sampling | None:
        """The one request of a server that this call answered; ``None`` if there is none, or are several."""
        text = call.said.text if call.said is not None else ""
        prompt = _last_words(call.request.messages)
        found = [sampling for asked, sampling in self._found.get(text, []) if asked and asked in prompt]
        same_run = [sampling for sampling in found if sampling.made.run == call.run]
        found = same_run or found
        return found[0] if len(found) == 1 else None


def _sampled(call: McpCall) -> Iterable[tuple[int, str, str]]:
    """The number of each request for a model's words, its last words, and the answer."""
    asked: dict[int, str] = {}
    requests = 0
    for message in call.messages:
        match message:
            case {"request": {"method": method, **said}}:
                requests += 1
                if method == _SAMPLING:
                    asked[requests] = _text_in(said.get("params"))
            case {"answer": {"to": int(to), "result": {"content": content}}} if to in asked:
                if text := _content_text(content):
                    yield to, asked[to], text


def _text_in(parameters: object) -> str:
    match parameters:
        case {"messages": [*_, {"content": content}]}:
            return _content_text(content)
    return ""


def _content_text(content: object) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "".join(str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block)


def _last_words(messages: Sequence[LlmMessage]) -> str:
    return messages[-1].content if messages else ""
