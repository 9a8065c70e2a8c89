"""What changed between two sides of a store, by what it means: the most important first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from cortex_replay.behaviour.compare import by_importance
from cortex_replay.behaviour.differences import Difference, Tier, highest
from cortex_replay.behaviour.kinds import TIERS, Kind
from cortex_replay.behaviour.questions import Question, compare_questions
from cortex_replay.behaviour.roads import changed_roads
from cortex_replay.behaviour.values import Clean, as_it_is
from cortex_replay.hashing import blake3_hex
from cortex_replay.history.questions import describe_question, first_line
from cortex_replay.mcp.questions import server_in
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.index.index import ScopedRow, content_key
from cortex_replay.store.review import Recording, Review

__all__ = ["ChangeReport", "Item", "report_changes"]

How = Literal["changed", "added", "removed", "replaced", "road"]

_ORDER: Final[dict[How, int]] = {"road": 0, "changed": 1, "replaced": 1, "removed": 2, "added": 3}
_ID_LENGTH: Final = 16
_Key = tuple[str, str, str]
"""A model or nothing, a prompt hash or the key of an exchange, a scope or nothing."""


@dataclass(frozen=True, slots=True)
class Item:
    """One recording, or one road, that changed."""

    how: How
    """``road``: not one recording, but the order of all calls of a test."""
    differences: list[Difference]
    before: Question | None = None
    after: Question | None = None
    scopes: tuple[str, ...] = ()
    """The tests and scopes that it concerns."""
    why: str = ""
    """Of one that replaces another, what they have in common."""
    title: str = ""
    """The question in one line, however long that is, without secrets; of a road, whose it is."""

    @property
    def tier(self) -> Tier:
        return highest(self.differences)

    @property
    def recording(self) -> Recording | None:
        """The newer one; ``None`` of a road."""
        question = self.after or self.before
        return None if question is None else question.first

    @property
    def who(self) -> str:
        """The model, or the MCP server."""
        one = self.recording
        if one is None:
            return ""
        server = server_in(one.said.request) if isinstance(one.said, Exchange) else None
        return server or one.model or ""

    @property
    def key(self) -> str:
        return "" if self.recording is None else _key(self.recording)[1]

    @property
    def path(self) -> str:
        return "" if self.recording is None else self.recording.row.path

    @property
    def id(self) -> str:
        """A name of letters and digits, which is the same in each report on the same two sides."""
        before = "" if self.before is None else self.before.first.row.path
        named = "\0".join((self.how, before, self.path, *self.scopes))
        return blake3_hex(named.encode())[:_ID_LENGTH]


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """All that changed."""

    base: str
    head: str
    items: list[Item] = field(default_factory=list)
    """The most important first. Differences are clean; questions and answers are as they were recorded."""

    @property
    def tier(self) -> Tier:
        """The highest of all."""
        return max((item.tier for item in self.items), default=Tier.SAME)

    @property
    def counts(self) -> dict[str, int]:
        """How many items there are of each tier, and how many recordings were added and removed."""
        tiers = Counter(item.tier.word for item in self.items)
        ways = Counter(item.how for item in self.items)
        counts = {tier.word: tiers[tier.word] for tier in reversed(Tier)}
        return counts | {"added": ways["added"], "removed": ways["removed"]}


def report_changes(review: Review, base: str, head: str, clean: Clean = as_it_is) -> ChangeReport:
    """Judge what changed.

    Args:
        review: What changed. Roads are told where it has what was kept, too.
        base: What a person calls the side of then.
        head: What a person calls the side of now.
        clean: What cuts secrets out of texts, before they are cut short.
    """
    found = [*_merge(_items(review, clean)), *_roads(review)]
    items = [replace(item, title=_title(item, clean)) for item in found]
    items.sort(key=_rank)
    return ChangeReport(base, head, items)


def _rank(item: Item) -> tuple[object, ...]:
    """The most important first; of one test in the order of its calls."""
    call = None if item.recording is None else item.recording.meta.get("call")
    number = call if isinstance(call, int) else 0
    return -item.tier, _ORDER[item.how], item.scopes, number, item.title, item.path


def _items(review: Review, clean: Clean) -> Iterator[Item]:
    then, now = _sides(review)
    replaced = {_key(one.recording): (_key(one.replaces), one.why) for one in review.added if one.replaces}
    taken = {key for key, _ in replaced.values()}
    came = [one.recording for one in review.added] + [change.after for change in review.changed]
    for key in dict.fromkeys(map(_key, came)):
        after, (old, why) = now.question(key), replaced.get(key, (key, ""))
        before = then.find(old) or then.shared(key)
        if before is None:
            yield Item("added", _one_more(after, then.owners), None, after, _scopes(after))
        else:
            differences = compare_questions(before, after, clean)
            yield Item("replaced" if why else "changed", differences, before, after, _scopes(after), why)
    for key in dict.fromkeys(map(_key, review.removed)):
        if key not in taken and now.find(key) is None:
            yield _gone(then.question(key), now.shared(key), now.owners, clean)


def _gone(before: Question, shared: Question | None, owners: set[str], clean: Clean) -> Item:
    """What a side has no more; a scope may be given what is shared instead."""
    if shared is None:
        return Item("removed", _one_fewer(before, owners), before, None, _scopes(before))
    return Item("changed", compare_questions(before, shared, clean), before, shared, _scopes(before))


class _Side:
    """The recordings of one side, by their keys."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.recordings = list(recordings)
        self._by_key: dict[_Key, list[Recording]] = {}
        for one in self.recordings:
            self._by_key.setdefault(_key(one), []).append(one)

    def question(self, key: _Key) -> Question:
        """What is recorded under a key, errors and answers that stayed among it."""
        return Question(tuple(self._by_key[key]))

    def find(self, key: _Key) -> Question | None:
        """The same, if anything is."""
        return self.question(key) if key in self._by_key else None

    def shared(self, key: _Key) -> Question | None:
        """What a scope is given that has nothing of its own."""
        return self.find((key[0], key[1], "")) if key[2] else None

    @property
    def owners(self) -> set[str]:
        """Who has recordings; "" stands for those that nobody in particular made."""
        return {owner for one in self.recordings for owner in one.owners or [""]}


