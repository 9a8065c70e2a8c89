"""What ``crtx-llm`` says, and what this project says, in one form that can be compared."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex_replay import LlmError, LlmRequest, LlmResponse, ReplayAdapter

__all__ = ["Crtx", "Said", "said_here"]


@dataclass(frozen=True, slots=True)
class Said:
    """What one side made of a folder and of the requests to it."""

    fixture_count: int | None
    """``None`` if the folder was refused."""
    answers: list[str] = field(default_factory=list)
    """JSON as text, so that 1, 1.0 and true differ. If the folder was refused, only why."""


@dataclass(frozen=True, slots=True)
class Crtx:
    """The program in ``crtx_peer/``."""

    program: str

    def said(self, folder: Path, requests: Iterable[LlmRequest] = ()) -> Said:
        """What the crate's ``ReplayAdapter`` answers from a folder."""
        opened, *answers = self._lines(["answer", str(folder)], requests)
        if "fixture_count" in opened:
            return Said(opened["fixture_count"], [_comparable(answer) for answer in answers])
        return Said(None, [_comparable(opened)])

    def prompt_hashes(self, requests: Iterable[LlmRequest]) -> list[str]:
        """The crate's own hash of each request."""
        return [line["prompt_hash"] for line in self._lines(["hash"], requests)]

    def _lines(self, arguments: Sequence[str], requests: Iterable[LlmRequest]) -> list[Any]:
        lines = [json.dumps(_plain(request), ensure_ascii=False) + "\n" for request in requests]
        done = subprocess.run(
            [self.program, *arguments], input="".join(lines).encode(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        # Texts hold other line separators, so only a line feed ends a line.
        return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def said_here(adapter: ReplayAdapter, requests: Iterable[LlmRequest]) -> Said:
    """What this project's ``ReplayAdapter`` answers, in the form of the other one's."""
    answers = []
    for request in requests:
        try:
            answers.append(_comparable({"ok": _as_theirs(adapter.sync.complete(request))}))
        except LlmError as error:
            answers.append(_comparable({"err": {"variant": type(error).__name__, "display": str(error)}}))
    return Said(adapter.fixture_count, answers)


def _plain(request: LlmRequest) -> dict[str, Any]:
    """A request with the fields of ``crtx-llm``, each of which it wants to be there."""
    rest = {"model": request.model, "json_schema": request.json_schema, "timeout_ms": request.timeout_ms}
    return request.to_dict() | rest


def _as_theirs(response: LlmResponse) -> dict[str, Any]:
    usage = response.usage
    return {
        "text": response.text,
        "parsed_json": response.parsed_json,
        "model": response.model,
        "usage": usage
        and {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
        "raw_hash": response.raw_hash,
    }


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
