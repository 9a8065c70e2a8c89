"""What cortex-replay does today, end to end: verify, replay, refuse. Run by ``make demo``.

No key, no network: every answer comes from the fixtures of this repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cortex_replay import FixtureIntegrityFailed, LlmRequest, NoFixture, ReplayAdapter

STORE = Path(__file__).resolve().parent.parent
WEATHER_TOOL = {
    "name": "get_weather",
    "description": "The weather in a city, now.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def ask(prompt: str | list[object], **settings: object) -> LlmRequest:
    """A question to the sample model, as a program under test would put it."""
    return LlmRequest.from_dict(
        {
            "model": "sample-model-1",
            "system": "You are a terse assistant in a test suite.",
            "messages": prompt,
            "temperature": 0.0,
            "max_tokens": 256,
            **settings,
        }
    )


def cli(*arguments: str, store: Path) -> int:
    """Run ``cortex-replay`` as at a shell, and show what it prints."""
    print(f"$ cortex-replay {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "cortex_replay", *arguments], cwd=store, check=False, stderr=subprocess.STDOUT
    )
    print(f"(exit status {done.returncode})\n", flush=True)
    return done.returncode


def replay() -> None:
    """Ask everything that was recorded, as a test would."""
    llm = ReplayAdapter(STORE).sync
    print("plain:    ", llm.complete(ask("What is the capital of France?")).text)

    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string"}, "population": {"type": "integer"}},
        "required": ["capital", "population"],
    }
    answer = llm.complete(ask("Capital and population of France, as JSON.", json_schema=schema))
    print("JSON:     ", answer.parsed_json)

    question: dict[str, object] = {"role": "user", "content": "What is the weather in Paris?"}
    turn = llm.complete(ask([question], tools=[WEATHER_TOOL]))
    (call,) = turn.tool_calls
    print("tool call:", call.name, json.dumps(call.arguments))
    # The id is another one on every live run; it is no part of the key.
    called = {**call.to_dict(), "id": "made-up-by-this-run"}
    after = ask(
        [
            question,
            {"role": "assistant", "content": "", "tool_calls": [called]},
            {"role": "tool", "content": "18 C, sunny", "tool_call_id": "made-up-by-this-run"},
        ],
        tools=[WEATHER_TOOL],
    )
    print("result:   ", llm.complete(after).text)

    chunks = llm.stream(ask("Count to three, in Japanese."))
    print("stream:   ", " | ".join(chunk.delta for chunk in chunks if chunk.delta))

    die = ask("Roll a die.", temperature=1.0)
    print("several:  ", ", then ".join(llm.complete(die).text for _ in range(3)))
    try:
        llm.complete(die)
    except NoFixture as error:
        print("a fourth: ", f"NoFixture, exhausted={error.exhausted}")
    try:
        llm.complete(ask("What is the capital of Frence?"))
    except NoFixture as error:
        print("one typo: ", f"NoFixture, {error.prompt_hash[:16]} was never recorded\n")


def refuse() -> None:
    """Change one byte of one fixture, in a copy, and show that nothing is replayed any more."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copy(STORE / "INDEX.toml", copy)
        shutil.copytree(STORE / "fixtures", copy / "fixtures")
        fixture = next(path for path in sorted(copy.rglob("*.json")) if b'"Paris."' in path.read_bytes())
        fixture.write_bytes(fixture.read_bytes().replace(b'"Paris."', b'"Parks."'))
        if cli("verify", store=copy) != FixtureIntegrityFailed.exit_code:
            sys.exit("the changed byte was not refused")
        try:
            ReplayAdapter(copy)
        except FixtureIntegrityFailed as error:
            print(f"ReplayAdapter refuses too: {len(error.issues)} finding, nothing is replayed.")


def main() -> None:
    print("1. The store of this repository is what its index says:\n")
    if cli("verify", "--json", store=STORE):
        sys.exit("the shipped store is broken")
    print("2. Replay, with no key and no network:\n")
    replay()
    print("3. One byte of one fixture is changed (in a copy):\n")
    refuse()


if __name__ == "__main__":
    main()
