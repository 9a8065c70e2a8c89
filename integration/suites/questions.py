"""Whether a call that vcrpy answered asked what was recorded: decided by the key, as everywhere here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from cortex_replay.cassettes import Places
from cortex_replay.cassettes.defaults import without_defaults
from cortex_replay.cassettes.interactions import Interaction
from cortex_replay.config import Settings
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.errors import InvalidRequest
from cortex_replay.misses.differences import Difference, differences, plain_form
from cortex_replay.wire import WIRES

__all__ = ["what_differs"]

_PLACES = Places(Upstreams(Settings(), {}), {}, takes_all=True)


def what_differs(played: Mapping[str, str]) -> list[str]:
    """What a model, or another server, sees of a call and did not see when it was recorded.

    Args:
        played: A call with the body that was recorded and the one that was sent.
    """
    recorded, sent = _document(played["recorded"]), _document(played["sent"])
    return [str(difference) for difference in _differences(played, recorded, sent)]


def _differences(played: Mapping[str, str], recorded: object, sent: object) -> Iterator[Difference]:
    if not isinstance(recorded, dict) or not isinstance(sent, dict):
        yield from differences({"body": recorded}, {"body": sent})
        return
    address = urlsplit(played["uri"])
    sent_body = played["sent"].encode()
    call = Interaction(
        *(played["method"], address.netloc, address.path, address.query, (), sent_body, 200, (), b""),
        scheme=address.scheme,
    )
    route = _PLACES.route(call)
    if route is not None and route.protocol is not None:
        try:
            before, after = (
                WIRES[route.protocol].lift({**body, **dict(route.parameters)}) for body in (recorded, sent)
            )
        except InvalidRequest:
            pass
        else:
            pair = (plain_form(without_defaults(one) or one) for one in (before, after))
            yield from differences(*pair)
            return
    yield from differences({"body": recorded}, {"body": sent})


def _document(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
