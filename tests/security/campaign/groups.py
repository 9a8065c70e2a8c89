"""The campaign as a whole: groups of write paths, each with secrets of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.sampling import IS_TORTURE
from tests.security.campaign.adapter_run import judge_adapter
from tests.security.campaign.command_runs import (
    judge_behind,
    judge_inspection,
    judge_record,
    judge_refresh,
)
from tests.security.campaign.gateway_run import judge_gateway, judge_killed_gateway, judge_misses
from tests.security.campaign.import_run import judge_import
from tests.security.campaign.plans import FAILURES, PLANS
from tests.security.campaign.plant import Planter
from tests.security.campaign.plugin_run import judge_plugin
from tests.security.campaign.rpc_run import judge_rpc
from tests.security.campaign.tally import Outcome

__all__ = ["CLEAN", "GROUPS", "judge_group"]

COUNT: Final = 24 if IS_TORTURE else 4
"""Secrets of each class for a write path; there are 114 kinds."""
CLEAN: Final = 10_000 if IS_TORTURE else 300

_AT_ONCE: Final = 9 if IS_TORTURE else 21
"""Write paths that share a gateway: the more values it knows, the longer each search takes."""
_FAILURES: Final = 2
"""Secrets of each class for a way to fail: a ledger keeps fifty reasons, and each is to be one of them."""

Group = Callable[[Path, Planter], Outcome]


def _gateways() -> Iterator[tuple[str, Group]]:
    names = [name for name in PLANS if name not in FAILURES]
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        yield (
            f"gateway {start // _AT_ONCE + 1}",
            lambda root, planter, some=some: judge_gateway(root, planter, some),  # type: ignore[misc]
        )


def _failures() -> Iterator[tuple[str, Group]]:
    for turn in range(6 if IS_TORTURE else 1):

        def judge(root: Path, planter: Planter) -> Outcome:
            planter.count = _FAILURES
            return judge_gateway(root, planter, list(FAILURES))

        yield f"failures {turn + 1}", judge


GROUPS: Final[dict[str, Group]] = {
    **dict(_gateways()),
    **dict(_failures()),
    "kill -9": judge_killed_gateway,
    "misses": judge_misses,
    "record": judge_record,
    "refresh": judge_refresh,
    "behind": judge_behind,
    "inspection": judge_inspection,
    "import": judge_import,
    "rpc": judge_rpc,
    "recorder": judge_adapter,
    "plugin": judge_plugin,
}


def judge_group(name: str, root: Path) -> Outcome:
    """Plant, run and judge one group; the same secrets every time."""
    return GROUPS[name](root, Planter(f"campaign/{name}", COUNT))
