"""A made-up user on a made-up machine, for tests of what is bound."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Final
from unittest.mock import patch

from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.types import LlmRequest

NOW: Final = datetime(2026, 11, 5, 9, 20, 11, tzinfo=UTC)  # a day whose number has one digit
CWD: Final = "/srv/ann/My Shop"
ENVIRONMENT: Final = {
    "HOME": "/srv/ann",
    "TMPDIR": "/var/folders/q7/T",
    "USER": "annabel",
    "TZ": "Europe/Berlin",
}
HOST: Final = "buildbox-77.corp.example"
PLAIN_RULES: Final = BindingRules()


def surroundings(cwd: str = CWD, now: datetime = NOW, **environment: str) -> Surroundings:
    with patch("platform.node", lambda: HOST):
        return Surroundings.of(ENVIRONMENT | environment, cwd, now)


def bind(text: str, rules: BindingRules = PLAIN_RULES, known: Surroundings | None = None) -> str:
    """A text as it is stored; filled again, it must be what it was."""
    binder = Binder(rules, known or surroundings()) if known or rules is not PLAIN_RULES else _usual_binder()
    bound = binder.bind(LlmRequest("m", system=text))
    stored = bound.request.system
    assert bound.filling.text(stored, bound.names) == text
    return stored


@cache
def _usual_binder() -> Binder:
    return Binder(PLAIN_RULES, surroundings())
