"""Record and replay every agent at every place, and write the table of ``docs/agents.md``.

``python -m integration.agents.measure [AGENT ...]``; with names, the rows of others stay.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from pathlib import Path
from typing import Final

from integration.agents.agents import AGENTS, Agent
from integration.agents.install import VERSIONS
from integration.agents.journey import PLACES, Journey, set_out
from integration.agents.recipe import PAGE

__all__ = ["rows_in"]

_START: Final = "<!-- measured: make agents writes this -->\n"
_END: Final = "<!-- end of what is measured -->\n"


def main(chosen: list[str]) -> int:
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(_START)
    measured, _, after = rest.partition(_END)
    rows = rows_in(measured)
    for agent in AGENTS:
        if not chosen or agent.program in chosen:
            rows[agent.title] = _row(agent)
            print(rows[agent.title], flush=True)  # noqa: T201 - for whoever waits
    PAGE.write_text(f"{before}{_START}{_table(rows)}{_END}{after}", "utf-8")
    return 0 if all(_is_whole(row) for row in rows.values()) else 1


def rows_in(page: str) -> dict[str, str]:
    """The rows of the table, by the agent's name."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines[1:]}


def _row(agent: Agent) -> str:
    with tempfile.TemporaryDirectory(prefix="agents-") as folder:
        journey = set_out(agent, Path(folder))
        cells = [_cell(journey, place) for place in PLACES]
    version = VERSIONS[agent.program].replace("==", "@").rpartition("@")[2]
    return f"| {agent.title} | {version} | {journey.calls} | {' | '.join(cells)} |"


def _cell(journey: Journey, place: str) -> str:
    machine, ran = journey.replay(place)
    hits = f"{ran.hits} of {journey.calls}"
    return hits if journey.has_written(machine) else f"{hits}, no file"


def _table(rows: dict[str, str]) -> str:
    names = ["agent", "version", "calls", *PLACES]
    today = dt.datetime.now(dt.UTC).date()
    head = f"Measured on {today}, with the agents as npm and PyPI have them:\n\n"
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return head + "\n".join([*lines, *(rows[agent.title] for agent in AGENTS if agent.title in rows)]) + "\n"


def _is_whole(row: str) -> bool:
    calls, cells = row.split(" | ")[2], row.removesuffix(" |").split(" | ")[3:]
    return all(cell == f"{calls} of {calls}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
