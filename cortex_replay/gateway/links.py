"""Links in answers that lead a client to its provider, and so around the gateway.

Anthropic's batches name a whole URL for their results (``results_url``), and SDKs follow it with the key. A
client of the gateway gets one that leads through it, whatever server the recording is from; the recording
keeps what the provider said.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from cortex_replay.engine.http.call import HttpReply

__all__ = ["lead_through"]

_LINK: Final = re.compile(
    rb'("results_url"\s*:\s*")https?://[^"\\/]+(?:/[^"\\]*?)?(?=/v1/messages/batches/[^"\\]*")'
)


def lead_through(reply: HttpReply, own_base: str) -> HttpReply:
    """An answer whose links to results lead through the gateway.

    Args:
        reply: What a client gets.
        own_base: The base URL that the client has for the provider.
    """
    if b'"results_url"' not in reply.body:
        return reply
    own = own_base.encode()
    return replace(reply, body=_LINK.sub(lambda link: link[1] + own, reply.body))
