"""The simulator of llama.cpp's prompt cache, held against the server."""

from __future__ import annotations

import random
from pathlib import Path

import httpx
import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.llamacpp import LlamaCppCache, LlamaCppServer
from integration.llamacpp_conversations import SERVERS, Kind, talk
from tests.servers.llamacpp import is_available, start_llamacpp

CONVERSATIONS = 40
"""With each of five kinds of server: 200."""


@pytest.mark.skipif(not is_available(), reason="xllamacpp has no wheel for this platform")
@pytest.mark.parametrize("kind", SERVERS, ids=str)
def test_it_reads_what_the_server_says_that_it_read(kind: Kind, tmp_path: Path) -> None:
    """Every call of 200 conversations, to the token; all of one kind with one server, one after the other."""
    server = LlamaCppServer(kind.slots, kind.is_unified, 10**9 if kind.has_host else 0)
    cache = LlamaCppCache(server=server)
    said, simulated = [], []

    with (
        start_llamacpp(tmp_path, options=kind.options) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
    ):
        for number in range(CONVERSATIONS):
            for call in talk(client, random.Random(f"{kind} {number}")):
                asked = CacheCall("llamacpp", "tiny", 0.0, blocks(call.prompt), reply=blocks(call.reply))
                said.append(call.read)
                simulated.append(cache.ask(asked).read)

    assert simulated == said
    assert len(said) > 4 * CONVERSATIONS
    assert 0 in said
    assert max(said) > 200


def blocks(tokens: list[int]) -> tuple[CacheBlock, ...]:
    return tuple(CacheBlock("", Place.MESSAGES, str(token), 1) for token in tokens)
