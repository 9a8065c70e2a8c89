"""The agent in ``examples/`` and the Python in `docs/testing.md`."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import LlmAdapter, LlmRequest, LlmResponse, ToolCall
from cortex_replay.testing import Reply, Rule, ScriptedAdapter, When
from cortex_replay.testing.script import parse_rules
from examples.agent import calculate, get_weather, run_agent, run_tool

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs/testing.md").read_text()


def agent(llm: LlmAdapter, question: str) -> tuple[str, list[str]]:
    pieces: list[str] = []
    return asyncio.run(run_agent(llm, question, "demo-model", pieces.append)), pieces


def test_the_agent_uses_both_tools_and_streams_what_is_said() -> None:
    """In two steps, against the default script."""
    answer, pieces = agent(ScriptedAdapter(), "What is the weather in Paris, and how much is 17 * 23?")

    assert answer == "The result is 391."
    assert "".join(pieces) == "The weather: 18 °C and sunny in Paris. Now for the numbers. The result is 391."
    assert pieces[:3] == ["The", " weather:", " 18"]


def test_the_agent_says_the_same_every_time() -> None:
    """Which is what its recording needs."""
    requests: list[list[LlmRequest]] = [[], []]
    for asked in requests:
        script = ScriptedAdapter()

        async def spy(
            request: LlmRequest, script: LlmAdapter = script, asked: list[LlmRequest] = asked
        ) -> LlmResponse:
            asked.append(request)
            return await script.complete(request)

        agent(ScriptedAdapter(spy), "The weather in Oslo, and (1 + 2) * 3?")

    assert requests[0] == requests[1]
    assert [len(request.messages) for request in requests[0]] == [1, 3, 5]


def test_the_agent_tells_the_model_what_a_tool_could_not_do() -> None:
    """It does not end there."""
    calls: list[dict[str, Any]] = [
        {"name": "calculate", "arguments": {"expression": "1/0"}},
        {"name": "no_such_tool"},
        {"name": "get_weather", "arguments": ["?"]},
    ]
    results: list[tuple[str, bool]] = []

    def answer(request: LlmRequest) -> str | Reply:
        if len(request.messages) == 1:
            return Reply(call=calls)
        results.extend((message.content, message.is_error) for message in request.messages[2:])
        return "Sorry."

    assert agent(ScriptedAdapter(answer), "?")[0] == "Sorry."
    assert [is_error for _, is_error in results] == [True, True, True]
    assert results[0][0] == "ZeroDivisionError: division by zero"


def test_the_agent_gives_up_at_some_point() -> None:
    """A model that never stops calling is not called forever."""
    with pytest.raises(RuntimeError, match="no answer after 8 turns"):
        agent(ScriptedAdapter([Rule(call={"name": "calculate", "arguments": {"expression": "1"}})]), "?")


@pytest.mark.parametrize(
    ("expression", "value"),
    [("17 * 23", "391"), ("-(2 + 3) * 4.5", "-22.5"), (" 1 / 3", "0.333333333333"), ("2 - -2", "4")],
)
def test_the_calculator_calculates(expression: str, value: str) -> None:
    """Numbers, and nothing else."""
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "2 ** 99",
        "x",
        "'a' * 9",
        "1 if 1 else 2",
        "1 +",
        "",
        "1e999 * 0 + f()",
        pytest.param("1+" * 20_000 + "1", id="long"),
    ],
)
def test_the_calculator_runs_no_code(expression: str) -> None:
    """What is no arithmetic is an error, which the model gets to see."""
    result = run_tool(ToolCall(id="a", name="calculate", arguments={"expression": expression}))

    assert (result.is_error, result.tool_call_id) == (True, "a")


def test_the_weather_is_always_the_same() -> None:
    """For every city there is one."""
    assert get_weather("Paris") == "18 °C and sunny in Paris"
    assert get_weather("Atlantis") == "15 °C and cloudy in Atlantis"


def test_the_example_runs_as_a_program() -> None:
    """Without a key, a network or an argument."""
    program = [sys.executable, "-X", "utf8", str(ROOT / "examples/agent.py")]
    done = subprocess.run(program, capture_output=True, encoding="utf-8", timeout=300, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "The weather: 18 °C and sunny in Paris. Now for the numbers. The result is 391.\n"


def test_the_python_in_the_guide_to_testing_runs() -> None:
    """Block by block, as it stands."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)

    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, "testing.md", "exec"), {})


def test_the_script_in_the_guide_is_one() -> None:
    """It is read as a file would be."""
    (block,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)

    assert len(parse_rules(block.encode())) == len(tomllib.loads(block)["rule"])


def test_the_guide_describes_every_field() -> None:
    """In the table of conditions and in that of answers, and no field that does not exist."""
    conditions, answers = (
        set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
        for part in GUIDE.partition("**When**")[2].split("**What**")
    )

    assert conditions == {field.name for field in fields(When)}
    assert answers == {field.name for field in fields(Rule)} - {"when"}
