"""What a request may have been recorded under, where nothing is recorded under its own key.

A program may live on another day than we do. What is today's date may be so by chance: it was a word of the
question all along, or it was that of the recording. What was bound there may be too common here. And what was
a secret there may be what stands for one here, as an earlier answer was replayed without it. Nothing
is guessed: each of these is another reading of the whole request, and it counts only where exactly that was
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from cortex_replay.bindings import NOWHERE, Binder, Filling, Surroundings
from cortex_replay.bindings.dates import days_in, forms_of_days, months_in, present_days_in
from cortex_replay.engine.common_values import key_elsewhere
from cortex_replay.engine.cut_secrets import key_with_secret
from cortex_replay.engine.lookup import LookUp, look_up, names_in_request
from cortex_replay.redact.redactor import MARK
from cortex_replay.store import Fixture, Store
from cortex_replay.types import LlmRequest

__all__ = ["days_to_try", "look_again", "other_binders"]

_MOST_NAMED: Final = 1000
_MOST_DAYS: Final = 5
"""That are tried, of those that are named."""
_NOTHING: Final[WeakKeyDictionary[Binder, Binder]] = WeakKeyDictionary()
"""What :func:`_binder_of_nothing` has made."""
_FURTHEST_ZONES: Final = (timedelta(hours=-12), timedelta(hours=14))


class _Reading(NamedTuple):
    """One way to read a request."""

    look: LookUp
    day: date | None = None
    """The day on which it must have been recorded."""
    is_month: bool = False
    """Whether the month of it will do, since the request names no more."""


def look_again(store: Store, owner: str, look: LookUp, request: LlmRequest) -> LookUp | None:
    """What finds a recording of a request in another way; ``None`` where none does.

    Args:
        store: What is recorded.
        owner: Whose recordings count before the shared ones.
        look: What found nothing.
        request: What is asked.
    """
    if look.binder is None:
        return None
    has_mark = MARK.encode() in request.canonical_bytes()
    for reading in _readings(store, look, look.binder, request):
        other = reading.look
        if other.key != look.key and store.has_any(other.key, owner):
            found: LookUp | None = other
        else:
            found = _recorded_elsewhere(store, owner, other)
        if found is None and has_mark and (key := key_with_secret(store, owner, other.key)) is not None:
            found = replace(other, key=key)
        if found is not None and _is_meant(store, owner, reading._replace(look=found)):
            # What is known of the run stands in answers, even where it is not bound in what was asked.
            found.fill_with(Filling({**look.filling.values, **found.filling.values}))
            return found
    return None


def _recorded_elsewhere(store: Store, owner: str, look: LookUp) -> LookUp | None:
    """What finds a recording from where a value is bound that is too common here."""
    if look.binder is None or look.is_plain:
        return None
    key = key_elsewhere(store, owner, look.binder, look.key)
    if key is None:
        return None
    found = replace(look, key=key)
    found.fill_with(Filling({**look.filling.values, **look.binder.surroundings.unsafe_tokens()}))
    return found


def _readings(store: Store, look: LookUp, binder: Binder, request: LlmRequest) -> Iterator[_Reading]:
    yield _Reading(LookUp(store.key(request), binder, look.binding, is_plain=True))
    yield _Reading(look)
    document = request.canonical_bytes().decode()
    today, months = _days_now(binder.surroundings), months_in(document)
    present = present_days_in(document).difference(today)
    days = days_to_try(binder, document)
    for other, day in other_binders(binder, days):
        look = look_up(store, other, request)
        yield _Reading(look) if day in present else _Reading(look, day, is_month=day in months)
    for day in days if today else ():
        if day not in today:
            yield _Reading(look_up(store, binder, request, _change_day(day, today[0])), day)
            # What was today when it was recorded stands beside what is today now.
            both = Binder(binder.rules, binder.surroundings.on(day, *today))
            yield _Reading(look_up(store, both, request), day, is_month=day in months)


def other_binders(binder: Binder, days: Iterable[date]) -> Iterator[tuple[Binder, date | None]]:
    """What binds values where nothing is known, and on other days.

    Each comes with the day, and all of its times, that it takes for those of the program.

    Args:
        binder: What binds them here and now.
        days: Those that :func:`days_to_try` finds in what is asked.
    """
    yield _binder_of_nothing(binder), None
    known = binder.surroundings
    today = _days_now(known)
    for day in days:
        if day in today:
            yield Binder(binder.rules, known.only_on(day)), None
        yield Binder(binder.rules, known.on(day)), day


def _binder_of_nothing(binder: Binder) -> Binder:
    """What has the rules of a binder, and knows nothing of the run. It is asked for at every miss."""
    found = _NOTHING.get(binder)
    if found is None:
        found = _NOTHING[binder] = Binder(binder.rules, NOWHERE)
    return found


def _days_now(surroundings: Surroundings) -> list[date]:
    """Today, by the clock of the command and by that of the world."""
    if surroundings.clock is None:
        return list(surroundings.days)
    now = surroundings.clock()
    return list(dict.fromkeys([now.astimezone(surroundings.zone).date(), now.astimezone(UTC).date()]))


def days_to_try(binder: Binder, document: str) -> list[date]:
    """The days that a document names: what it calls today, and then what is nearest to today.

    A recording is younger than most of what its request tells of, such as the log of a repository.

    Args:
        binder: What binds values here and now.
        document: All that is asked.
    """
    today, present = _days_now(binder.surroundings), present_days_in(document)

    def rank(day: date) -> tuple[bool, int]:
        return day not in present, min((abs(day - one).days for one in today), default=0)

    return sorted(days_in(document, _MOST_NAMED), key=rank)[:_MOST_DAYS]


def _change_day(old: date, new: date) -> Callable[[str], str]:
    """Writes another day wherever one is written, in the same form."""
    forms = forms_of_days([new])
    texts: dict[str, str] = {}
    for form, text in forms_of_days([old]).items():
        if form in forms:
            texts.setdefault(text, forms[form])  # of two ways to write it, the usual one
    longest_first = sorted(texts, key=len, reverse=True)

    def change(text: str) -> str:
        for one in longest_first if str(old.year) in text else ():
            text = text.replace(one, texts[one])
        return text

    return change


def _is_meant(store: Store, owner: str, reading: _Reading) -> bool:
    """Whether what stands in a stored request for a value was a value here, and not text that looks so."""
    look = reading.look
    if not store.has_fixture(*look.key, owner):
        return look.change is None  # a failure does not say when it was recorded
    fixture = store.get(*look.key, owner)
    if reading.day is not None and not _is_of_day(fixture, reading.day, is_month=reading.is_month):
        return False
    stored = None if fixture.request is None else fixture.request.to_dict()
    if look.is_plain or look.binder is None or look.binding is None:
        return not names_in_request(stored, fixture.meta)
    known = {*look.binding.names, *look.binder.surroundings.unsafe}
    return names_in_request(stored, fixture.meta) <= known


def _is_of_day(fixture: Fixture, day: date, *, is_month: bool) -> bool:
    """Whether it was that day, or a day of its month, somewhere when a recording was made."""
    try:
        recorded = datetime.fromisoformat(str((fixture.meta or {}).get("recorded_at"))).astimezone(UTC)
        days = [(recorded + zone).date() for zone in _FURTHEST_ZONES]
    except (OverflowError, ValueError):
        return False
    if is_month:
        return day in [one.replace(day=1) for one in days]
    return day in days
