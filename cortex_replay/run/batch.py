"""Many requests at once, each an answer in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cortex_replay.adapters import LlmAdapter
from cortex_replay.errors import BudgetSpent, InvalidRequest, LlmError
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import LlmRequest

__all__ = ["BatchReport", "Job", "read_jobs", "run_batch"]


@dataclass(frozen=True, slots=True)
class Job:
    """One line of a batch."""

    line: int
    request: LlmRequest
    provider: str | None = None


@dataclass(slots=True)
class BatchReport:
    """What became of a batch."""

    jobs: int
    done: int = 0
    failures: list[tuple[int, LlmError]] = field(default_factory=list)
    """The line of each job that failed, and why, in the order in which they did."""
    unasked: int = 0
    """Jobs that were left because they might have crossed the budget."""

    @property
    def exit_code(self) -> int:
        """That of the worst failure; a batch that was stopped is not whole either."""
        worst = max((error.exit_code for _, error in self.failures), default=0)
        return max(worst, BudgetSpent.exit_code if self.unasked else 0)


def read_jobs(lines: Iterable[bytes], timeout_ms: int) -> list[Job]:
    """Every job of a file, one JSON object a line; blank lines are passed over.

    Requests that do not say how long they may take get ``timeout_ms``.

    All of them are read before the first is asked, so that a slip in the last line costs nothing.

    Raises:
        InvalidRequest: A line is not a request; the field is its number.
    """
    jobs = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                jobs.append(_job(number, line, timeout_ms))
            except InvalidRequest as error:
                where = f"line {number}" + ("" if error.field == "request" else f": {error.field}")
                raise InvalidRequest(where, error.reason) from None
    return jobs


def _job(number: int, line: bytes, timeout_ms: int) -> Job:
    try:
        document: Any = loads(line)
    except JsonError as error:
        raise InvalidRequest("request", str(error)) from None
    if not isinstance(document, dict):
        raise InvalidRequest("request", "expected an object")
    provider = document.pop("provider", None)
    if not isinstance(provider, str | None):
        raise InvalidRequest("provider", "expected the name of a provider")
    return Job(number, LlmRequest.from_dict({"timeout_ms": timeout_ms} | document), provider)


async def run_batch(
    report: BatchReport,
    jobs: Sequence[Job],
    adapters: Mapping[str | None, LlmAdapter],
    at_once: int,
    progress: Callable[[BatchReport], None] = lambda _: None,
) -> None:
    """Ask every job of its adapter, ``at_once`` of them at a time, in the order of the file.

    A job that fails does not stop the others; a budget that is spent leaves what would have to be asked.
    Equal jobs are asked one after another, since each is an answer of its own.
    """
    queue = iter(_group(jobs))

    async def work() -> None:
        for group in queue:
            for job in group:
                try:
                    await adapters[job.provider].complete(job.request)
                except BudgetSpent:
                    report.unasked += 1
                except LlmError as error:
                    report.failures.append((job.line, error))
                else:
                    report.done += 1
                progress(report)

    async with asyncio.TaskGroup() as workers:
        for _ in range(max(1, at_once)):
            workers.create_task(work())


def _group(jobs: Sequence[Job]) -> Iterable[list[Job]]:
    groups: dict[tuple[str | None, str, str], list[Job]] = {}
    for job in jobs:
        key = (job.provider, job.request.model, job.request.prompt_hash())
        groups.setdefault(key, []).append(job)
    return groups.values()