def _sides(review: Review) -> tuple[_Side, _Side]:
    """Both sides, as far as they were read."""
    old = [*(change.before for change in review.changed), *review.removed, *review.kept]
    new = [
        *(change.after for change in review.changed),
        *(one.recording for one in review.added),
        *review.kept,
    ]
    files = {one.row.path: one for one in old}
    pinned = (replace(files[row.path], row=row) for row in review.pinned if row.path in files)
    return _Side(old), _Side([*new, *pinned])


def _key(one: Recording) -> _Key:
    model, prompt_hash, _, key = content_key(one.row)
    if prompt_hash is None and key is None and isinstance(one.said, Fixture):  # an index without keys
        model, prompt_hash = one.said.key
    scope = one.row.scope if isinstance(one.row, ScopedRow) else ""
    return model or "", prompt_hash or key or one.row.path, scope


def _one_more(question: Question, then: set[str]) -> list[Difference]:
    """A call more of somebody who made calls before is behaviour; all calls of a new test are not."""
    grew = [owner for owner in _scopes(question) or ("",) if owner in then]
    return [
        _call(f"{owner or 'the program'} makes a call that it did not make", owner, True) for owner in grew
    ]


def _one_fewer(question: Question, now: set[str]) -> list[Difference]:
    shrank = [owner for owner in _scopes(question) or ("",) if owner in now]
    return [_call(f"{owner or 'the program'} no longer makes this call", owner, False) for owner in shrank]


def _call(text: str, owner: str, is_new: bool) -> Difference:
    return Difference(TIERS[Kind.CALL], Kind.CALL.value, owner, not is_new or None, is_new or None, text)


def _scopes(question: Question) -> tuple[str, ...]:
    return tuple(sorted({owner for one in question.recordings for owner in one.owners}))


def _merge(items: Iterable[Item]) -> list[Item]:
    """One item for each pair of files: several scopes may have the same one."""
    merged: dict[tuple[object, ...], Item] = {}
    for item in items:
        files = (item.how, _files(item.before), _files(item.after))
        there = merged.get(files)
        if there is None:
            merged[files] = item
            continue
        scopes = tuple(sorted({*there.scopes, *item.scopes}))
        more = [one for one in item.differences if one not in there.differences]
        differences = by_importance([*there.differences, *more])
        merged[files] = Item(there.how, differences, there.before, there.after, scopes, there.why)
    return list(merged.values())


def _files(question: Question | None) -> tuple[tuple[str, str], ...]:
    return () if question is None else tuple((one.row.path, one.row.blake3) for one in question.recordings)


def _roads(review: Review) -> Iterator[Item]:
    then, now = _sides(review)
    went = [*(change.before for change in review.changed), *review.removed]
    came = [*(change.after for change in review.changed), *(one.recording for one in review.added)]
    for name, difference in changed_roads(then.recordings, now.recordings, went, came):
        yield Item("road", [difference], scopes=(name,))


def _title(item: Item, clean: Clean) -> str:
    one = item.recording
    if one is None:
        return clean(", ".join(item.scopes))
    return describe_question(one.request, clean) or first_line(clean(one.exchange)) or one.row.path
