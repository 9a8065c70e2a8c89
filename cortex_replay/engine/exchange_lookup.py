"""What a call that is recorded as it is is looked up by.

In its body, everything is bound that is bound in a request to a model. An id in a path, or in a call that
asks no model, such as that of a tool, names a thing: two of them are two questions. And in a WebSocket it may
be the server that has made it up. There only what is known of the run is bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from cortex_replay.bindings import Binder, Filling
from cortex_replay.bindings.binder import Binding
from cortex_replay.bindings.placeholders import ESCAPE
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.bound_answers import bind_wire
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.engine.http.other_calls import is_other
from cortex_replay.engine.lookup import binder_of_known, fill_exchange, names_in_request
from cortex_replay.engine.second_look import days_to_try, other_binders
from cortex_replay.mcp.questions import MCP
from cortex_replay.mcp.texts import change_texts, texts_in
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.frames import WEBSOCKET

__all__ = ["ExchangeLookUp", "is_bound_by_rules", "look_again_for_exchange", "look_up_exchange"]

Call = dict[str, JsonValue]


@dataclass(slots=True, eq=False)
class ExchangeLookUp:
    """The key of a call, and what is bound in it."""

    key: str
    asked: Call
    """What is asked, without credentials."""
    binder: Binder | None = None
    """``None`` where nothing is bound."""
    request: Call = field(default_factory=dict)
    """The same as it is hashed and stored."""
    names: frozenset[str] = frozenset()
    _filling: Filling | None = field(default=None, repr=False)

    def fill(self, exchange: Exchange) -> Exchange:
        """What is recorded, with the values of today."""
        return exchange if self._filling is None else fill_exchange(exchange, self._filling)

    def fill_with(self, filling: Filling) -> None:
        """Let placeholders stand for other values."""
        self._filling = filling

    @property
    def filling(self) -> Filling:
        return self._filling or Filling({})

    def bind(self, exchange: Exchange) -> Exchange:
        """What was answered, with placeholders, as it is stored."""
        if self.binder is None:
            return replace(exchange, key=self.key, request=self.asked)
        _, names, binding = _bind(self.binder, self.asked)
        wires = [bind_wire(wire, binding) for wire in exchange.wires]
        bound = sorted({*names, *binding.names})
        meta: dict[str, JsonValue] | None = {"bindings": [*bound]} if bound else None
        return Exchange(wires[0], key=self.key, request=self.request, then=tuple(wires[1:]), meta=meta)


def look_up_exchange(binder: Binder, asked: Call) -> ExchangeLookUp:
    """What a call is looked up by, with the values that a binder knows.

    Args:
        binder: What binds values.
        asked: The call, as :func:`.http.opaque.opaque_request` gives it.
    """
    request, names, binding = _bind(binder, asked)
    names |= {*binding.names}
    if asked["method"] == WEBSOCKET and ESCAPE in names:  # nobody knows at its first message
        return ExchangeLookUp(opaque_key(asked), asked, request=asked)
    look = ExchangeLookUp(opaque_key(request), asked, binder, request, frozenset(names))
    look.fill_with(binding.filling)
    return look


def look_again_for_exchange(store: Store, owner: str, look: ExchangeLookUp) -> ExchangeLookUp | None:
    """What finds a recording of a call that was made without bindings, or elsewhere, if there is one."""
    if not store.has_exchanges(owner):  # a stranger's body may have 32 MB
        return None
    for other in _others(look):
        if other.key != look.key and (found := store.exchange(other.key, owner)) is not None:
            if not names_in_request(found.request, found.meta) <= other.names:
                continue  # what is asked only looks like what is bound there
            other.fill_with(Filling({**look.filling.values, **other.filling.values}))
            return other
    return None


def _others(look: ExchangeLookUp) -> Iterator[ExchangeLookUp]:
    yield ExchangeLookUp(opaque_key(look.asked), look.asked, request=look.asked)
    if look.binder is not None:
        for binder, _ in other_binders(look.binder, days_to_try(look.binder, compact(look.asked))):
            yield look_up_exchange(binder, look.asked)


def is_bound_by_rules(asked: Call) -> bool:
    """Whether shapes and rules bind values in the body of a call: it asks a model, and is no session."""
    return asked["method"] not in (WEBSOCKET, MCP) and not is_other(str(asked["upstream"]))


def _bind(binder: Binder, asked: Call) -> tuple[Call, set[str], Binding]:
    """A call with placeholders, the bindings that were met, and what binds its answer."""
    known = binder_of_known(binder)
    if asked["method"] == MCP:
        texts, binding = known.bind_value([*texts_in(asked["body"])])
        bound = iter(cast("list[str]", texts))
        return {**asked, "body": change_texts(asked["body"], lambda _: next(bound))}, set(), binding
    is_of_model = is_bound_by_rules(asked)
    upstream = asked["upstream"] if is_other(str(asked["upstream"])) else ""  # a server, and no provider
    place, in_place = known.bind_value([asked["path"], asked["query"], upstream])
    body, binding = (binder if is_of_model else known).bind_value(asked["body"])
    assert isinstance(place, list)  # noqa: S101 - as it was
    binding.is_escaping = binding.is_escaping or in_place.is_escaping
    stored: Call = {**asked, "path": place[0], "query": place[1], "body": body}
    return stored | ({"upstream": place[2]} if upstream else {}), {*in_place.names}, binding
