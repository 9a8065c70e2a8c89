"""Places at which programs are known to print something volatile.

`learn` finds each of these by itself. They come with cortex-replay because these agents wrap all output of a
tool in them: without them, no recording of such an agent could be replayed before something was learned.
The texts around a value are long enough to be that agent's own.
"""

from __future__ import annotations

from typing import Final

from cortex_replay.bindings.rules import PlaceRule

__all__ = ["PROGRAMS", "PROGRAM_RULES"]

PROGRAMS: Final = "programs"
"""What these are called where they are switched off."""

_CODEX: Final = "Codex 0.166, output of a tool"

PROGRAM_RULES: Final = (
    PlaceRule(
        bind="hex-id", before="Chunk ID: ", after="\nWall time: ", learned="Codex 0.166, output of a tool"
    ),
    PlaceRule(
        bind="duration", before="\nWall time: ", after="\nProcess ", learned="Codex 0.166, output of a tool"
    ),
    PlaceRule(
        bind="number",
        before="\nOriginal token count: ",
        after="\nOutput:",
        learned="Codex 0.166, output of a tool: its size in tokens, which a path in it changes",
    ),
    PlaceRule(
        bind="pid",
        before="\nProcess Group PGID: ",
        after="\n</",
        learned="Gemini CLI 0.61, output of a shell command",
    ),
)
