"""This project's side: the live adapters, in the process that is measured.

A request is made within the time of its call, because an SDK takes plain values as well.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.adapter_worker import SYSTEM, obey, timed, timed_async
from cortex_replay import ClaudeAdapter, LlmAdapter, LlmRequest, OpenAICompatAdapter

__all__: list[str] = []


def main(base_url: str) -> None:
    claude = ClaudeAdapter("sk-bench", base_url=base_url)
    chat = OpenAICompatAdapter(f"{base_url}/v1", "sk-bench")

    async def complete(model: str, pieces: int, prompt: str) -> int:
        response = await claude.complete(_request(model, pieces, prompt))
        return 0 if response.usage is None else response.usage.completion_tokens

    def complete_sync(model: str, pieces: int, prompt: str) -> int:
        response = claude.sync.complete(_request(model, pieces, prompt))
        return 0 if response.usage is None else response.usage.completion_tokens

    async def stream(model: str, pieces: int, prompt: str) -> int:
        return await _streamed(claude, _request(model, pieces, prompt))

    async def chat_stream(model: str, pieces: int, prompt: str) -> int:
        return await _streamed(chat, _request(model, pieces, prompt))

    with asyncio.Runner() as runner:
        obey(
            {
                "complete": timed_async(runner, complete),
                "complete_sync": timed(complete_sync),
                "stream": timed_async(runner, stream),
                "chat_stream": timed_async(runner, chat_stream),
            }
        )


async def _streamed(adapter: LlmAdapter, request: LlmRequest) -> int:
    came = 0
    async for chunk in adapter.stream(request):
        if chunk.delta:
            came += 1
    return came


def _request(model: str, pieces: int, prompt: str) -> LlmRequest:
    return LlmRequest(model, SYSTEM, prompt, max_tokens=pieces)


if __name__ == "__main__":
    main(*sys.argv[1:])
