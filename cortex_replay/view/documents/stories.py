"""A run or a test in order, as a document: enough of each call for a list of 500 turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.history.mcp_words import arguments_line, result_line, text_line
from cortex_replay.history.origins import seconds_in
from cortex_replay.history.story import McpStep, ModelStep, Story, ToolUse
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRole, TokenUsage
from cortex_replay.view.documents.answers import failure_document
from cortex_replay.view.documents.cache_steps import cache_documents
from cortex_replay.view.documents.cutter import Cutter, cut_short
from cortex_replay.view.shapes import Spent, StoryDocument, StoryStep
from cortex_replay.view.threads import ALONE, Thread

__all__ = ["StoryTeller", "failures_before"]

_WIDTH: Final = 300
"""Of what stands on one line."""
_MOST_READ: Final = 64 * 1024
"""Of a text whose start is shown: far more than fits."""


@dataclass(frozen=True, slots=True)
class StoryTeller:
    """Makes the documents of stories; a class because all stories of a page have these in common."""

    cut: Cutter
    call_id: Callable[[str], str]
    """From the path of a recording to the id of its document."""
    spent_of: Callable[[Sequence[tuple[str, TokenUsage | None]]], Spent]
    """What calls took, each a model and what was counted."""
    threads: Mapping[str, Thread] = field(default_factory=dict)
    failures_of: Callable[[HistoryCall], Mapping[int, Exchange]] = lambda _: {}
    """The failures among the answers to a call's key, by their places from 1."""

    def tell(self, story_id: str, name: str, story: Story) -> StoryDocument:
        """One story.

        Args:
            story_id: Of ``stories/ID``.
            name: Of the run or the test.
            story: Its calls in order.
        """
        models = sorted(story.model_steps, key=lambda step: step.number)
        caches = cache_documents([step.call for step in models])
        cache_of = {step.number: cache for step, cache in zip(models, caches, strict=True)}
        place = _Places(story)
        steps = [
            self._model_step(step, place, cache_of[step.number])
            if isinstance(step, ModelStep)
            else self._mcp_step(step, place)
            for step in story.steps
        ]
        return {
            "id": story_id,
            "name": self.cut.text(name),
            "steps": steps,
            "spent": self.spent_of([(step.call.model, step.call.usage) for step in models]),
        }

    def _model_step(self, step: ModelStep, place: _Places, cache: dict[str, Any] | None) -> StoryStep:
        call, said = step.call, step.call.said
        reason = None if said is None else said.finish_reason
        by = step.sampled_by
        return {
            "id": self.call_id(call.path),
            "kind": "model",
            "number": place.of_model[step.number],
            "answer": call.answer,
            "who": self._line(call.model),
            "what": self._question(call),
            "said": "" if said is None else self._first_line(said.text),
            "tools": [self._use(use, place) for use in step.uses],
            "caused_by": None if by is None else place.of_call.get(id(by.made)),
            "at": place.seconds(call.at),
            "took_ms": _took_ms(call),
            "finish_reason": None if reason is None else self._line(reason),
            "is_error": False,
            "failures": list(self._failures(call)),
            "spent": None if call.usage is None else self.spent_of([(call.model, call.usage)]),
            "cache": None if cache is None else self.cut.redactor.json(cache)[0],  # type: ignore[typeddict-item]
        }

    def _mcp_step(self, step: McpStep, place: _Places) -> StoryStep:
        call = step.call
        return {
            "id": self.call_id(call.path),
            "kind": "mcp",
            "number": place.of_call[id(call)],
            "answer": call.answer,
            "who": self._line(call.server),
            "what": self._line(call.what),
            "said": self._line(result_line(call)),
            "tools": [],
            "caused_by": None if step.caused_by is None else place.of_model[step.caused_by],
            "at": place.seconds(call.at),
            "took_ms": call.answered_ms,
            "finish_reason": None,
            "is_error": _is_error(call),
            "failures": [],
            "spent": None,
            "cache": None,
        }

    def _use(self, use: ToolUse, place: _Places) -> dict[str, Any]:
        made = use.made
        return {
            "name": self._line(use.call.name),
            "arguments": self._line(arguments_line(use.call.arguments)),
            "call_id": None if use.call.id is None else self._line(use.call.id),
            "made": None if made is None else self.call_id(made.path),
            "made_in": None if made is None else place.of_call.get(id(made)),
            "server": None if made is None else self._line(made.server),
            "result_in": None if use.result_in is None else place.of_model[use.result_in],
            "is_certain": use.is_certain,
        }

    def _question(self, call: HistoryCall) -> str:
        """The last new words of a user; where there are none, what is new."""
        messages = call.request.messages[self.threads.get(call.path, ALONE).before :]
        for message in reversed(messages):
            if message.role is LlmRole.USER and message.content.strip():
                return self._first_line(message.content)
        results = sum(message.role is LlmRole.TOOL for message in messages)
        if results:
            return f"{results} tool result{'s' * (results > 1)}"
        return self._first_line(messages[-1].content if messages else call.request.system)

    def _failures(self, call: HistoryCall) -> Iterator[dict[str, Any]]:
        for exchange in failures_before(call.answer, self.failures_of(call)):
            shown = failure_document(exchange, self.cut)
            yield {"status": shown["status"], "text": self._line(shown["text"])}

    def _first_line(self, text: str) -> str:
        """The start of a text. A key of several lines is only known as a whole."""
        return self._line(text_line(self.cut.redactor.text(text[:_MOST_READ])[0]))

    def _line(self, text: str) -> str:
        """One line. Secrets go before the rest of it does: half of one would not be known for one."""
        line = " ".join(self.cut.redactor.text(text)[0].split())
        return cut_short(line, _WIDTH)


