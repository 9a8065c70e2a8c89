"""The store as a document: every recording on one line, and what all of them took."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.history.mcp_words import result_line
from cortex_replay.history.origins import seconds_in
from cortex_replay.history.questions import describe_question, first_line, question_text
from cortex_replay.store import Answer
from cortex_replay.types import TokenUsage
from cortex_replay.view.documents.cutter import cut_short
from cortex_replay.view.ids import call_id, story_id
from cortex_replay.view.recordings import OtherCall, RecordedFile, Recordings
from cortex_replay.view.shapes import CallRow, ModelRow, RunRow, StoreDocument

__all__ = ["store_document"]

_WIDTH: Final = 200
"""Of a text on one line."""
_MOST_READ: Final = 16 * 1024
"""Of a text that one line is made of."""
_DAY_S: Final = 86_400
_Call = HistoryCall | McpCall


def store_document(recordings: Recordings) -> StoreDocument:
    """Everything that is looked at, in the order in which it was recorded; what has no time comes last."""
    rows = [*_Rows(recordings).all()]
    rows.sort(key=lambda row: (row["at"] is None, row["at"] or 0.0))
    usages = [(call.model, call.usage) for call in recordings.calls]
    usages += [(other.file.who, usage) for other in recordings.others for usage in other.usages]
    return {
        "calls": rows,
        "models": _models(recordings, rows),
        "runs": _stories(recordings, "run", lambda call: (call.run,)),
        "tests": _stories(recordings, "test", lambda call: call.scopes),
        "bytes": sum(row["bytes"] for row in rows),
        "spent": recordings.spent(usages),
        "max_age_days": recordings.surroundings.max_age_days,
        "findings": list(recordings.findings),
    }


class _Rows:
    """Makes the rows of recordings; a class because they are looked at in one moment.

    Of what they cut, secrets are cut out here; of the rest, where all documents are.
    """

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        windows = [_window(text) for text in _texts_of(recordings)]
        self._clean = dict(zip(windows, recordings.redact_all(windows), strict=True))
        age = recordings.surroundings.max_age_days
        self._oldest = None if age is None else time.time() - age * _DAY_S

    def all(self) -> Iterable[CallRow]:
        """Each file once."""
        by_path: dict[str, list[HistoryCall]] = {}
        for call in self._recordings.calls:
            by_path.setdefault(call.path, []).append(call)
        yield from (self._of_model(calls) for calls in by_path.values())
        yield from (self._of_server(calls) for calls in self._recordings.mcp_by_path.values())
        yield from map(self._of_other, self._recordings.others)

    def _of_model(self, calls: Sequence[HistoryCall]) -> CallRow:
        first = calls[0]
        asked = describe_question(first.request, self._redact)
        return self._row(
            call_id(first.path),
            cut_short(asked or "", _WIDTH),
            self._said(first.said),
            calls,
            at=min(filter(None, map(_recorded_at, calls)), default=None),
            usages=[(call.model, call.usage) for call in calls],
        )

    def _of_server(self, calls: Sequence[McpCall]) -> CallRow:
        first = calls[0]
        at = min((call.at for call in calls if call.at is not None), default=None)
        said = self._line(result_line(first))
        return self._row(call_id(first.path), self._line(first.what), said, calls, at=at)

    def _of_other(self, other: OtherCall) -> CallRow:
        usages = [(other.file.who, usage) for usage in other.usages]
        row = self._row(
            other.file.id, self._line(other.what), self._line(other.said), (), at=other.at, usages=usages
        )
        row["answers"] = other.answers
        row["scopes"] = list(other.scopes)
        return row

    def _row(
        self,
        file_id: str,
        question: str,
        answer: str,
        calls: Sequence[_Call],
        *,
        at: float | None,
        usages: Sequence[tuple[str, TokenUsage | None]] = (),
    ) -> CallRow:
        file = self._recordings.files[file_id]
        is_counted = any(usage is not None for _, usage in usages)
        return {
            "id": file.id,
            "kind": file.kind,
            "who": file.who,
            "key": file.key,
            "path": file.path,
            "question": question,
            "answer": answer,
            "answers": len(calls),
            "runs": sorted({call.run for call in calls}),
            "scopes": sorted({scope for call in calls for scope in call.scopes}),
            "at": at,
            "bytes": _size(self._recordings, file),
            "spent": self._recordings.spent(usages) if is_counted else None,
            "is_old": at is not None and self._oldest is not None and at < self._oldest,
            "is_unused": self._is_unused(file),
        }

    def _said(self, answer: Answer | None) -> str:
        if answer is None:
            return ""
        calls = ", ".join(f"calls {call.name}" for call in answer.tool_calls)
        return self._line(answer.text) or self._line(calls)

    def _is_unused(self, file: RecordedFile) -> bool | None:
        """Whether no row of a file was used, where a report says so."""
        wanted = self._recordings.looked_at
        if file.kind == "model" and wanted.unused is not None:
            return all((file.who, file.key, scope) in wanted.unused for scope in file.scopes)
        if file.kind == "mcp" and wanted.unused_calls is not None:
            return all((file.key, scope) in wanted.unused_calls for scope in file.scopes)
        return None

    def _line(self, text: str) -> str:
        """The first line of a text. Secrets go first: half of one would not be known for one."""
        return cut_short(first_line(self._redact(text)), _WIDTH)

    def _redact(self, text: str) -> str:
        """The start of a text, without secrets."""
        window = _window(text)
        clean = self._clean.get(window)
        return self._recordings.redact(window) if clean is None else clean


def _texts_of(recordings: Recordings) -> Iterator[str]:
    """What most rows show the first line of."""
    for call in recordings.calls:
        yield question_text(call.request)
        if call.said is not None:
            yield call.said.text


def _window(text: str) -> str:
    return text.lstrip()[:_MOST_READ]


def _recorded_at(call: HistoryCall) -> float | None:
    return seconds_in(call.meta, "recorded_at") or call.at


def _size(recordings: Recordings, file: RecordedFile) -> int:
    """How large a file is, wherever it stands."""
    try:
        return os.lstat(f"{recordings.store.root}/{file.path}").st_size
    except OSError:  # it is elsewhere, and was fetched to be read
        return len(recordings.store.listed_content(file))


def _models(recordings: Recordings, rows: Sequence[CallRow]) -> list[ModelRow]:
    """The models that answered, by their names."""
    found: dict[str, list[CallRow]] = {}
    for row in rows:
        if row["kind"] == "model":
            found.setdefault(row["who"], []).append(row)
    usages: dict[str, list[tuple[str, TokenUsage | None]]] = {}
    for call in recordings.calls:
        usages.setdefault(call.model, []).append((call.model, call.usage))
    return [
        {
            "name": name,
            "calls": len(of_model),
            "bytes": sum(row["bytes"] for row in of_model),
            "oldest": min((row["at"] for row in of_model if row["at"] is not None), default=None),
            "newest": max((row["at"] for row in of_model if row["at"] is not None), default=None),
            "spent": recordings.spent(usages.get(name, [])),
        }
        for name, of_model in sorted(found.items())
    ]


def _stories(
    recordings: Recordings, kind: Literal["run", "test"], names_of: Callable[[_Call], Iterable[str]]
) -> list[RunRow]:
    """The runs, or the tests, the earliest first."""
    found: dict[str, list[_Call]] = {}
    calls: list[_Call] = [*recordings.calls, *recordings.mcp_calls]
    for call in calls:
        for name in names_of(call):
            found.setdefault(name, []).append(call)
    rows = [_story(recordings, kind, name, of_name) for name, of_name in found.items()]
    return sorted(rows, key=lambda row: (row["at"] is None, row["at"] or 0.0, row["name"]))


def _story(recordings: Recordings, kind: Literal["run", "test"], name: str, calls: Sequence[_Call]) -> RunRow:
    models = [call for call in calls if isinstance(call, HistoryCall)]
    times = [call.at for call in calls if call.at is not None]
    return {
        "id": story_id(kind, name),
        "name": name,
        "calls": len(models),
        "mcp_calls": len(calls) - len(models),
        "at": min(times, default=None),
        "seconds": max(times) - min(times) if times else None,
        "spent": recordings.spent((call.model, call.usage) for call in models),
    }
