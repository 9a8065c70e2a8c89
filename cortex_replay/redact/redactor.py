"""The redactor: what must not be stored is cut out of texts and JSON.

Two kinds of things are cut out: values that are known to be secret, and texts that look like the secrets of
well-known services. Both are looked for in the text and in each of its views, until nothing is left to
find; each is replaced by ``[REDACTED:rule]``, which no rule takes for a secret. `docs/redaction.md` says what
is promised and what is not.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Final

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.contexts import ASSIGNMENT
from cortex_replay.redact.document_tree import redact_document
from cortex_replay.redact.documents import Leaf, PieceSequence, leaves, place_of, rewrite, sequences
from cortex_replay.redact.known_values import KNOWN, KnownValues
from cortex_replay.redact.patterns import URL_PASSWORD
from cortex_replay.redact.residue import Residue
from cortex_replay.redact.search import BLANK, Search, SecretSpan

__all__ = ["MARK", "MOST_LEARNED", "Hit", "Redactor"]

MARK: Final = "[REDACTED:"
"""What stands for a secret begins so."""
_BETWEEN: Final = f"{BLANK}\n{BLANK}"
_MOST_PASSES: Final = 8
MOST_LEARNED: Final = 128
"""A client may sign each call anew, and every value is looked for in every text."""
_ESCAPED_BY_ONE: Final = "bfnrtux\"'/\\"
_SERVER: Final = re.compile(r"(?:https?|wss?)://(?:localhost|[\w-]+(?:\.[\w-]+)+):[0-9]{2,5}\Z")
_EMPTY_LINE: Final = r"\n\n"
"""As it stands in JSON."""
_NO_PATTERNS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Hit:
    """How often something was cut out."""

    rule: str
    """``known-value``, or the pattern's name."""
    count: int