class _Places:
    """Where the steps of a story stand in it, from 1, and when."""

    def __init__(self, story: Story) -> None:
        self.of_model: dict[int, int] = {}
        """By the number of a model call."""
        self.of_call: dict[int, int] = {}
        """By the identity of a call to a server."""
        for place, step in enumerate(story.steps, start=1):
            if isinstance(step, ModelStep):
                self.of_model[step.number] = place
            else:
                self.of_call[id(step.call)] = place
        self._start = min((step.call.at for step in story.steps if step.call.at is not None), default=0.0)

    def seconds(self, at: float | None) -> float | None:
        """A time, counted from the start of the story."""
        return None if at is None else round(max(at - self._start, 0.0), 3)


def failures_before(answer: int, failures: Mapping[int, Exchange]) -> list[Exchange]:
    """The failures that came between an answer and the one before it.

    Args:
        answer: Which of the good answers to a key, from 1.
        failures: By their places among all answers, from 1.
    """
    place = good = 0
    found: list[Exchange] = []
    while good < answer:
        place += 1
        if place in failures:
            found.append(failures[place])
        else:
            good += 1
            if good < answer:
                found.clear()
    return found


def _took_ms(call: HistoryCall) -> int | None:
    """From the question to the whole answer, as far as it is known.

    The time of the recording is cut to whole seconds, so the answer was there at this time or later.
    """
    if call.at is None:
        return None
    ends = [] if call.ready is None else [(call.ready - call.at) * 1000 + _streamed_ms(call)]
    if call.said is not None and call.said.stream:
        ends.append(call.said.stream[-1].at_ms)
    recorded = seconds_in(call.meta, "recorded_at")
    if recorded is not None and recorded > call.at:
        ends.append((recorded - call.at) * 1000)
    return round(max(ends)) if ends else None


def _streamed_ms(call: HistoryCall) -> float:
    """How long an answer went on coming once it had begun, where a gateway recorded its events."""
    events = ((call.said.wire if call.said is not None else None) or {}).get("events")
    times = (
        [event.get("at_ms") for event in events if isinstance(event, dict)]
        if isinstance(events, list)
        else []
    )
    known = [at_ms for at_ms in times if isinstance(at_ms, int | float)]
    # Without a time of its beginning, the first event is taken for it.
    return 0 if not known else known[-1] - (0 if "answered_ms" in call.meta else known[0])


def _is_error(call: McpCall) -> bool:
    match call.end:
        case ("error" | "cancelled", _) | ("result", {"isError": True}):
            return True
    return False
