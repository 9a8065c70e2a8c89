"""What this process as a whole knows to be secret: for everything that it prints or logs.

A recording is redacted by the redactor of its run. What goes to a terminal or a log has no run: an error of
one engine may quote the key of another. So each key that is used anywhere in the process is learned here.
"""

from __future__ import annotations

import os
import threading

from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names import SHORTEST_SECRET, secrets_in

__all__ = ["count_learned", "learn", "process_redactor"]

_lock = threading.Lock()
_learned: set[str] = set()
_made: tuple[dict[str, str], int, Redactor] | None = None


def learn(value: str) -> None:
    """From now on this value is not printed or logged any more."""
    with _lock:
        _learned.add(value)


def count_learned() -> int:
    """How many values were learned: whoever keeps a redactor sees when it is out of date."""
    return len(_learned)


def process_redactor() -> Redactor:
    """A redactor that knows the keys in the environment, as it is now, and those that were learned."""
    global _made  # noqa: PLW0603 - one for the process
    environment = dict(os.environ)
    with _lock:
        if _made is None or _made[:2] != (environment, len(_learned)):
            found = (secret.strip() for pair in environment.items() for secret in secrets_in(*pair))
            known = {secret for secret in found if len(secret) >= SHORTEST_SECRET}
            _made = environment, len(_learned), Redactor(known | _learned)
        return _made[2]
