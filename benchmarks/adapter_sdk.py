"""The peer's side: Anthropic's own SDK, in the process that is measured.

It runs in an environment of its own, so it imports nothing of this project that needs another.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

from benchmarks.adapter_worker import SYSTEM, obey, timed, timed_async

__all__: list[str] = []


def main(base_url: str) -> None:
    anthropic = import_module("anthropic")
    client = anthropic.AsyncAnthropic(api_key="sk-bench", base_url=base_url)
    sync_client = anthropic.Anthropic(api_key="sk-bench", base_url=base_url)

    async def complete(model: str, pieces: int, prompt: str) -> int:
        message = await client.messages.create(**_arguments(model, pieces, prompt))
        return int(message.usage.output_tokens)

    def complete_sync(model: str, pieces: int, prompt: str) -> int:
        message = sync_client.messages.create(**_arguments(model, pieces, prompt))
        return int(message.usage.output_tokens)

    async def stream(model: str, pieces: int, prompt: str) -> int:
        """The events as they are, which adds up nothing."""
        came = 0
        async for event in await client.messages.create(**_arguments(model, pieces, prompt), stream=True):
            if event.type == "content_block_delta":
                came += 1
        return came

    async def stream_whole(model: str, pieces: int, prompt: str) -> int:
        """The pieces of text, and the whole message at the end, as this project gives it."""
        came = 0
        async with client.messages.stream(**_arguments(model, pieces, prompt)) as events:
            async for _ in events.text_stream:
                came += 1
            await events.get_final_message()
        return came

    with asyncio.Runner() as runner:
        obey(
            {
                "complete": timed_async(runner, complete),
                "complete_sync": timed(complete_sync),
                "stream": timed_async(runner, stream),
                "stream_whole": timed_async(runner, stream_whole),
            }
        )


def _arguments(model: str, pieces: int, prompt: str) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": pieces,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": prompt}],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
