"""The peer of [record]: the requests of a batch, sent through httpx and recorded by vcrpy.

Run as a program: the file of requests, the cassette, "url" or "body" for what requests are matched on,
how many calls to make at once, and the server's base URL.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx
import vcr

__all__: list[str] = []

_URL_PARTS = ("method", "scheme", "host", "port", "path", "query")


def main(batch: str, cassette: str, match_on: str, jobs: str, base_url: str) -> None:
    with open(batch, encoding="utf-8") as file:  # noqa: PTH123 - it has nothing else to do with paths
        bodies = [_body(json.loads(line)) for line in file]
    recorder = vcr.VCR(
        serializer="json",
        match_on=[*_URL_PARTS, "body"] if match_on == "body" else _URL_PARTS,
        filter_headers=["authorization"],
    )
    with recorder.use_cassette(cassette) as recorded:
        asyncio.run(_ask(bodies, f"{base_url}/chat/completions", int(jobs)))
        if len(recorded) != len(bodies):
            raise RuntimeError("not every answer was recorded")


def _body(request: dict[str, Any]) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": request["system"]},
        {"role": "user", "content": request["messages"]},
    ]
    return {
        "model": request["model"],
        "messages": messages,
        "temperature": request["temperature"],
        "max_tokens": request["max_tokens"],
    }


async def _ask(bodies: list[dict[str, Any]], url: str, at_once: int) -> None:
    queue = iter(bodies)
    headers = {"authorization": f"Bearer {os.environ['BENCH_API_KEY']}"}
    async with httpx.AsyncClient(headers=headers) as client:

        async def work() -> None:
            for body in queue:
                response = await client.post(url, json=body)
                if not response.json()["choices"]:
                    raise RuntimeError("there is no answer")

        await asyncio.gather(*(work() for _ in range(at_once)))


if __name__ == "__main__":
    main(*sys.argv[1:])
