"""A made-up user on a made-up machine, for tests of what is bound."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.types import LlmRequest

NOW: Final = datetime(2026, 11, 5, 9, 20, 11, tzinfo=UTC)  # a day whose number has one digit
CWD: Final = "/srv/ann/My Shop"
ENVIRONMENT: Final = {
    "HOME": "/srv/ann",
    "TMPDIR": "/var/folders/q7/T",
    "USER": "annabel",
    "HOSTNAME": "buildbox-77.corp.example",
    "TZ": "Europe/Berlin",
}
PLAIN_RULES: Final = BindingRules()


def surroundings(cwd: str = CWD, now: datetime = NOW, **environment: str) -> Surroundings:
    return Surroundings.of(ENVIRONMENT | environment, cwd, now)


def bind(text: str, rules: BindingRules = PLAIN_RULES, known: Surroundings | None = None) -> str:
    """A text as it is stored; filled again, it must be what it was."""
    binder = Binder(rules, known or surroundings())
    bound = binder.bind(LlmRequest("m", system=text))
    stored = bound.request.system
    assert bound.filling.text(stored, bound.names) == text
    return stored
