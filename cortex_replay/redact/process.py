"""What this process as a whole knows to be secret: for everything that it prints or logs.

A recording is redacted by the redactor of its run. What goes to a terminal or a log has no run: an error of
one engine may quote the key of another. So each key that is used anywhere in the process is learned here,
and whoever stores something asks here as well.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from cortex_replay.redact.redactor import MOST_LEARNED, Redactor
from cortex_replay.secret_names.values import SHORTEST_SECRET, is_plain, secrets_in

__all__ = ["count_secrets", "learn_secret", "process_redactor", "teach"]


class _Process:
    """What was learned so far, and what is made of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.learned: dict[str, None] = {}
        self.count = 0
        self.environment: dict[Any, Any] | None = None
        self.known: frozenset[str] = frozenset()
        self.redactor: Redactor | None = None

    def refresh(self) -> None:
        """Read the environment again, if it is another by now."""
        # Undecoded where that can be had: each answer that is recorded looks here several times.
        environment = dict(getattr(os.environ, "_data", os.environ))
        if self.environment != environment:
            found = (secret.strip() for pair in os.environ.items() for secret in secrets_in(*pair))
            self.known = frozenset(secret for secret in found if len(secret) >= SHORTEST_SECRET)
            self.environment, self.redactor = environment, None


_process = _Process()


def learn_secret(value: str) -> None:
    """From now on this value is not stored, printed or logged any more, unless it is a word."""
    with _process.lock:
        if value not in _process.learned and not is_plain(value):
            _process.learned[value] = None
            _process.count += 1
            _process.redactor = None
            while len(_process.learned) > MOST_LEARNED:
                del _process.learned[next(iter(_process.learned))]


def count_secrets() -> int:
    """How many values were learned: whoever keeps a redactor sees when it is out of date."""
    return _process.count


def process_redactor() -> Redactor:
    """A redactor that knows the keys in the environment, as it is now, and those that were learned."""
    with _process.lock:
        _process.refresh()
        if _process.redactor is None:
            _process.redactor = Redactor(_process.known | _process.learned.keys())
        return _process.redactor


def teach(redactor: Redactor) -> None:
    """Let a redactor know what this process knows by now.

    It may have been made before a test set a variable, or before an adapter was given a key.
    """
    with _process.lock:
        _process.refresh()
        known, learned = _process.known, tuple(_process.learned)
    redactor.learn_environment(known, *learned)
