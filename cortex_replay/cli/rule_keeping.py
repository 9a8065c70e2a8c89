"""Rules that were learned: whether the store stands them, and how they and its keys get to the disk.

The configuration is written first and the store second. Whoever dies between the two leaves rules that
recordings do not follow yet: their calls miss, the miss says why, and ``rekey`` does the rest. The other way
round, recordings would be bound by rules that nobody has.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cortex_replay.bindings import PlaceRule
from cortex_replay.config import KeyRules, key_rules_for
from cortex_replay.config.files import MAX_BYTES, OWN_NAME, PYPROJECT, find_config, shown_path
from cortex_replay.config.rule_text import append_rules
from cortex_replay.disk import Folder, absolute_path, write_file
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.errors import StoreIo
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git.repository import find_top
from cortex_replay.store.rekey import RekeyPlan, apply_rekey, plan_rekey

__all__ = ["RuleKeeping", "plan_keeping"]


@dataclass(frozen=True, slots=True)
class RuleKeeping:
    """What keeping rules would do."""

    source: DirectorySource
    rules: tuple[PlaceRule, ...]
    plan: RekeyPlan
    plan_again: Callable[[], RekeyPlan]
    file: Path
    """The configuration that they go to."""
    prefix: str
    """What stands before the names of settings in it."""
    content: bytes
    """What it will hold."""
    mode: int

    @property
    def shown(self) -> str:
        """The configuration, for a message."""
        return shown_path(self.file)

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Two recordings each that would have one key, although they are two calls."""
        joining = [(one, other) for one, other, is_same_call in self.plan.joining if not is_same_call]
        return [*self.plan.colliding, *joining]

    def write(self) -> None:
        """Write the rules, then give recordings their new keys.

        Raises:
            StoreIo: One of the two could not be written.
            FixtureIntegrityFailed: Somebody changed the store meanwhile.
        """
        try:
            write_file(self.file, self.content, mode=self.mode)
        except OSError as error:
            raise StoreIo(f"{self.shown}: {error.strerror}; nothing was written") from None
        if self.plan.moving or self.plan.exchanges:
            done = apply_rekey(self.source, self.plan, self.plan_again)
            if done.colliding:
                raise StoreIo(
                    f"{self.shown} has the rules, but of what was recorded meanwhile, two different answers "
                    "would get one key: cortex-replay rekey names them"
                )


def plan_keeping(root: Path, rules: Sequence[PlaceRule]) -> RuleKeeping:
    """What it takes to keep rules.

    Args:
        root: Of the store.
        rules: What was learned.

    Raises:
        ConfigError: The configuration cannot take them.
        FixtureIntegrityFailed: The store is not what its index says.
    """
    before = key_rules_for(root)
    bindings = replace(before.bindings, rules=(*before.bindings.rules, *rules))
    source = DirectorySource(root)
    rules_then = KeyRules(before.normalisers, before.redact_key, bindings)
    look = partial(plan_rekey, source, RuleRenewal(rules_then))
    plan = look()
    file, prefix = _file_for(root)
    content, mode = _read(file)
    made = append_rules(content, shown_path(file), prefix, rules)
    return RuleKeeping(source, tuple(rules), plan, look, file, prefix, made, mode)


def _file_for(root: Path) -> tuple[Path, str]:
    """The configuration of a store: the one that holds for it, or where one is to be made."""
    found = find_config(root)
    if found is not None:
        return found.path, found.prefix
    here, above = absolute_path(Path()), absolute_path(root)
    top = find_top(above.resolve()) or (here if above.is_relative_to(here) else above)
    shared = top / PYPROJECT
    is_python = shared.is_file() and not shared.is_symlink()
    return (shared, "tool.cortex-replay.") if is_python else (top / OWN_NAME, "")


def _read(file: Path) -> tuple[bytes, int]:
    if not os.path.lexists(file):
        return b"", 0o644
    try:
        with Folder.reach(file.parent) as folder:
            return folder.read(file.name, MAX_BYTES + 1), stat.S_IMODE(file.lstat().st_mode)
    except OSError as error:
        raise StoreIo(f"{shown_path(file)}: {error.strerror}; nothing was written") from None
