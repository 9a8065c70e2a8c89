"""The settings of one caller of the admin RPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from cortex_replay.config import checks
from cortex_replay.config.checks import Check
from cortex_replay.config.origin import WithOrigin
from cortex_replay.validation import keep

__all__ = ["CALLER_CHECKS", "CallerSettings", "Grant"]

Grant = Literal["llm_complete"]

CALLER_CHECKS: Final[Mapping[str, Check]] = {
    "token_env": checks.variables,
    "token_file": checks.optional(checks.path),
    "grants": checks.choices_of(get_args(Grant)),
    "max_calls": checks.optional(checks.whole_from(0)),
    "max_tokens": checks.optional(checks.whole_from(0)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSettings(WithOrigin):
    """Somebody who may use the admin RPC, and how far; `docs/admin.md` is the guide."""

    token_env: tuple[str, ...] = ()
    """The environment variables that may hold the token; the first that is set does."""
    token_file: Path | None = None
    """A file with the token, for when no variable is set."""
    grants: tuple[Grant, ...] = ()
    """What the caller may do: nothing, unless it is named here."""
    max_calls: int | None = None
    """The most calls while the server runs; ``None`` for no limit."""
    max_tokens: int | None = None
    """The most tokens while the server runs; ``None`` for no limit."""

    def __post_init__(self) -> None:
        for name, check in CALLER_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))
