"""The keys that a client brings with its call, whether or not they are passed on."""

from __future__ import annotations

from urllib.parse import parse_qsl

from cortex_replay.engine.http.call import Headers
from cortex_replay.secret_names.names import CREDENTIAL_PARAMETERS, is_secret_field
from cortex_replay.secret_names.values import SHORTEST_SECRET, is_plain, secrets_in_header

__all__ = ["client_keys_in"]


def client_keys_in(headers: Headers, query: str) -> list[str]:
    """What of a call must neither be stored nor shown.

    What a server without keys is given, such as ``not-needed``, is none.
    """
    found = [key for name, value in headers for key in secrets_in_header(name, value)]
    found += [
        value
        for name, value in parse_qsl(query)
        if (name.lower() in CREDENTIAL_PARAMETERS or is_secret_field(name))
        and len(value) >= SHORTEST_SECRET
        and not is_plain(value)
    ]
    return list(dict.fromkeys(found))
