"""The remote of a store, which is that of the nearest configuration above *its* root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cortex_replay.config.files import find_config
from cortex_replay.config.load import load_from
from cortex_replay.config.remote import URL_VARIABLE, RemoteSettings

__all__ = ["remote_settings_for"]


def remote_settings_for(
    store_root: Path, environment: Mapping[str, str] = os.environ
) -> RemoteSettings | None:
    """The remote of the store at ``store_root``: of the configuration above it, or of the environment.

    Raises:
        ConfigError: The configuration is not sound; ``field`` says where.
    """
    file = find_config(store_root)
    if (file is None or "remote" not in file.table) and not environment.get(URL_VARIABLE, "").strip():
        return None  # as for most stores, and at no cost
    found = load_from(file, environment, {}).settings.remote
    return None if found.url is None else found
