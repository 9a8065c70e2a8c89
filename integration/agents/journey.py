"""An agent's journey: recorded once on one machine, then replayed on others, with nobody to ask."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from integration.agents.agents import Agent
from integration.agents.machine import Machine, Ran, write_file
from integration.agents.script import FILE
from integration.agents.upstream import KEY, agent_upstream

__all__ = ["PLACES", "Journey", "set_out"]

PLACES: Final = (
    "same place",
    "another directory",
    "another HOME",
    "another user and host",
    "another day",
    "all of it",
)
"""What differs from the recording, in the order of the columns."""
_DAYS: Final = 40


@dataclass(frozen=True, slots=True)
class Journey:
    """An agent that was recorded."""

    agent: Agent
    base: Path
    origin: Machine
    recording: Ran
    calls: int

    @property
    def store(self) -> Path:
        return self.base / "store"

    def learn(self) -> Ran:
        """Let it run once more, elsewhere, and learn what differs from run to run."""
        files = [word for name in self.agent.home for word in ("--home-file", name)]
        return self.origin.run("learn", self.store, self.agent, "--elsewhere", *files)

    def rules(self) -> list[str]:
        """The places that were learned, by the text before them."""
        configuration = tomllib.loads((self.store / "cortex-replay.toml").read_text())
        return [rule["before"] for rule in configuration["bindings"]["rules"]]

    def replay(self, place: str) -> tuple[Machine, Ran]:
        """Replay it at one of :data:`PLACES`. What is not there does not exist."""
        machine = self._machine(place)
        shutil.rmtree(self.origin.cwd, ignore_errors=True)
        if machine.home != self.origin.home:
            shutil.rmtree(self.origin.home, ignore_errors=True)
        return machine, machine.run("replay", self.store, self.agent, "--fail-on", "miss")

    def has_written(self, machine: Machine) -> bool:
        """Whether the note is where the agent ran, and only there."""
        note = machine.cwd / FILE
        is_there = note.exists() and note.read_text() == self.agent.written
        return is_there and (machine.cwd == self.origin.cwd or not self.origin.cwd.exists())

    def residue(self) -> Iterator[str]:
        """What tells, in the store, of the machine that recorded it."""
        origin = self.origin
        telling = {origin.user, origin.user.title(), origin.host, KEY}
        for path in map(str, (origin.cwd, origin.home, origin.tmp)):
            slug = "".join(letter if letter.isalnum() else "-" for letter in path)
            telling |= {path, path.replace("/", "\\/"), quote(path, safe=""), slug}
        for file in sorted(path for path in self.base.rglob("*") if path.is_file()):
            if self.store in file.parents:
                data = file.read_bytes().lower()
                yield from (f"{text} in {file.name}" for text in telling if text.lower().encode() in data)

    def _machine(self, place: str) -> Machine:
        origin, there = self.origin, self.base / "there"
        home = {"home": there / "users" / "norbert", "tmp": there / "volatile"}
        person = {"user": "norbert", "host": "buildbox-77"}
        match place:
            case "same place":
                return origin
            case "another directory":
                return replace(origin, cwd=there / "builds" / "checkout-7")
            case "another HOME":
                return replace(origin, **home)  # type: ignore[arg-type]
            case "another user and host":
                return replace(origin, **person)  # type: ignore[arg-type]
            case "another day":
                return replace(origin, days=_DAYS)
        return Machine(
            cwd=there / "builds" / "checkout-7",
            home=there / "users" / "norbert",
            tmp=there / "volatile",
            user="norbert",
            host="buildbox-77",
            zone="Asia/Tokyo",
            release="6.1.0-ci",
            days=_DAYS,
        )


def set_out(agent: Agent, base: Path, configuration: str = "") -> Journey:
    """Record an agent into a store that is configured so; then its server is gone."""
    write_file(base / "store" / "cortex-replay.toml", configuration)
    home = base / "here" / "home" / "mirabel"
    origin = Machine(
        cwd=home / "src" / "notes-project",
        home=home,
        tmp=base / "here" / "scratch",
        user="mirabel",
        host="mirabels-laptop",
        zone="Europe/Berlin",
    )
    with agent_upstream() as upstream:
        recording = origin.run("record", base / "store", agent, upstream=upstream.url)
        calls = len(upstream.asked)
    return Journey(agent, base, origin, recording, calls)
