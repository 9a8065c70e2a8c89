"""Searching while somebody types: every text of a store once, with the recordings that it is new in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.history.mcp_words import result_line
from cortex_replay.types import LlmMessage, LlmRole, ToolCall
from cortex_replay.view.ids import call_id
from cortex_replay.view.recordings import Recordings
from cortex_replay.view.shapes import Found, SearchDocument, TextRow, TextsDocument
from cortex_replay.view.threads import ALONE

__all__ = ["Haystack"]

_MOST_FOUND: Final = 1000
_MOST_OF_ONE: Final = 3
"""Hits of one recording."""
_LONGEST_WORDS: Final = 1000
_AROUND: Final = 48
"""Characters before a hit; behind it are twice as many."""
_LONGEST_TEXT: Final = 2**20
_MOST_TEXT: Final = 256 * 2**20
"""Characters of all texts that are looked through."""
_LONGEST_IN_FILE: Final = 16 * 1024
_MOST_IN_FILE: Final = 8 * 2**20


class _Text(NamedTuple):
    """A text, and where it stands."""

    where: str
    text: str
    """Without secrets."""
    ids: list[str]
    """Of the recordings that it is new in."""


class Haystack:
    """What is searched; a class because it is made once for many searches.

    A conversation repeats its first message in every request. It is found in the recording that says it
    first. A text that several conversations begin with is found in each of them.
    """

    def __init__(self, recordings: Recordings) -> None:
        self._texts: list[_Text] = []
        self._folded: list[str] = []
        """The same texts as they are compared: in lower case, with single blanks."""
        self.left_out = 0
        """Texts, or the ends of texts, that are too much to look through."""
        room = _MOST_TEXT
        gathered = [*_Gatherer(recordings).all()]
        texts = recordings.redact_all([text for _, text, _ in gathered])
        for (where, _, ids), whole in zip(gathered, texts, strict=True):
            clean = whole[:_LONGEST_TEXT]
            self.left_out += len(whole) > _LONGEST_TEXT
            room -= len(clean)
            if room < 0:
                self.left_out += 1
                continue
            self._texts.append(_Text(where, clean, ids))
            self._folded.append(_fold(clean))

    def find(self, words: str) -> SearchDocument:
        """The hits of a search: of each recording a few, in the order of the store."""
        wanted = _fold(words[:_LONGEST_WORDS])
        if not wanted:
            return {"found": [], "is_cut": False}
        pattern = re.compile(r"\s+".join(map(re.escape, wanted.split(" "))), re.IGNORECASE)
        found: list[Found] = []
        counts: dict[str, int] = {}
        for place, folded in enumerate(self._folded):
            if wanted not in folded:
                continue
            where, text, ids = self._texts[place]
            parts: tuple[str, str, str] | None = None
            for owner in ids:
                counts[owner] = counts.get(owner, 0) + 1
                if counts[owner] > _MOST_OF_ONE:
                    continue
                if len(found) == _MOST_FOUND:
                    return {"found": found, "is_cut": True}
                before, match, after = parts = parts or _around(pattern, text, folded, wanted)
                found.append({"id": owner, "where": where, "before": before, "match": match, "after": after})
        return {"found": found, "is_cut": False}

    def document(self) -> TextsDocument:
        """What a page in a file searches by itself."""
        rows: list[TextRow] = []
        left_out, room = self.left_out, _MOST_IN_FILE
        for where, text, ids in self._texts:
            shown = text[: min(_LONGEST_IN_FILE, room)]
            left_out += len(shown) < len(text)
            room -= len(shown)
            if shown:
                rows.append({"where": where, "text": shown, "ids": ids})
        return {"texts": rows, "left_out": left_out}


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


def _around(pattern: re.Pattern[str], text: str, folded: str, wanted: str) -> tuple[str, str, str]:
    """A hit with what stands around it, as it was written, unless its lower case has other letters."""
    found = pattern.search(text)
    if found is None:
        text, start = folded, folded.index(wanted)
        end = start + len(wanted)
    else:
        start, end = found.span()
    return text[max(0, start - _AROUND) : start], text[start:end], text[end : end + 2 * _AROUND]


class _Gatherer:
    """Gathers the texts of recordings: equal ones of one sort are one."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._found: dict[tuple[str, str], list[str]] = {}

    def all(self) -> Iterator[tuple[str, str, list[str]]]:
        """Where each stands, the text, and whose it is."""
        for call in self._recordings.calls:
            self._add_call(call)
        for asked in self._recordings.mcp_calls:
            self._add_mcp_call(asked)
        for other in self._recordings.others:
            for where, text in (("question", other.what), *other.texts):
                self._add(where, text, other.file.id)
        yield from ((where, text, ids) for (where, text), ids in self._found.items())

    def _add_call(self, call: HistoryCall) -> None:
        file_id = call_id(call.path)
        request = call.request
        if call.answer == 1:
            self._add("system", request.system, file_id)
            thread = self._recordings.threads.get(call.path, ALONE)
            for message in request.messages[thread.before :]:
                self._add_message(message, file_id)
        if (said := call.said) is not None:
            self._add("answer", said.text, file_id)
            self._add("reasoning", said.reasoning or "", file_id)
            self._add_tool_calls(said.tool_calls, file_id)

    def _add_message(self, message: LlmMessage, file_id: str) -> None:
        self._add(_WHERE.get(message.role, "message"), message.content, file_id)
        self._add_tool_calls(message.tool_calls, file_id)

    def _add_tool_calls(self, calls: Sequence[ToolCall], file_id: str) -> None:
        for call in calls:
            self._add("tool call", f"{call.name} {_plain(call.arguments)}", file_id)

    def _add_mcp_call(self, call: McpCall) -> None:
        file_id = call_id(call.path)
        self._add("tool call", call.what, file_id)
        end = None if call.end is None else call.end[1]
        self._add("tool result", result_line(call) if end is None else _plain(end), file_id)

    def _add(self, where: str, text: str, file_id: str) -> None:
        if not text or text.isspace():
            return
        ids = self._found.setdefault((where, text), [])
        if file_id not in ids[-1:]:
            ids.append(file_id)


_WHERE: Final = {LlmRole.USER: "question", LlmRole.TOOL: "tool result", LlmRole.ASSISTANT: "answer"}


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else compact(value)
