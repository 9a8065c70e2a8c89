"""How old the recordings of a store may be, by the nearest configuration above *its* root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from cortex_replay.config.load import load_settings

__all__ = ["max_age_for"]


def max_age_for(store_root: Path, environment: Mapping[str, str] = os.environ) -> timedelta | None:
    """From when on a recording of the store at ``store_root`` is old; ``None``: never.

    Raises:
        ConfigError: The configuration is not sound; ``field`` says where.
    """
    return load_settings(store_root, environment).settings.max_age
