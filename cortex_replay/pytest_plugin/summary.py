"""The end of a run: one commit, a short section, a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from cortex_replay.disk import write_file
from cortex_replay.engine.money import PriceList, Tally, merge_tallies
from cortex_replay.errors import LlmError
from cortex_replay.pytest_plugin.session import LlmSession
from cortex_replay.pytest_plugin.terminal import print_line, shown
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store, StoredFixture

__all__ = ["Summary", "finish", "print_summary"]

_COUNTS: Final = (
    "hits",
    "recorded",
    "live",
    "failed",
    "missed",
    "prompt_tokens",
    "completion_tokens",
    "replayed_tokens",
)
_MOST_SHOWN: Final = 10


@dataclass
class Summary:
    """What happened in all processes."""

    mode: str
    counts: dict[str, int]
    misses: list[tuple[str, str]]
    not_recorded: list[str]
    fixtures: int = 0
    unused: list[StoredFixture] = field(default_factory=list)
    unjudged: int = 0
    """Fixtures that nobody asked for in this run, but that a test may ask for that did not run."""
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    paid: Tally = field(default_factory=dict)
    saved: Tally = field(default_factory=dict)
    prices: PriceList = field(default_factory=PriceList)


def finish(
    session: pytest.Session, llm: LlmSession, workers: list[dict[str, Any]], deselected: list[str]
) -> Summary:
    """Commit what was kept, judge what is unused, and write the report that was asked for."""
    reports = workers or [llm.report()]
    summary = Summary(
        llm.run.mode,
        {name: sum(int(one[name]) for one in reports) for name in _COUNTS},
        [(str(test), str(text)) for one in reports for test, text in one["misses"]],
        [str(reason) for one in reports for reason in one["not_recorded"]],
        warnings=llm.warnings,
        paid=merge_tallies(one["paid"] for one in reports),
        saved=merge_tallies(one["saved"] for one in reports),
        prices=llm.run.ledger.prices,
    )
    used = {(str(model), str(prompt_hash)) for one in reports for model, prompt_hash in one["used"]}
    ran: dict[str, bool] = {name: passed for one in reports for name, passed in one["ran"].items()}
    try:
        store = llm.store
        # Each test that was to record left its answers to this moment. Replay takes over nothing.
        if any(one["left_answers"] for one in reports) and store.abandoned().sessions:
            store.adopt_abandoned()
            store.commit()
        summary.fixtures = len(store)
        is_whole = not deselected and session.testsfailed == 0 and not session.shouldstop
        is_whole = is_whole and session.config.args_source != pytest.Config.ArgsSource.ARGS
        summary.unused, summary.unjudged = _find_unused(store, used, ran, is_whole=is_whole)
    except (LlmError, pytest.fail.Exception) as error:
        summary.error = shown(str(error))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    config = session.config
    if config.getoption("llm_fail_unused") and summary.unused and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if report := config.getoption("llm_report"):
        try:
            _write(Path(str(report)), summary, used, llm.run.redactor)
        except OSError as error:
            summary.error = f"the report cannot be written: {error}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return summary


def _find_unused(
    store: Store, used: set[tuple[str, str]], ran: Mapping[str, bool], *, is_whole: bool
) -> tuple[list[StoredFixture], int]:
    """The fixtures that no test asks for any more, and the number of those that nobody can tell.

    A fixture says which tests recorded it. If they all ran well and none asked for it, it is unused. If one
    of them did not run, only a run of everything can tell.
    """
    unused: list[StoredFixture] = []
    unjudged = 0
    for item in store.list():
        if (item.model, item.prompt_hash) in used:
            continue
        tests = (store.get(item.model, item.prompt_hash).meta or {}).get("tests")
        known = tests if isinstance(tests, list) and tests else None
        if is_whole or (known is not None and all(ran.get(str(test)) for test in known)):
            unused.append(item)
        else:
            unjudged += 1
    return unused, unjudged


def _write(path: Path, summary: Summary, used: Iterable[tuple[str, str]], redactor: Redactor) -> None:
    document: dict[str, Any] = {
        "mode": summary.mode,
        **summary.counts,
        "misses": [{"test": test, "explanation": text} for test, text in summary.misses],
        "not_recorded": summary.not_recorded,
        "used": [{"model": model, "prompt_hash": prompt_hash} for model, prompt_hash in sorted(used)],
        "unused": [item._asdict() for item in summary.unused],
        "unjudged": summary.unjudged,
    }
    if money := summary.prices.to_dict(summary.paid, summary.saved):
        document["money"] = money
    clean, _ = redactor.json(document)
    text = json.dumps(clean, indent=2).replace("\x7f", "\\u007f") + "\n"
    write_file(path, text.encode(), make_folder=True)


def print_summary(reporter: Any, summary: Summary) -> None:
    """A short section at the end of the run."""
    reporter.section(f"model calls ({summary.mode})", sep="-")
    for warning in summary.warnings:
        print_line(reporter, f"warning: {warning}")
    counts = summary.counts
    facts = [f"{counts['hits']} hits", f"{counts['missed']} misses", f"{counts['recorded']} recorded"]
    facts.append(f"{counts['live']} live")
    if counts["prompt_tokens"] or counts["completion_tokens"]:
        facts.append(f"{counts['prompt_tokens']:,} + {counts['completion_tokens']:,} tokens paid")
    if counts["replayed_tokens"]:
        facts.append(f"{counts['replayed_tokens']:,} tokens saved")
    facts += summary.prices.facts(summary.paid, summary.saved)
    facts.append(f"{len(summary.unused)} of {summary.fixtures} fixtures unused")
    if summary.unjudged:
        facts.append(f"{summary.unjudged} not judged (not all tests ran)")
    print_line(reporter, ", ".join(facts))
    for item in summary.unused[:_MOST_SHOWN]:
        print_line(reporter, f"unused: {item.path}")
    for reason in summary.not_recorded[:_MOST_SHOWN]:
        print_line(reporter, f"not recorded: {reason}")
    for test, explanation in summary.misses[:_MOST_SHOWN]:
        print_line(reporter)
        print_line(reporter, test)
        for line in explanation.splitlines():
            print_line(reporter, f"  {line}")
    if summary.error:
        print_line(reporter, f"error: {summary.error}")
