"""What the options, the environment, the ini and the project's configuration ask for."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay.config import Configuration, load_settings
from cortex_replay.config.reader import refuse_store_elsewhere
from cortex_replay.config.trust import is_ci
from cortex_replay.errors import LlmError
from cortex_replay.pytest_plugin.terminal import shown

__all__ = ["load"]


def load(config: pytest.Config, options: Namespace) -> Configuration:
    """The settings of a run of tests; its store is an absolute path.

    Args:
        config: For the ini, and for where the project is.
        options: The command line, which pytest reads before ``config.option`` is complete.

    Raises:
        UsageError: Something is asked for that cannot be.
    """
    asked = options.llm_mode
    notes: list[str] = []
    if asked is None and not os.environ.get("CORTEX_REPLAY_MODE"):
        asked = config.getini("llm_mode") or None
        if asked not in (None, "replay") and is_ci(os.environ):  # it comes with the project
            notes = [f"CI is set, so the mode is replay and not {asked}, as llm_mode in the ini says"]
            asked = "replay"
    flags: dict[str, object] = {"mode": asked}
    try:
        if (store := _store_option(config, options)) is not None:
            flags["store"] = store
        loaded = load_settings(config.rootpath, os.environ, flags)
    except LlmError as error:
        raise pytest.UsageError(shown(f"cortex-replay: {error}")) from None
    settings = replace(loaded.settings, store=config.rootpath / loaded.settings.store)
    return replace(loaded, settings=settings, warnings=[*notes, *loaded.warnings])


def _store_option(config: pytest.Config, options: Namespace) -> Path | None:
    """The store that an option or the ini names; the latter comes with the project, and stays in it.

    Raises:
        InvalidRequest: It does not.
    """
    if options.llm_store is not None:
        return Path(str(options.llm_store))
    said = str(config.getini("llm_store"))
    if not said or os.environ.get("CORTEX_REPLAY_STORE"):
        return None
    store = config.rootpath / said
    refuse_store_elsewhere(store, config.rootpath, "llm_store")
    return store
