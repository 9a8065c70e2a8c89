"""``cortex-replay record --again``: a command run several times, and what varies between its runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.cli import output
from cortex_replay.cli.command_report import report, summarise
from cortex_replay.cli.command_run import CommandRun, run_once
from cortex_replay.cli.questions import question_of
from cortex_replay.config import load_settings
from cortex_replay.engine.call_log import CallLog
from cortex_replay.errors import InvalidRequest, LlmError
from cortex_replay.mcp.questions import name_call, server_in
from cortex_replay.misses.differences import Difference, differences, plain_form
from cortex_replay.misses.rules import compare
from cortex_replay.misses.variation import variations
from cortex_replay.run import Run
from cortex_replay.store import FixtureKey
from cortex_replay.store.fixture import bindings_in
from cortex_replay.types import LlmRequest

__all__ = ["run_again"]

_MOST_CALLS: Final = 20
_MOST_DIFFERENCES: Final = 5
Key = FixtureKey | str
Call = tuple[int, Key]
"""Its number in its scope, and its key."""


def run_again(command: Sequence[str], root: Path, flags: Mapping[str, Any], times: int) -> int:
    """Run a command several times into one store, and say which of its calls vary; gives the exit status.

    The first run records as it would alone. The others ask only what is not recorded by then, so that a call
    which is asked otherwise is recorded besides.

    Args:
        command: What stands behind ``--``.
        root: Of the store.
        flags: The values of the options.
        times: How often.
    """
    _refuse_mode(flags)
    done: list[CommandRun] = []
    before: set[tuple[str, ...]] = set()
    status = 0
    while len(done) < times and not status:
        output.talk(f"cortex-replay: run {len(done) + 1} of {times}")
        named = {**flags, "mode": "once"} if done else flags
        prepare = partial(_prepare, first=done[0].run if done else None, recorded=before)
        done.append(run_once(command, root, named, default="once", prepare=prepare))
        summarise(done[-1].run, done[-1].status)
        status = done[-1].verdict(())
    if status:
        output.talk(
            f"error: run {len(done)} failed" + (", so there was no other" if len(done) < times else "")
        )
    runs = [one.run for one in done]
    varying = _compare(runs)
    _drop_noise(runs, varying, before)
    learn = shlex.join(["cortex-replay", "learn", "--store", str(root), "--", *command])
    _tell(len(done), varying, learn)
    is_reported = report(_document(done, varying), flags)
    return status or (0 if is_reported else 1)


def _refuse_mode(flags: Mapping[str, Any]) -> None:
    """Refuse a mode that is configured and records nothing: there would be nothing to compare."""
    loaded = load_settings(Path(), os.environ, {"mode": flags["mode"]})
    mode = loaded.settings.mode
    if loaded.origins.get("mode") != "default" and not mode.writes:
        reason = f"is {mode}, which records nothing: give --mode once or --mode record with --again"
        raise InvalidRequest("mode", reason)


def _prepare(run: Run, first: Run | None, recorded: set[tuple[str, ...]]) -> None:
    """Make a run ready; of the first one, note what is recorded before."""
    run.call_log = CallLog()
    if first is not None:
        run.share_budget(first)
    else:
        recorded.update((item.model, item.prompt_hash) for item in run.store.list(scoped=True))


@dataclass
class _Varying:
    """A call that is not the same in all runs."""

    scope: str
    first: Call | None
    """In the first run."""
    other: Call | None
    """In the runs that have another, or have it besides."""
    runs: list[int]
    """Which are these."""
    question: str | None = None
    found: Sequence[Difference] = ()
    """In what two calls differ, if both are recorded."""
    is_noise: bool = False
    """Whether ``learn`` would bind it."""

    @property
    def call(self) -> int:
        return (self.first or self.other or (0,))[0]

    def to_dict(self) -> dict[str, JsonValue]:
        """For programs."""
        return {
            "scope": self.scope,
            "runs": [*self.runs],
            "call_in_first_run": self.first and self.first[0],
            "call": self.other and self.other[0],
            "question": self.question,
            "differences": [{"part": one.part, "difference": str(one)} for one in self.found],
            "is_noise": self.is_noise,
        }


def _compare(runs: Sequence[Run]) -> list[_Varying]:
    """What varies, each variation once, with the runs in which it occurs."""
    asked = [run.call_log.series() if run.call_log else {} for run in runs]
    found: dict[tuple[str, Call | None, Key | None], _Varying] = {}
    for series in dict.fromkeys(series for run in asked for series in run):
        for number, run in enumerate(asked[1:], start=2):
            for first, other in variations(asked[0].get(series, ()), run.get(series, ())):
                varying = _Varying(series.scope, first, other, [])
                found.setdefault((series.scope, first, other and other[1]), varying).runs.append(number)
    for one in found.values():
        _Reader(runs[-1], runs[one.runs[0] - 1]).describe(one)
    return list(found.values())


def _drop_noise(
    runs: Sequence[Run], varying: Sequence[_Varying], before: Collection[tuple[str, ...]]
) -> None:
    """Remove what was recorded besides and is only noise: no run asks for it again, and a rule that binds it
    would give it the key of the first one."""
    store, first = runs[-1].store, runs[0].call_log
    lasting = {key for keys in first.series().values() for key in keys} if first is not None else set()
    lasting |= {one.other[1] for one in varying if one.other is not None and not one.is_noise}
    noise = {(one.other[1], one.scope) for one in varying if one.other is not None and one.is_noise}
    for key, scope in noise:
        if isinstance(key, FixtureKey) and key not in lasting and tuple(key) not in before:
            store.remove(*key, scope if store.has_own(*key, scope) else "")
    store.commit()


class _Reader:
    """Reads what was asked from the store, where it is redacted and as it is compared.

    Args:
        run: The last one, whose store has all of it.
        other: The run that is held against the first one.
    """

    def __init__(self, run: Run, other: Run) -> None:
        self._run = run
        self._other = other

    def describe(self, varying: _Varying) -> None:
        before, after = (self._form(call, varying.scope) for call in (varying.first, varying.other))
        if before is not None and after is not None:
            varying.found = list(differences(before, after))
            varying.is_noise = self._is_noise(varying)
        varying.question = self._question(varying.other or varying.first, varying.scope)

    def _is_noise(self, varying: _Varying) -> bool:
        """Whether rules make the two calls one."""
        log = self._other.call_log
        asked = log.request(varying.other[1]) if log is not None and varying.other is not None else None
        if asked is None or varying.first is None or not isinstance(varying.first[1], FixtureKey):
            return False
        store = self._run.store
        recorded = store.get(*varying.first[1], varying.scope)
        if recorded.request is None:
            return False
        binder = self._run.binder(store.key_rules.bindings)
        normal = store.normalise(asked)[0]
        return not compare(recorded.request, normal, binder, bindings_in(recorded.meta)).changes

    def _form(self, call: Call | None, scope: str) -> dict[str, Any] | None:
        asked = None if call is None else self._asked(call[1], scope)
        if asked is None:
            return None
        # Once more, as a whole and before anything is cut: by now, more secrets may be known.
        plain = self._run.redactor.json(plain_form(asked) if isinstance(asked, LlmRequest) else asked)[0]
        return plain if isinstance(plain, dict) else None

    def _question(self, call: Call | None, scope: str) -> str | None:
        asked = None if call is None else self._asked(call[1], scope)
        if isinstance(asked, LlmRequest):
            return question_of(asked)
        if asked is None or server_in(asked) is not None:
            return None if asked is None else name_call(asked)
        return f"{asked.get('method')} {asked.get('path')}"

    def _asked(self, key: Key, scope: str) -> LlmRequest | dict[str, JsonValue] | None:
        store = self._run.store
        try:
            if isinstance(key, FixtureKey):
                return store.get(*key, scope).request
            exchange = store.exchange(key, scope)
        except LlmError:  # it failed, or was refused
            return None
        return None if exchange is None else exchange.request


def _tell(runs: int, varying: Sequence[_Varying], learn: str) -> None:
    if runs < 2:
        return
    if not varying:
        output.talk(f"cortex-replay: {runs} runs asked the same")
        return
    for line in _lines(varying):
        output.talk(line)
    if any(one.is_noise for one in varying):
        output.talk(f"To bind what is noise: {output.escape(learn)}")
    calls = len({(one.scope, one.first or one.other) for one in varying})
    vary = "call varies" if calls == 1 else "calls vary"
    output.talk(f"cortex-replay: {calls} {vary} between {runs} runs; replay follows what matches")


def _lines(varying: Sequence[_Varying]) -> Iterator[str]:
    shown: dict[str, int] = {}
    for one in varying[:_MOST_CALLS]:
        where = f"call {one.call}" + (f" of {output.escape(one.scope)}" if one.scope else "")
        runs = f"{'run' if len(one.runs) == 1 else 'runs'} {', '.join(map(str, one.runs))}"
        asks = "" if one.question is None else f": {output.escape(one.question)}"
        if one.first is None:
            yield f"{where} was made in {runs} and not in run 1{asks}"
        elif one.other is None:
            yield f"{where} was made in run 1 and not in {runs}{asks}"
        else:
            texts = [output.escape(str(difference)) for difference in one.found]
            new = [text for text in texts if text not in shown]
            same = sorted({shown[text] for text in texts if text in shown})
            also = f", as in call {', '.join(map(str, same))}" if same else ""
            missing = "" if texts else ": one of the two is not recorded"
            yield f"{where} is asked otherwise in {runs}{also}{missing}" + (":" if new else "")
            yield from (f"  {text}" for text in new[:_MOST_DIFFERENCES])
            if len(new) > _MOST_DIFFERENCES:
                yield f"  and {len(new) - _MOST_DIFFERENCES} more"
            if one.is_noise and new:
                yield "  That is noise, which cortex-replay learn would bind. It is not kept."
            shown |= dict.fromkeys(new, one.call)
    if len(varying) > _MOST_CALLS:
        yield f"… and {len(varying) - _MOST_CALLS} more calls"


def _document(done: Sequence[CommandRun], varying: Sequence[_Varying]) -> dict[str, Any]:
    """All runs, what varies, and what they used together, as ``prune --unused-from`` reads it."""
    runs = [one.document() for one in done]
    used = {repr(key): key for run in runs for key in run["used"]}
    unused = [item for item in runs[-1]["unused"] if all(item in run["unused"] for run in runs)]
    varies, _ = done[-1].run.redactor.json([one.to_dict() for one in varying])
    return {"runs": runs, "varying": varies, "used": list(used.values()), "unused": unused}
