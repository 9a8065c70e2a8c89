"""The simulator of llama.cpp's prompt cache, held against the server."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.simulators.llamacpp import LlamaCppCache, LlamaCppServer
from integration.llamacpp_conversations import LETTERS, SERVERS, Kind, talk
from tests.servers.llamacpp import is_available, start_llamacpp

needs_xllamacpp = pytest.mark.skipif(not is_available(), reason="xllamacpp has no wheel for this platform")
CONVERSATIONS = 40
"""With each of five kinds of server: 200."""


@needs_xllamacpp
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


TALK = f"""
import openai

client, turns = openai.OpenAI(), [{{"role": "system", "content": "You answer for the shop. " * 20}}]
for question in ("hello", "and then", "thanks"):
    turns.append({{"role": "user", "content": question}})
    stream = client.chat.completions.create(
        model="tiny", messages=turns, max_tokens=40, stream=True, logit_bias={{"{LETTERS[0]}": 100}},
        stream_options={{"include_usage": True}},
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    turns.append({{"role": "assistant", "content": said}})
"""


@needs_xllamacpp
def test_a_recorded_conversation_is_reported_beside_what_the_server_said(tmp_path: Path) -> None:
    """A recording has blocks and no tokens, so the two are close and not equal: a template adds some."""
    (tmp_path / "model").mkdir()
    (tmp_path / "talk.py").write_text(TALK)
    with start_llamacpp(tmp_path / "model", options=SERVERS[0].options) as url:
        variables = {**os.environ, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none"}
        cortex_replay(tmp_path, variables, "record", "--store", "store", "--", sys.executable, "talk.py")

    calls = json.loads(cortex_replay(tmp_path, os.environ, "cache", "--store", "store", "--json"))["calls"]

    assert [call["provider"] for call in calls] == ["llamacpp"] * 3
    said = [call["reported"]["read"] for call in calls]
    assert said[0] == 0
    assert said[2] > said[1] > 500
    for call in calls:
        assert abs(call["simulated"]["read"] - call["reported"]["read"]) <= 10


def cortex_replay(folder: Path, variables: Mapping[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "cortex_replay", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(tokens: list[int]) -> tuple[CacheBlock, ...]:
    return tuple(CacheBlock("", Place.MESSAGES, str(token), 1) for token in tokens)
