"""One machine of a fleet, as a program: asks its questions through a ``RecordingAdapter``.

It stands for a test suite, without pytest around it, so that 64 of them start on a small machine. What it got
goes to its standard output, one JSON array a line: the question, how often it had asked it, the answer.

    python fleet_worker.py SERVER NAME < questions.json, an array of pairs: the question, how often to ask it
"""

from __future__ import annotations

import asyncio
import json
import sys

from cortex_replay import LlmRequest, OpenAICompatAdapter, RecordingAdapter

MODEL = "counting-1"
AT_ONCE = 2


async def ask_all(server: str, name: str, questions: list[tuple[str, int]]) -> None:
    waiting = iter(questions)

    async def ask() -> None:
        for question, times in waiting:
            for n in range(times):
                request = LlmRequest(MODEL, messages=question, max_tokens=64, timeout_ms=600_000)
                answer = await adapter.complete(request)
                sys.stdout.write(json.dumps([question, n, answer.text]) + "\n")
                sys.stdout.flush()

    async with RecordingAdapter(OpenAICompatAdapter(server, name), "llm") as adapter:
        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))


if __name__ == "__main__":
    server, name = sys.argv[1:]
    asyncio.run(ask_all(server, name, json.load(sys.stdin)))