class Redactor:
    """Cuts secrets out; a class because what it looks for is prepared once.

    Args:
        known: Values that are secret, such as the keys in use. Those shorter than eight characters are
            ignored: they would be found everywhere.
        extra_patterns: Regular expressions by name, for secrets of one's own; group 1 is the secret, or
            all of the match. They are as fast as they are written.
        only: The names of the rules to apply, for a use in which not everything is to be cut out; all of
            them by default.

    Raises:
        ValueError: A pattern is no regular expression, its name does not fit into a placeholder, or
            there is no such rule.
    """

    def __init__(
        self,
        known: Iterable[str] = (),
        extra_patterns: Mapping[str, str] = _NO_PATTERNS,
        *,
        only: Collection[str] | None = None,
    ) -> None:
        self._values = frozenset(known)
        self._surrounding: frozenset[str] = frozenset()
        self._learned: dict[str, None] = {}
        self._extra_patterns = extra_patterns
        self._only = only
        self._listeners: list[Callable[[], None]] = []
        self.version = 0
        """Rises with what is known."""
        self._prepare()

    def _prepare(self) -> None:
        extra_patterns, only = self._extra_patterns, self._only
        self._known = KnownValues(self._all_values)
        self._residue = Residue(self._known)
        self._search = Search(self._known, extra_patterns, only)
        names = "|".join(map(re.escape, self._search.ranks))
        self._placeholder = re.compile(rf"\[REDACTED:(?:{names})\]")

    def learn(self, *values: str) -> None:
        """From now on these values are known to be secret, too; of very many, the last."""
        self.learn_environment(self._surrounding, *values)

    def learn_environment(self, surrounding: frozenset[str], *values: str) -> None:
        """The same, with all that the environment holds now. What it held before stays known, too."""
        before = self._all_values
        self._learned |= dict.fromkeys(self._surrounding - surrounding)
        self._learned |= dict.fromkeys(value for value in values if value not in before)
        self._surrounding = surrounding
        while len(self._learned) > MOST_LEARNED:
            del self._learned[next(iter(self._learned))]
        if not self._all_values <= before:
            self.version += 1
            self._prepare()
            for listener in self._listeners:
                listener()

    def on_learn(self, listener: Callable[[], None]) -> None:
        """Call this whenever another value is known: for whoever holds texts that were redacted before."""
        self._listeners.append(listener)

    def with_rules(self, only: Collection[str]) -> Redactor:
        """A redactor of the same values and patterns that applies some of the rules."""
        return Redactor(self._all_values, self._extra_patterns, only=only)

    @property
    def _all_values(self) -> frozenset[str]:
        return self._values | self._surrounding | self._learned.keys()

    def __len__(self) -> int:
        """How many values it knows."""
        return len(self._known)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Redactor({len(self)} known values)"

    def text(self, text: str) -> tuple[str, list[Hit]]:
        """The text with its secrets replaced, and what they were."""
        found = self._secrets(text)
        return (_replace(text, found), _hits(found)) if found else (text, [])

    def pieces(self, pieces: Sequence[str]) -> tuple[list[str], list[Hit]]:
        """Consecutive pieces of one text, redacted as that text would be.

        Joined they are what :meth:`text` gives for it. A secret that goes over several pieces is
        replaced in the first of them and cut out of the others.
        """
        made, found = self._redact_pieces(pieces)
        return made, _hits(found)

    def safe_end(self, text: str, end: int) -> int:
        """Up to where a text can be shown before the rest of it has come: a known value may have begun."""
        return self._known.unfinished_start(text, end)

    def _redact(self, all_found: list[SecretSpan], text: str, name: str | None) -> str:
        found = self._secrets(text, name)
        all_found += found
        return _replace(text, found) if found else text

    def _redact_pieces(self, pieces: Sequence[str]) -> tuple[list[str], list[SecretSpan]]:
        whole = "".join(pieces)
        found = [one for one in self._secrets(whole) if not _is_after_port(one, pieces)]
        if not found:
            return list(pieces), []
        ends = list(accumulate(map(len, pieces)))
        made: list[list[str]] = [[] for _ in pieces]
        at = 0
        for start, end, rule in found:
            _copy_part(made, pieces, ends, at, start)
            made[bisect_right(ends, start)].append(f"{MARK}{rule}]")
            at = end
        _copy_part(made, pieces, ends, at, len(whole))
        return ["".join(parts) for parts in made], found

    def json(self, value: JsonValue) -> tuple[JsonValue, list[Hit]]:
        """The value with each of its strings redacted. Names in objects stay as they are."""
        if not self._is_suspicious(value):
            return value, []
        found: list[SecretSpan] = []
        return rewrite(value, partial(self._redact, found)), _hits(found)

    def document(self, document: JsonValue) -> tuple[JsonValue, list[Hit]]:
        """A whole document without secrets: strings, names, and what stands in pieces.

        Texts that hold JSON or the events of a stream still do. Two things are left to :meth:`found_in`,
        which is to be asked afterwards: a value that is known, split over two messages, and what only pieces
        of pieces say.
        """
        if not self.found_in(document):
            return document, []
        all_found: list[SecretSpan] = []

        def redact_pieces(pieces: Sequence[str]) -> list[str]:
            if not _may_go_on(pieces):
                return list(pieces)
            made, found = self._redact_pieces(pieces)
            all_found.extend(found)
            return made

        redact_text = partial(self._redact, all_found)
        return redact_document(document, redact_text, redact_pieces), _hits(all_found)

    def left_in(self, document: JsonValue) -> list[str]:
        """Where in a document a known value still stands, in any encoding, whole or in pieces.

        Empty means that it may be written. The values are looked for by other means than those that cut
        them out, in names too. Places are named so that none of them holds a secret.
        """
        return self._left_in(document, sequences(document)) if len(self._known) else []

    def found_in(self, document: JsonValue) -> list[tuple[str, str]]:
        """Where something known, or something that looks like a secret, stands: its place and its rule."""
        found: list[tuple[str, str]] = []
        if self._is_suspicious(document):
            found += [
                (self._place(leaf), rule)
                for leaf in leaves(document)
                for _, _, rule in self._secrets(leaf.text, leaf.name)
            ]
        joined = sequences(document)
        texts = [text for sequence in joined if not sequence.is_conversation for text in sequence.readings]
        if texts and self._is_suspicious(_BETWEEN.join(texts)):
            for sequence in joined:
                found += [] if sequence.is_conversation else self._find_across(sequence)
        if len(self._known):
            known = {place for place, rule in found if rule == KNOWN}
            found += [(place, KNOWN) for place in self._left_in(document, joined) if place not in known]
        return list(dict.fromkeys(found))

    def _left_in(self, document: JsonValue, joined: list[PieceSequence]) -> list[str]:
        is_in = self._residue.is_in
        places: list[str] = []
        text = _json_text(document)
        if is_in(self._mask(text)):
            places = [self._place(leaf) for leaf in leaves(document) if is_in(self._mask(leaf.text))]
            places = places or ["the document"]
        # The blocks of a system prompt are stored as one text with empty lines between them.
        has_blocks = _EMPTY_LINE in text or "\n\n" in text
        blocks = [leaf for leaf in leaves(document) if "\n\n" in leaf.text] if has_blocks else []
        if blocks and is_in(self._mask(_BETWEEN.join(map(_without_empty_lines, blocks)))):
            places += [self._place(leaf) for leaf in blocks if is_in(self._mask(_without_empty_lines(leaf)))]
        if is_in(self._mask(_BETWEEN.join("".join(sequence.pieces) for sequence in joined))):
            places += [
                self._safe_place(f"{sequence.place}, joined")
                for sequence in joined
                if is_in(self._mask("".join(sequence.pieces)))
                and not any(is_in(self._mask(piece)) for piece in sequence.pieces)
            ]
        return list(dict.fromkeys(places))

    def _find_across(self, sequence: PieceSequence) -> list[tuple[str, str]]:
        """What is found only when the pieces are put together."""
        if not _may_go_on(sequence.pieces):
            return []
        place = self._safe_place(f"{sequence.place}, joined")
        borders = list(accumulate(map(len, sequence.pieces)))
        found = [
            (place, rule)
            for start, end, rule in self._secrets("".join(sequence.pieces))
            if bisect_right(borders, start) != bisect_right(borders, end - 1)
            and not _is_after_port((start, end, rule), sequence.pieces)
        ]
        for first, second in sequence.neighbours:
            found += [
                (place, rule)
                for start, end, rule in self._secrets(first + second)
                if start < len(first) < end and not _is_after_port((start, end, rule), (first, second))
            ]
        return found

    def _is_suspicious(self, value: JsonValue) -> bool:
        """Whether one look at all of a value's texts at once finds anything: mostly it does not.

        Written as JSON, a text is only escaped once more, and the views undo that. An extra pattern may
        be about the start of a text, so with one the texts are looked at one by one.
        """
        return self._search.has_extra or _is_any(self._search.look(self._mask(_json_text(value))))

    def _place(self, leaf: Leaf) -> str:
        where = self._safe_place(place_of(leaf.path))
        return f"a key of {where}" if leaf.is_name else where

    def _safe_place(self, place: str) -> str:
        """A place without what names in it would give away, on one printable line."""
        if self._residue.is_in(place) or self._secrets(place):
            return "a place whose name is secret"
        return "".join(character if character.isprintable() else "?" for character in place)

    def _mask(self, text: str) -> str:
        """The text with what was cut out of it earlier blanked."""
        return self._placeholder.sub(lambda match: BLANK * len(match[0]), text) if MARK in text else text

    def _secrets(self, text: str, name: str | None = None) -> list[SecretSpan]:
        """Every part of a text that is to go, in order, none touching another's characters."""
        masked = self._mask(text)
        found: list[SecretSpan] = []
        for _ in range(_MOST_PASSES):
            more = list(self._search.look(masked))
            if not more:
                break
            found += more
            masked = _blank(masked, more)
        if not found:
            is_assigned = name is not None and self._search.is_secret_by_name(name, masked)
            return [(0, len(text), ASSIGNMENT)] if is_assigned else []
        return self._merge(text, found)

    def _merge(self, text: str, found: list[SecretSpan]) -> list[SecretSpan]:
        """Overlapping parts become one, named by the first of their rules."""
        merged: list[SecretSpan] = []
        for start, end, rule in sorted(found):
            if merged and start < merged[-1][1]:
                before, last, name = merged[-1]
                merged[-1] = before, max(last, end), min(name, rule, key=self._search.ranks.__getitem__)
            else:
                merged.append((start, end, rule))
        whole: list[SecretSpan] = []
        at = 0
        for start, end, rule in merged:
            begin = _without_half_escape(text, max(start, at), at)
            at = _escape_end(text, end)
            whole.append((begin, at, rule))
        return whole


