"""The surroundings of a run: what is known of the place and the time at which it happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from cortex_replay.bindings import machine
from cortex_replay.bindings.dates import forms_of_days
from cortex_replay.bindings.forms import forms_of, names_of, spell, token_of
from cortex_replay.bindings.identity import Identity
from cortex_replay.bindings.repository import Repository
from cortex_replay.bindings.rules import BindingRules
from cortex_replay.bindings.safety import problem_of
from cortex_replay.secret_names.values import has_secret

__all__ = ["KNOWN", "NOWHERE", "Surroundings", "Window"]

KNOWN: Final = (
    *("cwd", "repo", "home", "tmp", "user", "host", "author", "email", "branch", "commit"),
    *("os", "kernel", "tz", "date"),
)
"""The names of known values; where two have one value, the first counts."""

_SLACK: Final = timedelta(minutes=10)
"""How far a time may be from the run to be one of it: a program may have begun before us, and its clock be a
little wrong. Times of files that were there before are none: they say something."""
_SHORT_COMMITS: Final = range(7, 13)
_FURTHEST_ZONE: Final = timedelta(hours=14)

Values = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Window:
    """Between these, a time is one of the run."""

    start: datetime
    end: datetime
    zone: tzinfo | None = None
    """Of times that name none; they may also be in UTC."""

    def holds(self, moment: datetime) -> bool:
        """Whether a time, without a zone where it names none, is one of the run."""
        if moment.tzinfo is not None:
            return self.start <= moment <= self.end
        try:
            local = moment.replace(tzinfo=self.zone) if self.zone else moment.astimezone()
            return any(self.start <= one <= self.end for one in (moment.replace(tzinfo=UTC), local))
        except (OverflowError, ValueError, OSError):
            return False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Values by name, each in the forms in which it occurs; the plain one is called ""."""

    values: Values = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why a value that is known is not bound: it is too short, or too common."""
    began: datetime | None = None
    """When the run began: what is later, is a time of this run."""
    unsafe: Values = field(default_factory=dict)
    """The values that are not safe to bind, also where another spelling is. A rule may name a place for one,
    and a recording from where it was safe is filled with it."""
    days: tuple[date, ...] = ()
    """The days that are today, where that is not for the clock to say."""
    window: Window | None = None
    """The times that belong to the run, as of :meth:`current`."""
    clock: Callable[[], datetime] | None = field(default=None, repr=False, compare=False)
    zone: tzinfo | None = field(default=None, repr=False, compare=False)
    repository: Repository | None = field(default=None, repr=False, compare=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        cwd: str | os.PathLike[str],
        now: datetime | Callable[[], datetime] | None = None,
        rules: BindingRules | None = None,
    ) -> Surroundings:
        """What is known of a command that runs with this environment in this folder.

        Args:
            environment: The command's.
            cwd: The folder it works in.
            now: The time, or a clock; that of the system by itself.
            rules: What is configured: further values.
        """
        clock = now if callable(now) else (lambda: now) if now is not None else _system_clock
        folder = os.path.realpath(cwd)
        repository = Repository.above(folder)
        folders = machine.working_folders(environment, os.fspath(cwd))
        head = repository.head() if repository else None
        identity = Identity.of(environment, repository)
        plain: dict[str, Sequence[str]] = {
            "cwd": folders,
            "repo": _roots(repository.root, folders) if repository else (),
            "home": machine.homes(environment),
            "tmp": machine.temporary_folders(environment),
            "user": machine.users(environment),
            "host": machine.hosts(environment),
            "author": [identity.name] if identity.name else (),
            "email": [identity.email] if identity.email else (),
            "branch": [head.branch] if head and head.branch else (),
            "commit": [head.commit] if head and head.commit else (),
            "kernel": machine.kernels(),
            "tz": machine.zones(environment),
        }
        made = cls(
            began=clock(),
            clock=clock,
            zone=machine.zone_of(environment),
            repository=repository,
            environment=environment,
        )
        for name, texts in plain.items():
            made = _add(made, name, texts)
        if system := machine.system():
            made = replace(made, values={**made.values, "os": system})
        return made if rules is None else made.with_rules(rules)

    def with_rules(self, rules: BindingRules) -> Surroundings:
        """These and the values that a configuration names."""
        made = self
        for name, rule in rules.values.items():
            if name in self.values or name in self.left_out:
                continue
            text = rule.value if rule.env is None else self.environment.get(rule.env)
            if not text:
                if self.clock is not None:
                    made = _leave_out(made, name, f"{rule.env} is not set")
            elif rule.env is not None and has_secret(rule.env, text):
                made = _leave_out(made, name, f"{rule.env} holds a secret")
            else:
                made = _add(made, name, [text])
        return made

    def on(self, *days: date) -> Surroundings:
        """The same, on other days: for a program whose clock is not ours."""
        return replace(self, days=days, window=None)

    def only_on(self, day: date) -> Surroundings:
        """The same, on one of the days that are today somewhere, with the times of our clock."""
        return replace(self, values={**self.values, "date": forms_of_days([day])}, days=(day,))

    def current(self) -> Surroundings:
        """What holds now: the date is asked for here, and a commit may have been made since."""
        if self.window is not None:
            return self
        if self.days:
            start = datetime.combine(min(self.days), datetime.min.time(), UTC) - _FURTHEST_ZONE
            end = datetime.combine(max(self.days), datetime.max.time(), UTC) + _FURTHEST_ZONE
            days, window = self.days, Window(start, end, self.zone)
        elif self.clock is not None and self.began is not None:
            now = self.clock()
            moments = [one for at in (now, self.began) for one in (self._local(at), at.astimezone(UTC))]
            days = tuple(moment.date() for moment in moments)
            window = Window(self.began - _SLACK, now + 2 * _SLACK, self.zone)
        else:
            return self
        values = {**self.values, "date": forms_of_days(days)}
        if self.repository is not None and (made := self.repository.new_commits()):
            known = [values["commit"][""]] if "commit" in values else []
            values["commit"] = _commit_forms([*known, *made])
        return replace(self, values=values, days=days, window=window)

    def state(self) -> object:
        """What :meth:`current` depends on; while it is the same, so is that."""
        if self.days or self.clock is None:
            return None
        now = self.clock()
        commits = self.repository.state() if self.repository is not None else None
        return self._local(now).date(), int(now.timestamp() // _SLACK.total_seconds()), commits

    def tokens(self) -> dict[str, str]:
        """Every value in every form, by its token; those that are left out too."""
        return self.unsafe_tokens() | _tokens(self.values)

    def unsafe_tokens(self) -> dict[str, str]:
        """What is not safe to bind, by the token that a recording from elsewhere may have for it."""
        return _tokens(self.unsafe)

    def _local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone)


def _tokens(values: Values) -> dict[str, str]:
    return {token_of(name, form): text for name, forms in values.items() for form, text in forms.items()}


NOWHERE: Final = Surroundings()
"""For recordings of which nobody knows where they were made."""


def _add(to: Surroundings, name: str, texts: Sequence[str]) -> Surroundings:
    """The surroundings and one more value, bound where it is safe."""
    problems = {text: problem_of(name, text) for text in texts}
    safe = [text for text, problem in problems.items() if problem is None]
    unsafe = [text for text, problem in problems.items() if problem is not None]
    kept = [safe[0] if problems[text] else text for text in texts] if safe else []
    values = {**to.values, name: _forms(name, kept)} if safe else to.values
    further = {**to.unsafe, name: _forms(name, unsafe)} if unsafe else to.unsafe
    made = replace(to, values=values, unsafe=further)
    return made if safe or not unsafe else _leave_out(made, name, f"{unsafe[0]} {problems[unsafe[0]]}")


def _leave_out(to: Surroundings, name: str, reason: str) -> Surroundings:
    return replace(to, left_out={**to.left_out, name: reason})


def _forms(name: str, texts: Sequence[str]) -> Mapping[str, str]:
    if name == "commit":
        return _commit_forms(texts)
    return {**forms_of(texts), **names_of(texts)} if name == "cwd" else forms_of(texts)


def _commit_forms(commits: Sequence[str]) -> Mapping[str, str]:
    forms = spell("", commits)
    for length in _SHORT_COMMITS:
        forms |= spell(str(length), [commit[:length] for commit in commits])
    return forms


def _roots(root: str, folders: Sequence[str]) -> list[str]:
    """The root of a repository, also as the user went there."""
    real, given = folders
    below = real.removeprefix(root)
    return [root, given.removesuffix(below) if given.endswith(below) and given != below else root]


def _system_clock() -> datetime:
    return datetime.now(UTC)
