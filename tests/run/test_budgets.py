"""Configured budgets hold at every entrance: pytest, intercept, the gateway, the command line, the RPC.

The same configuration file each time, a real model server, and three questions of which two may be asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from operator import itemgetter
from pathlib import Path

import pytest

from cortex_replay import LlmRequest, Store
from tests import warm
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY, model_server
from tests.nested import LIGHT, XDIST
from tests.sampling import sample

QUESTIONS = ("One?", "Two?", "Three?")
TOKENS = 16
"""What the server counts for each, prompt and answer."""
MOST_OF_THE_LAST = len(LlmRequest("m", "", QUESTIONS[-1], max_tokens=5).canonical_bytes()) // 2 + 5
"""What is set aside for the last one: with the answers of two others it is too much, with one it is not."""
ASK = """
import os
import httpx  # not an SDK: each of them takes a second to import
client = httpx.Client()
def ask(question):
    answer = client.post(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        headers={"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
        json={"model": "m", "messages": [{"role": "user", "content": question}], "max_tokens": 5},
    )
    if answer.is_error:
        print(answer.text)
"""
Entrance = Callable[[Path, dict[str, str]], str]


def run(command: list[str], folder: Path, environment: dict[str, str], text: str = "") -> str:
    done = subprocess.run(  # noqa: PLW1510 - a refused call may end in any status
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


def ours(arguments: list[str], folder: Path, environment: dict[str, str], text: str = "") -> str:
    of_python = {name: "" for name in environment if name.startswith("PYTHON")}
    done = warm.run(arguments, text, cwd=folder, env={**environment, **of_python}, text=True)
    return f"{done.stdout}{done.stderr}"


def write_tests(folder: Path) -> None:
    (folder / "test_three.py").write_text(
        f"import pytest\n{ASK}\n"
        f"@pytest.mark.parametrize('question', {QUESTIONS})\n"
        "@pytest.mark.llm_replay\n"
        "def test_it(question):\n    ask(question)\n"
    )


def through_pytest(folder: Path, environment: dict[str, str]) -> str:
    write_tests(folder)
    return run([sys.executable, "-m", "pytest", "-s", "--llm-mode", "once"], folder, environment)


def through_pytest_workers(folder: Path, environment: dict[str, str]) -> str:
    """Two processes are one run, with one budget."""
    write_tests(folder)
    command = [sys.executable, "-m", "pytest", *XDIST, "-n", "2", "-rP", "--llm-mode", "once"]
    return run(command, folder, environment)


def through_llm_fixture(folder: Path, environment: dict[str, str]) -> str:
    (folder / "test_three.py").write_text(
        "import pytest\nfrom cortex_replay import BudgetSpent, LlmRequest\n"
        "@pytest.mark.llm_replay\n"
        "def test_it(llm):\n"
        f"    for question in {QUESTIONS}:\n"
        "        try:\n            llm.sync.complete(LlmRequest('m', '', question, max_tokens=5))\n"
        "        except BudgetSpent as error:\n            print(error)\n"
    )
    return run([sys.executable, "-m", "pytest", "-s", "--llm-mode", "once"], folder, environment)


def through_intercept(folder: Path, environment: dict[str, str]) -> str:
    program = f"from cortex_replay import intercept\n{ASK}\nwith intercept('llm', 'once'):\n"
    program += f"    for question in {QUESTIONS}: ask(question)\n"
    return run([sys.executable, "-c", program], folder, environment)


def through_gateway(folder: Path, environment: dict[str, str]) -> str:
    program = f"{ASK}\nfor question in {QUESTIONS}: ask(question)"
    return ours(["record", "--", sys.executable, "-c", program], folder, environment)


def through_cli(folder: Path, environment: dict[str, str]) -> str:
    lines = [json.dumps({"model": "m", "messages": question, "max_tokens": 5}) for question in QUESTIONS]
    return ours(["batch", "-", "--jobs", "1"], folder, environment, "\n".join(lines))


def through_rpc(folder: Path, environment: dict[str, str]) -> str:
    calls = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "nexo/admin/llm/complete",
            "params": {
                "provider": "openai",
                "model": "m",
                "messages": [{"role": "user", "content": question}],
                "max_tokens": 5,
            },
        }
        for number, question in enumerate(QUESTIONS)
    ]
    arguments = ["serve", "--mode", "once", "--stdio", "--caller", "ci"]
    return ours(arguments, folder, environment, "\n".join(map(json.dumps, calls)))


ENTRANCES: dict[str, Entrance] = {
    "pytest": through_pytest,
    "pytest, two workers": through_pytest_workers,
    "llm fixture": through_llm_fixture,
    "intercept": through_intercept,
    "gateway": through_gateway,
    "command line": through_cli,
    "RPC": through_rpc,
}
BUDGETS = ["budget_calls = 2", f"budget_tokens = {MOST_OF_THE_LAST + TOKENS * 3 // 2}"]
EACH_ENTRANCE = sample(product(ENTRANCES, BUDGETS), 1, kind=itemgetter(0))


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


@pytest.fixture
def environment(provider: FakeProvider) -> dict[str, str]:
    ours = ("ANTHROPIC_", "OPENAI_", "OLLAMA_", "CORTEX_", "PYTEST_", "COV_", "CI")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    key = {"OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY, "OUR_KEY": REAL_KEY}
    return {**kept, **key, **LIGHT, "PYTHONPATH": str(Path(__file__).parents[2])}


def configure(folder: Path, provider: FakeProvider, budget: str) -> None:
    """The adapters ask the provider that the file names, with a key that the user lets go there."""
    (folder / "cortex-replay.toml").write_text(
        f'{budget}\nstore = "llm"\nprovider = "openai"\n'
        f'[providers.openai]\nbase_url = "{provider.url}/v1"\nkey_env = "OUR_KEY"\n'
        '[callers.ci]\ngrants = ["llm_complete"]\n'
    )


@pytest.mark.parametrize(("name", "budget"), EACH_ENTRANCE)
def test_a_configured_budget_holds(
    tmp_path: Path, provider: FakeProvider, environment: dict[str, str], name: str, budget: str
) -> None:
    """Two questions are asked and recorded, the third is refused with the reason."""
    configure(tmp_path, provider, budget)

    output = ENTRANCES[name](tmp_path, {**environment, "CORTEX_REPLAY_TRUST": f"{provider.url}=OUR_KEY"})

    assert len(provider.received) == 2, output
    assert len(Store.open(tmp_path / "llm")) == 2, output
    assert "budget" in output, output


def test_without_a_budget_all_are_asked(
    tmp_path: Path, provider: FakeProvider, environment: dict[str, str]
) -> None:
    """So that the limit above is what refuses."""
    configure(tmp_path, provider, "")
    environment["CORTEX_REPLAY_TRUST"] = f"{provider.url}=OUR_KEY"
    for name, entrance in sample(ENTRANCES.items(), 1):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        configure(folder, provider, "")
        before = len(provider.received)

        output = entrance(folder, environment)

        assert len(provider.received) == before + 3, (name, output)


def test_what_the_llm_fixture_records_is_said_to_be_recorded(
    tmp_path: Path, provider: FakeProvider, environment: dict[str, str]
) -> None:
    """Not a hit: it was asked a moment ago."""
    configure(tmp_path, provider, "")
    environment["CORTEX_REPLAY_TRUST"] = f"{provider.url}=OUR_KEY"

    first = through_llm_fixture(tmp_path, environment)
    again = through_llm_fixture(tmp_path, environment)

    assert "0 hits, 0 misses, 3 recorded, 3 live" in first
    assert "3 hits, 0 misses, 0 recorded, 0 live" in again
