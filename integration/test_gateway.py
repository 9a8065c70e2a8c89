"""Programs that know nothing of us, recorded through the gateway from real servers; then without them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from integration.gateway_clients import CASES, KEY, Case, Ran, behind, cortex_replay, upstream

# Takes a miss as an answer, so that it is for --fail-on to say what a miss is.
ASK: Final = """
import os, sys
from openai import APIStatusError, OpenAI
try:
    completion = OpenAI().chat.completions.create(
        model=os.environ["CLIENT_MODEL"],
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": sys.argv[1]}],
        max_completion_tokens=16,
    )
    print(completion.choices[0].message.content)
except APIStatusError as error:
    print(error.message)
"""
STREAM_THEN_ASK: Final = """
import os
from openai import OpenAI
question = {"model": os.environ["CLIENT_MODEL"], "messages": [{"role": "user", "content": "Hello"}]}
complete = OpenAI().chat.completions.create
print(sum(1 for chunk in complete(**question, stream=True)))
print(complete(**question).usage.completion_tokens)
"""
# What all languages ask alike. Schemas differ, and so do the tools of Ollama: Python makes them of types.
ANTHROPIC: Final = ("plain", "tool", "tool_stream", "tool_result", "turns", "models")
OPENAI: Final = ("plain", "stream", "tool", "tool_stream", "tool_result", "turns")
OLLAMA: Final = ("plain", "stream", "turns", "models")


def steps(**apis: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{api.replace('_', '-')}.{step}" for api, chosen in apis.items() for step in chosen)


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


def replayed(store: Path, command: list[str]) -> Ran:
    return behind("replay", store, command, options=("--fail-on", "miss"))


def assert_all_from_the_store(ran: Ran) -> None:
    assert ran.status == 0, ran.told
    found = {name: ran.ledger[name] for name in ("misses", "live", "failed", "bypassed")}
    assert found == {"misses": [], "live": 0, "failed": 0, "bypassed": {}}
    assert ran.ledger["hits"] > 0


def assert_told_alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """As far as both programs tell it, and for all that Go has no ``null``."""
    known = {step["step"]: step for step in other}
    for step in one:
        same = known.pop(step["step"])
        both = step.keys() & same.keys()
        assert {name: step[name] or None for name in both} == {name: same[name] or None for name in both}
    assert not known


def files_with_the_key(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_client_is_replayed_without_its_server(case: Case, tmp_path: Path) -> None:
    """To the byte, with the server's key neither in the client nor in anything that is left behind."""
    store = tmp_path / "store"
    with upstream(case.upstream, tmp_path / "server") as environment:
        live = behind("record", store, case.command, environment)
    assert live.status == 0, live.told
    assert (live.ledger["not_recorded"], live.ledger["failed"]) == ([], 0)

    again = replayed(store, case.command)

    assert_all_from_the_store(again)
    assert again.said == live.said
    assert again.ledger["unused"] == []
    verified = cortex_replay(["verify", "--strict", store], store)
    assert (verified.returncode, verified.stdout) == (0, ""), verified
    assert files_with_the_key(store) == []
    assert not any(KEY in said for ran in (live, again) for said in (ran.said, ran.told, str(ran.ledger)))


@pytest.mark.parametrize(
    ("case", "other"),
    [
        (
            Case(
                "python-anthropic",
                "llamacpp",
                steps(anthropic=(*ANTHROPIC, "think", "stream", "raw_stream", "concurrent", "count")),
            ),
            "node-anthropic",
        ),
        (Case("python-anthropic", "llamacpp", steps(anthropic=ANTHROPIC)), "go"),
        (
            Case(
                "python-openai",
                "llamacpp",
                steps(
                    openai_chat=(*OPENAI, "concurrent", "models"), openai_responses=(*OPENAI, "concurrent")
                ),
            ),
            "node-openai",
        ),
        (
            Case(
                "python-openai", "llamacpp", steps(openai_chat=(*OPENAI, "models"), openai_responses=OPENAI)
            ),
            "go",
        ),
        (Case("python-ollama", "ollama", steps(ollama=(*OLLAMA, "concurrent"))), "node-ollama"),
        (Case("python-ollama", "ollama", steps(ollama=OLLAMA)), "go"),
    ],
    ids=str,
)
def test_another_language_is_answered_with_the_recording(case: Case, other: str, tmp_path: Path) -> None:
    """One fixture for the same question, whoever asks it."""
    store = tmp_path / "store"
    with upstream(case.upstream, tmp_path / "server") as environment:
        live = behind("record", store, case.command, environment)
    assert live.status == 0, live.told

    again = replayed(store, replace(case, client=other).command)

    assert_all_from_the_store(again)
    assert_told_alike(live.steps, again.steps)


def test_a_changed_word_is_a_miss(llamacpp: str, tmp_path: Path) -> None:
    """Which the program is told of with its error, and the person in front of it with the exit status."""
    store = tmp_path / "store"
    recorded = behind(
        "record", store, python(ASK, "Good morning"), options=("--upstream", f"openai={llamacpp}/v1")
    )
    assert (recorded.status, recorded.ledger["recorded"]) == (0, 1), recorded.told
    (fixture,) = (store / "fixtures").rglob("*.json")

    missed = replayed(store, python(ASK, "Good evening"))

    assert missed.status == 3
    assert (missed.ledger["hits"], len(missed.ledger["misses"]), missed.ledger["live"]) == (0, 1, 0)
    for told in (missed.said, missed.told, missed.ledger["misses"][0]["explanation"]):
        assert f"Nearest: {fixture.relative_to(store).as_posix()}. It differs in:" in told
        assert "'Good morning' → 'Good evening'" in told
    assert replayed(store, python(ASK, "Good morning")).said == recorded.said


def test_the_command_has_no_key(llamacpp: str, tmp_path: Path) -> None:
    """Not even where the gateway itself needs it."""
    store = tmp_path / "store"
    show = python(f"import json, os\n{ASK}\nprint(json.dumps(dict(os.environ)))", "Hello")
    keys = dict.fromkeys(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CORTEX_OPENAI_API_KEY"), KEY
    )

    recorded = behind("record", store, show, keys | {"OPENAI_BASE_URL": f"{llamacpp}/v1"})

    assert recorded.status == 0, recorded.told
    environment = json.loads(recorded.said.splitlines()[-1])
    assert environment["OPENAI_API_KEY"]
    assert KEY not in environment.values()
    assert llamacpp not in environment["OPENAI_BASE_URL"]


def test_what_a_stream_did_not_count_is_not_lost(llamacpp: str, tmp_path: Path) -> None:
    """The same question, first as a stream, then whole."""
    store = tmp_path / "store"
    command = python(STREAM_THEN_ASK)
    live = behind("record", store, command, options=("--upstream", f"openai={llamacpp}/v1"))
    assert live.status == 0, live.told

    again = replayed(store, command)

    assert_all_from_the_store(again)
    assert again.said == live.said
    assert int(live.said.split()[-1]) > 0
