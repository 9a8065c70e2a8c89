"""What calls took, in tokens, by model; and how much of it a provider had in its cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import TokenUsage

__all__ = [
    "Tally",
    "Tokens",
    "cache_rows",
    "counts_of",
    "merge_tallies",
    "read_tally",
    "sum_of",
    "token_facts",
]

_MOST_MODELS: Final = 10_000
_MOST_COUNTED: Final = 10**15


@dataclass(slots=True)
class Tokens:
    """What the calls of one model took."""

    prompt: int = 0
    """All that was sent; the next two are parts of it."""
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """The part of the one before that is kept for an hour."""
    completion: int = 0
    uncounted: int = 0
    """Calls whose provider told no usage."""

    def add(self, usage: TokenUsage | None) -> None:
        if usage is None:
            self.uncounted += 1
            return
        self.prompt += usage.prompt_tokens
        self.completion += usage.completion_tokens
        self.cached += usage.cached_tokens or 0
        self.cache_write += usage.cache_write_tokens or 0
        self.cache_write_1h += usage.cache_write_1h_tokens or 0

    def merge(self, other: Tokens) -> None:
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    @property
    def cache_write_5m(self) -> int:
        """What was written for five minutes, or for a time that the provider did not tell."""
        return max(0, self.cache_write - self.cache_write_1h)

    @property
    def fresh(self) -> int:
        """What the cache had no part in; never below nothing, however a provider counts."""
        return max(0, self.prompt - self.cached - self.cache_write)


_COUNTS: Final = frozenset(field.name for field in fields(Tokens))

Tally = dict[str, Tokens]
"""By model."""


def merge_tallies(tallies: Iterable[Tally]) -> Tally:
    """One tally of several."""
    whole: Tally = {}
    for tally in tallies:
        for model, tokens in tally.items():
            whole.setdefault(model, Tokens()).merge(tokens)
    return whole


def sum_of(tally: Mapping[str, Tokens]) -> Tokens:
    """What the calls of all models took."""
    whole = Tokens()
    for tokens in tally.values():
        whole.merge(tokens)
    return whole


def read_tally(document: object) -> Tally:
    """A tally that another process sent, as plain values.

    Raises:
        InvalidRequest: It is none.
    """
    if not isinstance(document, dict) or len(document) > _MOST_MODELS:
        raise InvalidRequest("tally", "expected tokens by model")
    return {str(model): _read_tokens(counts) for model, counts in document.items()}


def _read_tokens(counts: object) -> Tokens:
    if isinstance(counts, dict) and counts.keys() <= _COUNTS and all(map(_is_count, counts.values())):
        return Tokens(**counts)
    raise InvalidRequest("tally", "expected numbers of tokens")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_COUNTED


def counts_of(paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> dict[str, int]:
    """What a report for programs says of tokens: of live calls, and of those that were replayed."""
    spent, spared = sum_of(paid), sum_of(saved)
    return {
        "prompt": spent.prompt,
        "completion": spent.completion,
        "cached": spent.cached,
        "cache_write_5m": spent.cache_write_5m,
        "cache_write_1h": spent.cache_write_1h,
        "replayed": spared.total,
        "replayed_cached": spared.cached,
    }


def token_facts(paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> Iterator[str]:
    """The same for a line of text; how much came from a cache is said where something did."""
    spent, spared = sum_of(paid), sum_of(saved)
    if spent.total:
        yield f"{spent.prompt:,} + {spent.completion:,} tokens paid{_in_brackets(spent)}"
    if spared.total:
        yield f"{spared.total:,} tokens saved{_in_brackets(spared)}"


def cache_rows(paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> dict[str, str]:
    """What came from a cache, for a table; nothing where nothing did."""
    shares = {
        "read from the cache": _cache_share(sum_of(paid)),
        "read from the cache, of what was saved": _cache_share(sum_of(saved)),
    }
    return {name: share for name, share in shares.items() if share}


def _in_brackets(tokens: Tokens) -> str:
    share = _cache_share(tokens)
    return f" (from the cache: {share})" if share else ""


def _cache_share(tokens: Tokens) -> str:
    """How much of the input was read from a cache. The share is rounded down: 100% is all of it."""
    if not tokens.cached or not tokens.prompt:
        return ""
    percent = min(100, 100 * tokens.cached // tokens.prompt)
    share = f"{percent}%" if percent else "less than 1%"
    return f"{tokens.cached:,} of {tokens.prompt:,} input tokens, {share}"
