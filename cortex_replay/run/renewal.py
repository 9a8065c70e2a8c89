"""A stored request as it would be asked today: with values in place of what stands for them."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from cortex_replay.bindings import Binder, Bound, Filling
from cortex_replay.bindings.placeholders import name_of, tokens_in
from cortex_replay.bindings.requests import rewrite_request
from cortex_replay.types import LlmRequest

__all__ = ["renew"]

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def renew(request: LlmRequest, names: Collection[str], binder: Binder) -> Bound | str:
    """What to ask, and what is bound in it; or why it cannot be asked.

    What is known of this run takes the place of what was known of the recording, and each id gets a new one.

    Args:
        request: As it is stored.
        names: The bindings that its recording says were applied.
        binder: What binds values here.
    """
    values = dict(binder.surroundings.tokens())
    unknown: set[str] = set()

    def look(text: str) -> str:
        for token in tokens_in(text):
            if name_of(token) in names and token not in values:
                make = _NEW.get(name_of(token))
                if make is None:
                    unknown.add(name_of(token))
                else:
                    values[token] = make(int(token.partition("#")[2] or 1))
        return text

    rewrite_request(request, look)
    if unknown:
        return f"its request holds values that are not known here: {', '.join(sorted(unknown))}"
    filling = Filling(values)
    filled = rewrite_request(request, lambda text: filling.text(text, names))
    if binder.bind(filled).request != request:
        return "its request, with the values of today, is another one"
    return Bound(filled, binder.bind(filled).binding)


def _ulid(_: int) -> str:
    number = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5))


def _time(number: int) -> str:
    moment = datetime.fromtimestamp(time.time() - number, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_NEW: Final[Mapping[str, Callable[[int], str]]] = {
    "uuid": lambda _: str(uuid.uuid4()),
    "ulid": _ulid,
    "time": _time,
    "epoch": lambda number: str(int(time.time()) - number),
}
"""New values of a shape. Those that programs measure, or are given by a system, cannot be made up."""
