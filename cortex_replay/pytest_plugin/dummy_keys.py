"""Keys for SDKs that do not start without one: in replay nobody has a real key.

A marked test finds dummies in its environment. So does the code that is imported while tests are collected,
since many projects make their client at the top of a module. Whoever looks at the environment to find out
whether there *is* a key must not be deceived: an unmarked test, a hook of a ``conftest.py``, or a module that
skips its tests without a key sees the environment as it was.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from cortex_replay.modes import Mode
from cortex_replay.providers import DUMMY_KEY, PROVIDERS, Provider

__all__ = ["WITHOUT_KEYS", "DummyKeys", "conftests_at", "is_used", "variables_checked_in"]

WITHOUT_KEYS: Final = (Mode.REPLAY, Mode.ONCE)
"""The modes that can do without a key; in ``once``, if everything is recorded."""
_OPTIONS: Final = ("llm_mode", "llm_store", "llm_fail_unused", "llm_report", "llm_keep_failed")
_INI: Final = ("llm_replay", "llm_mode", "llm_store")
_SKIP: Final = b"skip"


class DummyKeys:
    """Dummies for the variables that the user has not set.

    Args:
        further: Variables of the project's own providers, besides those of the SDKs that we know.
        environment: Where they are put.
    """

    def __init__(
        self, further: Iterable[Collection[str]] = (), environment: MutableMapping[str, str] = os.environ
    ) -> None:
        rows = [
            row
            for row in PROVIDERS.values()
            if row.is_wanted(environment) and not _is_found_elsewhere(row, environment)
        ]
        self._families = [*(row.sdk_key_variables for row in rows), *further]
        self._environment = environment

    @property
    def variables(self) -> list[str]:
        return [name for family in self._families for name in family]

    @contextmanager
    def give(self, without: Collection[str] = (), now: Mapping[str, str] | None = None) -> Iterator[None]:
        """Have dummies in the environment for as long as this lasts, but not of some variables.

        A provider with one key of the user's gets none: some SDKs would prefer the dummy.

        Args:
            without: The variables that get none.
            now: The environment as it is, where it has been read already.
        """
        now = dict(self._environment) if now is None else now
        wanted = {
            name
            for family in self._families
            if not any(now[name].strip() for name in family if name in now)
            for name in family
        }
        with self._set(dict.fromkeys(wanted.difference(without), DUMMY_KEY), now):
            yield

    @contextmanager
    def withhold(self, names: Collection[str]) -> Iterator[None]:
        """Take the dummies of some variables away for as long as this lasts."""
        now = dict(self._environment)
        with self._set(dict.fromkeys(name for name in names if now.get(name) == DUMMY_KEY), now):
            yield

    @contextmanager
    def _set(self, values: Mapping[str, str | None], now: Mapping[str, str]) -> Iterator[None]:
        # Most are not there. To ask os.environ for one of these costs an error that it raises and catches.
        before = {name: now.get(name) for name in values}
        self._put(values)
        try:
            yield
        finally:
            # What somebody else has set meanwhile is not ours to take back.
            self._put({name: before[name] for name in values if self._environment.get(name) == values[name]})

    def _put(self, values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                self._environment.pop(name, None)
            else:
                self._environment[name] = value


def _is_found_elsewhere(row: Provider, environment: Mapping[str, str]) -> bool:
    """Whether the user has credentials that are in no variable of their own, as Amazon's profiles are."""
    return any(
        Path(place).expanduser().is_file() if place.startswith("~") else environment.get(place)
        for place in row.other_credentials
    )


def is_used(config: pytest.Config, options: Namespace) -> bool:
    """Whether a project uses this plugin, as far as can be seen before its tests are read."""
    if any(map(config.getini, _INI)) or any(getattr(options, name, None) for name in _OPTIONS):
        return True
    if any(name.startswith("CORTEX_REPLAY_") for name in os.environ):
        return True
    root = config.rootpath
    if any((root / name).is_file() for name in ("cortex-replay.toml", "INDEX.toml")):
        return True
    return b"[tool.cortex-replay" in _text_of(root / "pyproject.toml")


def conftests_at(places: Iterable[str], root: Path) -> Iterator[Path]:
    """The ``conftest.py`` files that pytest reads before it collects from some places."""
    folders = {root}
    for place in places:
        path = Path(os.path.abspath(place.partition("::")[0]))  # noqa: PTH100 - as pytest does it
        folders |= {path, *path.parents, *path.glob("test*")}
    folders |= set(root.glob("test*"))
    for folder in folders:
        if folder == root or root in folder.parents:
            yield folder / "conftest.py"


def variables_checked_in(files: Iterable[Path], names: Iterable[str]) -> set[str]:
    """The variables that files name which also skip something: perhaps because there is no key."""
    texts = [text for text in map(_text_of, files) if _SKIP in text]
    return {name for name in names if any(name.encode() in text for text in texts)}


def _text_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
