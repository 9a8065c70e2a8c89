"""The redactor that settings ask for."""

from __future__ import annotations

from collections.abc import Mapping

from cortex_replay.config import Settings, known_secrets
from cortex_replay.redact.redactor import Redactor

__all__ = ["redactor_for"]


def redactor_for(settings: Settings, environment: Mapping[str, str], *further: str) -> Redactor:
    """Cuts out what settings and environment know to be secret, and further values."""
    return Redactor([*known_secrets(settings, environment), *further], settings.redaction.extra_patterns)
