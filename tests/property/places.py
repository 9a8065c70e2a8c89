"""Conversations of agents, as they are had at one place or another.

The bodies are in `tests/vectors/agent_bodies`: what stands between double braces is of the place.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest
from cortex_replay.bindings import Surroundings
from cortex_replay.wire import WIRES

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "agent_bodies"
MARK: Final = re.compile(r"\{\{(\w+)\}\}")
UNSEEN: Final = frozenset(
    [
        *("type", "role", "id", "tool_use_id", "tool_call_id", "toolUseId", "call_id", "index", "status"),
        *("model", "metadata", "client_metadata", "prompt_cache_key", "store", "stream", "cache_control"),
        *("anthropic_version", "stream_options", "format", "raw"),
    ]
)
"""Fields of bodies that no model reads as they are."""

Leaf = tuple[str | int, ...]
"""Where a text or a number stands in a body."""


@dataclass(frozen=True)
class Place:
    """A machine, a user on it, and a day."""

    cwd: str
    home: str
    tmp: str
    user: str
    host: str
    day: date
    ids: tuple[str, str, str]

    @classmethod
    def random(cls, random: Random) -> Place:
        """Some place; folders with spaces and without, in ASCII or not, the one in the other or not."""
        user, host = _word(random, 6), f"{_word(random, 5)}-{random.randint(10, 99)}"
        home = random.choice([f"/home/{user}", f"/Users/{user}", f"/srv/people/{_word(random, 4)} {user}"])
        odd = random.choice(["", " (copy)", " — ünïcode", "'s work", ".d", "+x", "%20"])
        below = f"{_word(random, 5)}/{_word(random, 6)}{odd}"
        cwd = f"{home if random.random() < 0.5 else '/data'}/{below}"
        tmp = random.choice([f"/var/folders/{_word(random, 3)}/{_word(random, 9)}/T", f"{home}/.tmp"])
        day = date(2026, 1, 1) + timedelta(days=random.randrange(700))
        ids = tuple(_uuid(random) for _ in range(3))
        return cls(cwd, home, tmp, user, host, day, (ids[0], ids[1], ids[2]))

    @property
    def noon(self) -> datetime:
        return datetime.combine(self.day, time(12), UTC)

    def environment(self) -> dict[str, str]:
        who = {"USER": self.user, "LOGNAME": self.user, "HOSTNAME": self.host}
        return {"HOME": self.home, "TMPDIR": self.tmp, "PWD": self.cwd, "TZ": "UTC", **who}

    def surroundings(self) -> Surroundings:
        return Surroundings.of(self.environment(), self.cwd, self.noon)

    def marks(self) -> dict[str, str]:
        """What stands for each mark of a body here."""
        return {
            "cwd": self.cwd,
            "home": self.home,
            "tmp": self.tmp,
            "user": self.user,
            "host": self.host,
            **{f"id{number}": one for number, one in enumerate(self.ids, start=1)},
            "slug": re.sub("[^A-Za-z0-9]", "-", self.cwd),
            "cwd_url": quote(self.cwd, safe="/"),
            "iso": self.day.isoformat(),
            "long": f"{self.day:%A}, {self.day:%B} {self.day.day}, {self.day.year}",
        }


def _word(random: Random, length: int) -> str:
    """Something that is a word in no language."""
    return "".join(random.choice("bcdfghjkpqvwxz" if at % 2 == 0 else "aeiou") for at in range(length))


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


@cache
def template(protocol: str) -> Any:
    """The body of an agent over a wire. Not every wire has an agent: those get what they can carry of one."""
    path = VECTORS / f"{protocol}.json"
    if path.is_file():
        return _with_argument_texts(json.loads(path.read_bytes()))
    whole = WIRES["openai-chat"].lift(template("openai-chat"))
    said = "\n\n".join([whole.system, *(message.content for message in whole.messages)])
    plain = replace(whole, system="", messages=(LlmMessage("user", said),), tools=())
    for request in (whole, plain, replace(plain, extra={"raw": True})):
        try:
            return json.loads(json.dumps(WIRES[protocol].lower(request, stream=False)))
        except InvalidRequest:
            continue
    raise AssertionError(protocol)


def _with_argument_texts(value: Any) -> Any:
    """A body whose tool arguments are JSON texts, where its wire has them so."""
    if isinstance(value, list):
        return [_with_argument_texts(item) for item in value]
    if isinstance(value, dict):
        return {
            name: json.dumps(item, ensure_ascii=False) if name == "arguments" else _with_argument_texts(item)
            for name, item in value.items()
        }
    return value


def render(body: Any, marks: Mapping[str, str], name: str = "", *, is_ascii: bool = False) -> Any:
    """A body as an agent sends it at one place."""
    if isinstance(body, list):
        return [render(item, marks, name, is_ascii=is_ascii) for item in body]
    if isinstance(body, dict):
        return {key: render(item, marks, key, is_ascii=is_ascii) for key, item in body.items()}
    if not isinstance(body, str):
        return body
    if name == "arguments":
        marks = {mark: json.dumps(text, ensure_ascii=is_ascii)[1:-1] for mark, text in marks.items()}
    return MARK.sub(lambda match: marks[match[1]], body)


def lift(protocol: str, body: Any) -> LlmRequest:
    return WIRES[protocol].lift(json.loads(json.dumps(body)))


def leaves(body: Any, wanted: Callable[[Any], bool], at: Leaf = ()) -> Iterator[Leaf]:
    """Where values stand that a model reads."""
    if isinstance(body, dict):
        for name, item in body.items():
            if name not in UNSEEN:
                yield from leaves(item, wanted, (*at, name))
    elif isinstance(body, list):
        for number, item in enumerate(body):
            yield from leaves(item, wanted, (*at, number))
    elif wanted(body):
        yield at


def read(body: Any, at: Sequence[str | int]) -> Any:
    for step in at:
        body = body[step]
    return body


def write(body: Any, at: Sequence[str | int], value: Any) -> Any:
    """The body with another value there."""
    if not at:
        return value
    made = body.copy()
    made[at[0]] = write(body[at[0]], at[1:], value)
    return made
