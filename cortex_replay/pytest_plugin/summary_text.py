"""The section at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cortex_replay.engine.mcp.counts import server_facts
from cortex_replay.engine.tokens import token_facts
from cortex_replay.pytest_plugin.terminal import print_line

if TYPE_CHECKING:
    from cortex_replay.pytest_plugin.summary import MissOfTest, Summary

__all__ = ["HOW_TO_RECORD", "group_misses", "print_summary", "without_test"]

HOW_TO_RECORD: Final = "pytest --llm-mode once"
_MOST_SHOWN: Final = 10
_T = TypeVar("_T")


def print_summary(reporter: Any, summary: Summary) -> None:
    """A short section at the end of the run."""
    reporter.section(f"model calls ({summary.mode})", sep="-")
    for line in _lines(summary):
        print_line(reporter, line)


def _lines(summary: Summary) -> Iterator[str]:
    for warning in summary.warnings:
        yield f"warning: {warning}"
    yield ", ".join(_facts(summary))
    yield from _first(summary.unused, lambda item: f"unused: {item.path}")
    yield from (f"MCP server {fact}" for fact in server_facts(summary.servers))
    yield from _first(summary.unused_calls, lambda call: f"unused: {call.path}, {call.server} {call.what}")
    remarks = [f"{text} ({n} times)" if n > 1 else text for text, n in summary.remarks.most_common()]
    yield from _first(remarks, lambda text: f"note: {text}")
    yield from _first(summary.not_recorded, lambda reason: f"not recorded: {reason}")
    refused = [f"{count} x {host}" for host, count in summary.bypassed.most_common()]
    yield from _first(refused, lambda what: f"refused: {what}, a call around cortex-replay")
    # A command around these tests is told of them, and shows them itself.
    misses = [] if summary.is_inner else group_misses(summary.misses)
    for tests, explanation in misses[:_MOST_SHOWN]:
        yield ""
        yield tests
        yield from (f"  {line}" for line in explanation.splitlines())
    for error in summary.errors:
        first, *others = error.splitlines()
        yield f"error: {first}"
        yield from (f"  {line}" for line in others)


def _facts(summary: Summary) -> Iterator[str]:
    counts = summary.counts
    yield f"{counts['hits']} hit" + "s" * (counts["hits"] != 1)
    yield f"{counts['missed']} miss" + "es" * (counts["missed"] != 1)
    if summary.is_relayed:
        yield f"{counts['live']} through the gateway, which records and counts them"
        return
    yield f"{counts['recorded']} recorded"
    yield f"{counts['live']} live"
    yield from token_facts(summary.paid, summary.saved)
    yield from summary.prices.facts(summary.paid, summary.saved)
    yield f"{len(summary.unused)} of {summary.fixtures} fixtures unused"
    if summary.unjudged:
        yield f"{summary.unjudged} not judged (not all tests ran)"


def _first(items: Sequence[_T], line_of: Callable[[_T], str]) -> Iterator[str]:
    yield from (line_of(item) for item in items[:_MOST_SHOWN])
    if len(items) > _MOST_SHOWN:
        yield f"… and {len(items) - _MOST_SHOWN} more"


def group_misses(misses: Iterable[MissOfTest]) -> list[tuple[str, str]]:
    """Each miss once, with the tests that have it: equal ones differ only in how to record that one test."""
    groups: dict[str, dict[str, str]] = {}
    for test, explanation, _ in misses:
        groups.setdefault(without_test(explanation, test), {})[test] = explanation
    return [_group(shared, tests) for shared, tests in groups.items()]


def without_test(explanation: str, test: str) -> str:
    """An explanation that does not say which test to record."""
    return explanation.replace(f"{HOW_TO_RECORD} {test!r}", HOW_TO_RECORD)


def _group(shared: str, tests: dict[str, str]) -> tuple[str, str]:
    (first, own), others = next(iter(tests.items())), len(tests) - 1
    if not others:
        return first, own
    return f"{first} and {others} more {'test' if others == 1 else 'tests'}", shared
