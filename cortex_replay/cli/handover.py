"""What of our environment a command gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cortex_replay.cli import output
from cortex_replay.run.environment import variables_to_withhold

__all__ = ["Handover"]

_MOST_SHOWN: Final = 10


@dataclass(frozen=True)
class Handover:
    """What of our environment a command gets: all but secrets, and those that the user named."""

    passed: tuple[str, ...]
    withheld: tuple[str, ...]

    @classmethod
    def plan(cls, environment: Mapping[str, str], passed: Sequence[str]) -> Handover:
        for name in passed:
            if name not in environment:
                output.talk(f"warning: --pass-env {output.escape(name)}: there is no such variable")
        return cls(tuple(passed), tuple(variables_to_withhold(environment, passed)))

    def tell(self, given: Collection[str]) -> None:
        """Say what a command that failed may have lacked; not of keys that it got a dummy for."""
        names = [output.escape(name) for name in self.withheld if name not in given]
        if not names:
            return
        shown = ", ".join(names[:_MOST_SHOWN])
        more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
        held = "variable that holds a secret was" if len(names) == 1 else "variables that hold secrets were"
        output.talk(
            f"note: {len(names)} {held} withheld from the command: {shown}{more} "
            "(--pass-env NAME hands one over)"
        )
