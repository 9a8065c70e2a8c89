"""One recording as a document: what was asked, what was answered, and what vouches for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import NoFixture
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.store import Fixture
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.index.grid import render_row
from cortex_replay.store.index.index import Row
from cortex_replay.view.documents.answers import (
    answer_document,
    failure_document,
    put_in_order,
    reply_document,
)
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.documents.requests import request_document
from cortex_replay.view.ids import call_id
from cortex_replay.view.recordings import RecordedFile, Recordings
from cortex_replay.view.shapes import AnswerDocument, CallDocument
from cortex_replay.view.threads import ALONE, Thread

__all__ = ["call_document"]


def call_document(recordings: Recordings, file_id: str) -> CallDocument | None:
    """Everything about one recording; ``None`` if there is no such one.

    Raises:
        FixtureIntegrityFailed: Its file is not what the index says any more.
    """
    file = recordings.files.get(file_id)
    if file is None:
        return None
    try:
        return _Maker(recordings, file).make()
    except NoFixture:  # it was taken out meanwhile
        return None


class _Maker:
    """Makes the document of one file."""

    def __init__(self, recordings: Recordings, file: RecordedFile) -> None:
        self._recordings = recordings
        self._store = recordings.store
        self._file = file
        self._cut = Cutter(recordings.surroundings.redactor)

    def make(self) -> CallDocument | None:
        """The document, from the file as it is now."""
        file, scope = self._file, self._file.scopes[0]
        if file.kind == "model":
            fixture, data = self._store.read(file.who, file.key, scope)
            return self._of_fixture(fixture, len(data))
        if file.kind == "mcp":
            return self._of_mcp(self._recordings.mcp_by_path[file.path])
        if file.failure is not None:
            found = self._store.failures(file.who, file.key, scope).get(file.failure)
            return None if found is None else self._frame(answers=[failure_document(found, self._cut)])
        exchange = self._store.exchange(file.key, scope)
        return None if exchange is None else self._of_exchange(exchange)

    def _of_fixture(self, fixture: Fixture, size: int) -> CallDocument:
        recordings, file = self._recordings, self._file
        thread = recordings.threads.get(file.path, ALONE)
        asked: Mapping[str, Any] = {}
        if fixture.request is not None:
            asked = request_document(fixture.request, self._cut, thread)
        answers = [
            answer_document(
                answer,
                self._cut,
                file.who,
                None if answer.usage is None else recordings.spent([(file.who, answer.usage)]),
            )
            for answer in fixture.answers
        ]
        failures = self._store.failures(file.who, file.key, file.scopes[0])
        answers = put_in_order(answers, {n: failure_document(one, self._cut) for n, one in failures.items()})
        meta = fixture.meta or {}
        facts = [(self._cut.text(name).replace("_", " "), _one_line(value)) for name, value in meta.items()]
        return self._frame(asked, answers, facts=facts, thread=thread, size=size)

    def _of_mcp(self, calls: Sequence[McpCall]) -> CallDocument:
        first = calls[0]
        shown = {
            "server": self._cut.text(first.server),
            "method": self._cut.text(first.method),
            "parameters": self._cut.json(first.parameters),
            "messages": self._messages(first),
            "then": [self._messages(call) for call in calls[1:]],
        }
        facts = [("run", first.run)]
        if (cause := first.cause) is not None:
            place = f"answer {cause.answer}, tool call {cause.tool_call}"
            facts.append(("caused by", f"{cause.model} {cause.prompt_hash[:16]}, {place}"))
        return self._frame(mcp=shown, facts=facts)

    def _messages(self, call: McpCall) -> list[dict[str, Any]]:
        """What was said; of a message that is too long its start, as text."""
        shown: list[dict[str, Any]] = []
        for message in call.messages:
            clean = self._cut.json(message)
            shown.append(
                clean if isinstance(clean, dict) else {"at_ms": message.get("at_ms"), "start": clean}
            )
        return shown

    def _of_exchange(self, exchange: Exchange) -> CallDocument:
        """A call that asked no model: what was sent, and what came back, as text."""
        request = exchange.request or {}
        asked: dict[str, Any] = {
            "messages": [{"role": "request", "text": self._cut.text(_text(request.get("body")))}],
            "settings": {name: self._cut.json(value) for name, value in request.items() if name != "body"},
        }
        return self._frame(asked, [self._reply(wire) for wire in exchange.wires])

    def _reply(self, wire: Mapping[str, JsonValue]) -> AnswerDocument:
        rest = {name: value for name, value in wire.items() if name not in ("status", "headers")}
        return reply_document(_text(wire.get("body", rest)), wire.get("status"), self._cut)

    def _frame(
        self,
        asked: Mapping[str, Any] | None = None,
        answers: list[AnswerDocument] | None = None,
        *,
        mcp: dict[str, Any] | None = None,
        facts: list[tuple[str, str]] | None = None,
        thread: Thread = ALONE,
        size: int | None = None,
    ) -> CallDocument:
        """What every recording has, around what its kind has."""
        file, cut, asked = self._file, self._cut, asked or {}
        size = len(self._store.listed_content(file)) if size is None else size
        own = [("given to", scope) for scope in file.scopes if scope]
        return {
            "id": file.id,
            "kind": file.kind,
            "who": cut.text(file.who),
            "key": file.key,
            "path": cut.text(file.path),
            "blake3": file.blake3,
            "index_line": cut.text("\n".join(render_row(row) for row in self._rows())),
            "continues": _id_or_none(thread.continues),
            "before": thread.before,
            "goes_back": thread.goes_back,
            "system": asked.get("system", ""),
            "system_in": _id_or_none(thread.system_in),
            "messages": asked.get("messages", []),
            "tools_in": _id_or_none(thread.tools_in),
            "tools": asked.get("tools", []),
            "settings": asked.get("settings", {}),
            "answers": answers or [],
            "mcp": mcp,
            "facts": [
                (cut.text(name), cut.text(text))
                for name, text in [("file", f"{size:,} bytes"), *own, *(facts or [])]
            ],
            "is_cut": cut.is_cut,
        }

    def _rows(self) -> list[Row]:
        """The rows that vouch for the file.

        Raises:
            NoFixture: An index that has changed does not name it any more.
        """
        file, store = self._file, self._store
        found: list[Row | None] = []
        for scope in file.scopes:
            if file.kind == "model" or file.failure is not None:
                found += store.rows(file.who, file.key, scope)
            else:
                found.append(store.exchange_row(file.key, scope))
        place = (file.path, file.blake3)
        rows = [row for row in found if row is not None and (row.path, row.blake3) == place]
        if not rows:
            raise NoFixture(file.who, file.key)
        return list(dict.fromkeys(rows))


def _id_or_none(path: str | None) -> str | None:
    return None if path is None else call_id(path)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _one_line(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
