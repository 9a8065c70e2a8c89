"""The whole story in one go, run by ``make demo``: record an agent, verify, replay it, refuse a changed byte.

No key and no network: the model is the scripted one. Everything happens in a folder of its own, which is
gone afterwards.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from cortex_replay import (
    FixtureIntegrityFailed,
    LlmAdapter,
    LlmRequest,
    NoFixture,
    RecordingAdapter,
    ReplayAdapter,
)
from cortex_replay.testing import ScriptedAdapter
from examples.agent import MODEL, QUESTION, run_agent


def ask_agent(llm: LlmAdapter) -> str:
    """Let the agent answer, and show what it says while it says it."""

    async def main() -> str:
        async with llm:
            return await run_agent(llm, QUESTION, MODEL, on_text=lambda text: print(text, end="", flush=True))

    answer = asyncio.run(main())
    print("\n")
    return answer


def cli(*arguments: str, store: Path) -> int:
    """Run ``cortex-replay`` as at a shell, and show what it prints."""
    print(f"$ cortex-replay {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "cortex_replay", *arguments], cwd=store, check=False, stderr=subprocess.STDOUT
    )
    print(f"(exit status {done.returncode})\n", flush=True)
    return done.returncode


def flip_a_byte(store: Path) -> None:
    """Change one byte of one fixture."""
    fixture = next(path for path in sorted(store.rglob("*.json")) if b"sunny" in path.read_bytes())
    fixture.write_bytes(fixture.read_bytes().replace(b"sunny", b"funny", 1))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        print(f"1. An agent with two tools asks a model, and is recorded.\n\n   {QUESTION}\n")
        recorded = ask_agent(RecordingAdapter(ScriptedAdapter(), store))

        print("2. What was recorded is a store that can be committed.\n")
        cli("list", store=store)
        if cli("verify", store=store):
            sys.exit("the store is broken")

        print("3. The agent again, in replay: the model is gone, and it says the same.\n")
        if ask_agent(ReplayAdapter(store)) != recorded:
            sys.exit("replay said something else")
        try:
            ReplayAdapter(store).sync.complete(LlmRequest(MODEL, "", QUESTION + "!"))
        except NoFixture as error:
            print(f"   Another question, by one character: {type(error).__name__}.\n")

        print("4. One byte of one recording is changed.\n")
        flip_a_byte(store)
        if cli("verify", store=store) != FixtureIntegrityFailed.exit_code:
            sys.exit("the changed byte was not refused")
        try:
            ReplayAdapter(store)
        except FixtureIntegrityFailed as error:
            print(f"ReplayAdapter refuses too: {len(error.issues)} finding, nothing is replayed.")


if __name__ == "__main__":
    main()
