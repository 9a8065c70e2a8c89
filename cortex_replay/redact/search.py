"""The search for secrets in one text and in all its views."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from cortex_replay.expressions import Expression, PatternError
from cortex_replay.redact.contexts import ASSIGNMENT, CONTEXT_RULES, is_secret_by_name, secrets_in_context
from cortex_replay.redact.known_values import KNOWN, KnownValues
from cortex_replay.redact.patterns import PATTERNS, SHORT_PATTERNS, PatternTable
from cortex_replay.redact.views import Span, View, base64_views, is_plain_id, runs_of, unescape

__all__ = ["BLANK", "Search", "SecretSpan", "rule_names"]

SecretSpan = tuple[int, int, str]
"""Start and end of a secret in a text, and the name of the rule that found it."""

BLANK: Final = "\0"
"""Stands for what was cut out while the rest is searched again; no rule takes it for anything."""

_DEEPEST_ESCAPES: Final = 4
_DEEPEST_BASE64: Final = 2
_LOOK_BACK: Final = 48
_PERCENT: Final = re.compile("%[0-9A-Fa-f]{2}")
_RULE_NAME: Final = re.compile("[a-z0-9][a-z0-9_-]{0,63}")


def rule_names() -> list[str]:
    """The names of all rules, the most telling first."""
    names = [KNOWN, *(pattern.name for pattern in (*PATTERNS.patterns, *SHORT_PATTERNS)), *CONTEXT_RULES]
    return list(dict.fromkeys(names))


class Search:
    """What is looked for; a class because it is prepared once.

    Raises:
        ValueError: A pattern is no regular expression, its name does not fit into a placeholder, or
            there is no such rule.
    """

    def __init__(
        self, known: KnownValues, extra_patterns: Mapping[str, str], only: Collection[str] | None
    ) -> None:
        names = rule_names()
        self._extra = [(name, _compile(name, pattern)) for name, pattern in extra_patterns.items()]
        if taken := [name for name in extra_patterns if name in names]:
            raise ValueError(f"{taken[0]!r} cannot name a pattern: there is a rule of that name")
        wanted = {*names, *extra_patterns} if only is None else set(only)
        if unknown := sorted(wanted.difference(names, extra_patterns)):
            raise ValueError(f"there is no rule {unknown[0]!r}")
        self._known = known if KNOWN in wanted else KnownValues(())
        self._has_spaces = any(" " in value for value in self._known.values)
        self._extra = [(name, pattern) for name, pattern in self._extra if name in wanted]
        patterns = (pattern for pattern in PATTERNS.patterns if pattern.name in wanted)
        self._patterns = PATTERNS if only is None else PatternTable(patterns)
        self._short_patterns = [pattern for pattern in SHORT_PATTERNS if pattern.name in wanted]
        self._context_rules = frozenset(CONTEXT_RULES) & wanted
        self.ranks = {name: rank for rank, name in enumerate([KNOWN, *extra_patterns, *names[1:]])}
        """Where two rules find the same, the one of the lower rank gives its name."""
        self.has_extra = bool(self._extra)

    def look(self, text: str) -> Iterator[SecretSpan]:
        """What one look at a text and all its views finds, in any order."""
        yield from self._look_at_views(text, 0)
        for start, end in self._known.find_escaped(text):
            yield start, end, KNOWN
        # Perhaps a form, where it is a space.
        if "+" in text and (self._has_spaces or ("%" in text and _PERCENT.search(text))):
            yield from self._look_at_views(text.replace("+", " "), 0)

    def _look_at_views(self, text: str, nesting: int) -> Iterator[SecretSpan]:
        views: list[View] = []
        level = text
        while True:
            runs = runs_of(level)
            telling = [
                (start, end)
                for start, end in runs
                if not is_plain_id(level[start:end]) or level.startswith(".", start - 1)
            ]
            for start, end, rule in self._look_here(level, runs, telling):
                yield *_source(views, start, end), rule
            view = unescape(level) if len(views) < _DEEPEST_ESCAPES else None
            if view is None:
                break
            views.append(view)
            level = view.text
        if telling and nesting < _DEEPEST_BASE64:
            for start, end, rule in self._look_at_base64(level, telling, nesting):
                yield *_source(views, start, end), rule

    def _look_at_base64(self, text: str, runs: list[Span], nesting: int) -> Iterator[SecretSpan]:
        for view in base64_views(text, runs):
            for start, end, rule in self._look_at_views(view.text, nesting + 1):
                first, last = view.source_of(start, end)
                while text.startswith("=", last):
                    last += 1
                yield first, last, rule

    def is_secret_by_name(self, name: str, text: str) -> bool:
        """Whether a whole text is a secret because of what it is called."""
        return ASSIGNMENT in self._context_rules and is_secret_by_name(name, text)

    def _look_here(self, text: str, runs: list[Span], telling: list[Span]) -> Iterator[SecretSpan]:
        # The words that rules begin with stand in the runs or shortly before.
        in_runs = "\n".join([text[max(0, start - _LOOK_BACK) : end] for start, end in telling])
        for start, end in self._known.find(text, in_runs):
            yield start, end, KNOWN
        patterns = [pattern for pattern in self._short_patterns if pattern.anchor in text]
        if telling:
            patterns += self._patterns.candidates_in(in_runs)
        for pattern in patterns:
            for start, end in pattern.find(text):
                yield start, end, pattern.name
        if runs and self._context_rules:
            for start, end, name in secrets_in_context(text, runs):
                if name in self._context_rules:
                    yield start, end, name
        for name, expression in self._extra:
            for start, end in _between_blanks(expression, text):
                yield start, end, name


def _compile(name: str, pattern: str) -> Expression:
    if not _RULE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a pattern: use small letters, digits and dashes")
    try:
        return Expression(pattern, f"redaction.extra_patterns.{name}")
    except PatternError as error:
        raise ValueError(f"the pattern {name!r} is no regular expression: {error}") from None


def _source(views: list[View], start: int, end: int) -> Span:
    for view in reversed(views):
        start, end = view.source_of(start, end)
    return start, end


def _between_blanks(expression: Expression, text: str) -> Iterator[Span]:
    """Matches in what is between blanks: however it is written, a pattern must not take those."""
    at = 0
    for part in text.split(BLANK):
        for match in expression.finditer(part):
            start, end = match.span(1 if expression.groups and match[1] else 0)
            if start < end:
                yield at + start, at + end
        at += len(part) + 1