def _without_empty_lines(leaf: Leaf) -> str:
    return leaf.text.replace("\n\n", "")


def _is_any(found: Iterable[SecretSpan]) -> bool:
    return next(iter(found), None) is not None


def _may_go_on(pieces: Sequence[str]) -> bool:
    """Whether pieces may be one text: an id that each event repeats is none."""
    return any(piece != pieces[0] for piece in pieces)


def _is_after_port(found: SecretSpan, pieces: Sequence[str]) -> bool:
    """Whether a password is only the port of a server, and what the next string of a list begins with."""
    start, end, rule = found
    if rule != URL_PASSWORD:
        return False
    borders = list(accumulate(map(len, pieces)))
    number = bisect_right(borders, start)
    return borders[number] < end and _SERVER.search(pieces[number]) is not None


def _json_text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # half a surrogate pair, or a number beyond 64 bits
        return json.dumps(value)


def _blank(text: str, found: list[SecretSpan]) -> str:
    parts = []
    at = 0
    for start, end, _ in sorted(found):
        if end > at:
            parts += [text[at:start], BLANK * (end - max(start, at))]
            at = end
    return "".join([*parts, text[at:]])


def _without_half_escape(text: str, start: int, low: int) -> int:
    """Where a part begins once it takes the backslashes that would escape the bracket instead."""
    if start > low and text[start - 1] == "\\" and text[start] in _ESCAPED_BY_ONE:
        start = low + len(text[low:start].rstrip("\\"))
    return start


def _escape_end(text: str, end: int) -> int:
    """Where a part ends once it takes all of the backslashes that it ends with."""
    if text[end - 1] == "\\":
        while text.startswith("\\", end):
            end += 1
    return end


def _replace(text: str, found: list[SecretSpan]) -> str:
    parts = []
    at = 0
    for start, end, rule in found:
        parts += [text[at:start], f"{MARK}{rule}]"]
        at = end
    return "".join([*parts, text[at:]])


def _copy_part(made: list[list[str]], pieces: Sequence[str], ends: list[int], start: int, end: int) -> None:
    """Copy what stays, from ``start`` to ``end`` of the whole, into the pieces it belongs to."""
    number = bisect_right(ends, start)
    while start < end:
        piece = pieces[number]
        begin = ends[number] - len(piece)
        made[number].append(piece[start - begin : end - begin])
        start = ends[number]
        number += 1


def _hits(found: Iterable[SecretSpan]) -> list[Hit]:
    counts: dict[str, int] = {}
    for _, _, rule in found:
        counts[rule] = counts.get(rule, 0) + 1
    return [Hit(rule, count) for rule, count in counts.items()]
