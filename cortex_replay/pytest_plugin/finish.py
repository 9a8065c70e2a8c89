"""The end of a run: one commit, a verdict, and a report of it."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from cortex_replay.config.files import shown_path
from cortex_replay.disk import write_file
from cortex_replay.engine.ledger import ScopedKey
from cortex_replay.engine.mcp.counts import merge_counts, read_counts, server_rows
from cortex_replay.engine.tokens import cache_rows, counts_of, merge_tallies, read_tally
from cortex_replay.errors import LlmError
from cortex_replay.history.mcp_calls import stored_mcp_calls
from cortex_replay.pytest_plugin.session import LlmSession
from cortex_replay.pytest_plugin.summary import MissOfTest, Summary
from cortex_replay.pytest_plugin.summary_text import group_misses, without_test
from cortex_replay.pytest_plugin.terminal import shown
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run.step_summary import write_step_summary
from cortex_replay.store import Store, StoredFixture
from cortex_replay.store.tool_calls import StoredCall

__all__ = ["finish"]

_COUNTS: Final = (
    "hits",
    "recorded",
    "live",
    "failed",
    "missed",
)


def finish(
    session: pytest.Session, llm: LlmSession, workers: list[dict[str, Any]], deselected: list[str]
) -> Summary:
    """Commit what was kept, judge what is unused, and write the reports that were asked for."""
    config = session.config
    reports = workers or [llm.report()]
    summary = Summary(
        llm.run.mode,
        {name: sum(int(one[name]) for one in reports) for name in _COUNTS},
        [MissOfTest(*miss) for one in reports for miss in one["misses"]],
        [str(reason) for one in reports for reason in one["not_recorded"]],
        sum((Counter(one["bypassed"]) for one in reports), Counter()),
        is_inner=llm.outer is not None,
        is_relayed=llm.is_relayed,
        warnings=llm.warnings,
        paid=merge_tallies(read_tally(one["paid"]) for one in reports),
        saved=merge_tallies(read_tally(one["saved"]) for one in reports),
        servers=merge_counts(read_counts(one["servers"]) for one in reports),
        remarks=sum((Counter(one["remarks"]) for one in reports), Counter()),
        prices=llm.run.ledger.prices,
    )
    summary.errors += [str(problem) for one in reports for problem in one["unpublished"]]
    used = {
        (str(model), str(prompt_hash), str(scope))
        for one in reports
        for model, prompt_hash, scope in one["used"]
    }
    exchanges = {str(key) for one in reports for key in one["used_exchanges"]}
    ran: dict[str, bool] = {name: passed for one in reports for name, passed in one["ran"].items()}
    try:
        store = llm.store
        # Each test that was to record left its answers to this moment. Replay takes over nothing.
        if any(one["left_answers"] for one in reports):
            _adopt_all(store)
        used = {key for key in used if not key[2] or store.has_own(*key)}
        summary.fixtures = len(store.list(scoped=True))
        is_whole = not deselected and session.testsfailed == 0 and not session.shouldstop
        is_whole = is_whole and config.args_source != pytest.Config.ArgsSource.ARGS
        if not llm.is_relayed:
            summary.unused, fixtures = _find_unused(store, used, ran, is_whole=is_whole)
            summary.unused_calls, calls = _find_unused_calls(store, exchanges, ran, is_whole=is_whole)
            summary.unjudged = fixtures + calls
    except (LlmError, pytest.fail.Exception) as error:
        summary.errors.append(llm.problem or shown(str(error)))
    if config.getoption("llm_fail_unused") and (summary.unused or summary.unused_calls):
        summary.errors.append(_reason_of_unused(config, summary, llm.root))
    if report := config.getoption("llm_report"):
        try:
            _write(Path(str(report)), summary, used, exchanges, llm.run.redactor)
        except OSError as error:
            summary.errors.append(f"the report cannot be written: {error}")
    if llm.outer is None:
        _write_step_summary(summary, session)
    else:
        problem = llm.outer.report(_part_for_outer_run(summary, used, sorted(exchanges)))
        if problem is not None:
            summary.warnings.append(f"the command around these tests could not be told of them: {problem}")
    if summary.errors and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return summary


def _adopt_all(store: Store) -> None:
    left = store.abandoned()
    if left.answers or left.notes:
        store.adopt_abandoned()
        store.commit()


def _reason_of_unused(config: pytest.Config, summary: Summary, root: Path) -> str:
    fixtures, calls = len(summary.unused), len(summary.unused_calls)
    counted = [f"{fixtures} fixture{'s' * (fixtures != 1)}"] * bool(fixtures)
    counted += [f"{calls} call{'s' * (calls != 1)} to MCP servers"] * bool(calls)
    what = f"{' and '.join(counted)} {'is' if fixtures + calls == 1 else 'are'} unused"
    report = str(config.getoption("llm_report") or "used.json")
    first = "" if config.getoption("llm_report") else "pytest --llm-report used.json; "
    prune = shlex.join(["cortex-replay", "prune", "--store", shown_path(root), "--unused-from", report])
    return (
        f"{what}: no test asks for it, and --llm-fail-unused says that this is a failure.\n"
        f"To remove them: {first}{prune}\n"
        "To keep them, leave out --llm-fail-unused."
    )


def _find_unused(
    store: Store, used: set[ScopedKey], ran: Mapping[str, bool], *, is_whole: bool
) -> tuple[list[StoredFixture], int]:
    """The fixtures that no test asks for any more, and the number of those that nobody can tell.

    A fixture says which tests recorded it; what a test has of its own is its alone. If they all ran well and
    none asked for it, it is unused. If one of them did not run, only a run of everything can tell.
    """
    unused: list[StoredFixture] = []
    unjudged = 0
    for item in store.list(scoped=True):
        if (item.model, item.prompt_hash, item.scope) in used:
            continue
        if is_whole or _have_all_run(_tests_of(store, item), ran):
            unused.append(item)
        else:
            unjudged += 1
    return unused, unjudged


def _tests_of(store: Store, item: StoredFixture) -> Any:
    """Who recorded a fixture. What no test has asked for is not fetched to find out."""
    if item.scope:
        return [item.scope]
    if not store.is_near(item.path):
        return None
    return (store.get(item.model, item.prompt_hash).meta or {}).get("tests")


def _have_all_run(tests: Any, ran: Mapping[str, bool]) -> bool:
    return isinstance(tests, list) and bool(tests) and all(ran.get(str(test)) for test in tests)


def _find_unused_calls(
    store: Store, used: AbstractSet[str], ran: Mapping[str, bool], *, is_whole: bool
) -> tuple[list[StoredCall], int]:
    """The same of recorded calls to MCP servers: it is known whose one is if a test has it of its own."""
    calls = stored_mcp_calls(store, without=used)
    unused = [call for call in calls if is_whole or (call.scope and ran.get(call.scope))]
    return unused, len(calls) - len(unused)


def _used_as_json(used: Iterable[ScopedKey]) -> list[dict[str, str]]:
    return [
        {"model": model, "prompt_hash": prompt_hash, **({"scope": scope} if scope else {})}
        for model, prompt_hash, scope in sorted(used)
    ]


def _write(
    path: Path, summary: Summary, used: Iterable[ScopedKey], exchanges: Iterable[str], redactor: Redactor
) -> None:
    document: dict[str, Any] = {
        "mode": summary.mode,
        **summary.counts,
        **{f"{name}_tokens": count for name, count in counts_of(summary.paid, summary.saved).items()},
        "misses": [miss._asdict() for miss in summary.misses],
        "not_recorded": summary.not_recorded,
        "bypassed": dict(summary.bypassed),
        "used": _used_as_json(used),
        "unused": [item._asdict() for item in summary.unused],
        "unjudged": summary.unjudged,
        "servers": {server: asdict(counted) for server, counted in sorted(summary.servers.items())},
        "used_exchanges": sorted(exchanges),
        "unused_calls": [call._asdict() for call in summary.unused_calls],
        "remarks": dict(summary.remarks),
        "errors": summary.errors,
    }
    if money := summary.prices.to_dict(summary.paid, summary.saved):
        document["money"] = money
    clean, _ = redactor.json(document)
    text = json.dumps(clean, indent=2).replace("\x7f", "\\u007f") + "\n"
    write_file(path, text.encode(), make_folder=True)


def _write_step_summary(summary: Summary, session: pytest.Session) -> None:
    """A table in the summary of a GitHub job; a command around these tests writes its own."""
    rows = {
        "mode": summary.mode,
        "hits": summary.counts["hits"],
        "misses": summary.counts["missed"],
        "recorded": summary.counts["recorded"],
        "live calls": summary.counts["live"],
        "refused calls": sum(summary.bypassed.values()),
        "unused fixtures": len(summary.unused),
        **server_rows(summary.servers),
        **({"unused calls to MCP servers": len(summary.unused_calls)} if summary.servers else {}),
        **cache_rows(summary.paid, summary.saved),
        **summary.prices.rows(summary.paid, summary.saved),
        "failed tests": session.testsfailed,
    }
    misses = (f"{tests}\n{text}" for tests, text in group_misses(summary.misses))
    write_step_summary(os.environ, "cortex-replay (pytest)", rows, [*summary.errors, *misses])


def _part_for_outer_run(summary: Summary, used: Iterable[ScopedKey], exchanges: list[str]) -> dict[str, Any]:
    """What the gateway has not seen. Calls that were passed on to it, it has counted itself."""
    return {
        "hits": summary.counts["hits"],
        "saved": {model: asdict(tokens) for model, tokens in summary.saved.items()},
        "misses": [
            {"what": test, "explanation": without_test(text, test), "is_probe": is_probe}
            for test, text, is_probe in summary.misses
        ],
        "used": _used_as_json(used),
        "used_exchanges": exchanges,
        "bypassed": dict(summary.bypassed),
        "servers": {server: asdict(counted) for server, counted in summary.servers.items()},
    }
