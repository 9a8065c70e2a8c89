"""A small agent with two tools. It takes any adapter: live, recording, replay or scripted.

Run as it stands it asks the scripted model, so that it needs no key and no network::

    python examples/agent.py "What is the weather in Paris, and how much is 17 * 23?"
"""

from __future__ import annotations

import ast
import asyncio
import operator
import sys
from collections.abc import Callable
from typing import Any, Final

from cortex_replay import LlmAdapter, LlmMessage, LlmRequest, LlmResponse, LlmRole, ToolCall
from cortex_replay.testing import ScriptedAdapter

SYSTEM: Final = "You are a helpful assistant. Use your tools where they help, and answer in one sentence."
QUESTION: Final = "What is the weather in Paris, and how much is 17 * 23?"
MODEL: Final = "demo-model"
MOST_TURNS: Final = 8

WEATHER: Final = {"Paris": "18 °C and sunny", "Oslo": "4 °C and snowing", "New York": "11 °C and windy"}
OPERATORS: Final[dict[type[ast.AST], Callable[..., float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def get_weather(city: str) -> str:
    """The weather in a city, now."""
    return f"{WEATHER.get(city, '15 °C and cloudy')} in {city}"


def calculate(expression: str) -> str:
    """The value of an arithmetic expression: numbers, + - * / and parentheses."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.UnaryOp(op, operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(operand))
        raise ValueError(f"cannot calculate {ast.unparse(node)}")

    return f"{value(ast.parse(expression.strip(), mode='eval').body):.12g}"


def tool(function: Callable[[str], str], argument: str) -> dict[str, Any]:
    """What the model is told about a tool."""
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"name": function.__name__, "description": function.__doc__, "input_schema": schema}


FUNCTIONS: Final[dict[str, Callable[..., str]]] = {"get_weather": get_weather, "calculate": calculate}
TOOLS: Final = [tool(get_weather, "city"), tool(calculate, "expression")]


def run_tool(call: ToolCall) -> LlmMessage:
    """Do what the model wishes; a wish that cannot be granted is a result too."""
    arguments: Any = call.arguments
    try:
        result, is_error = FUNCTIONS[call.name](**arguments), False
    except (ArithmeticError, KeyError, SyntaxError, TypeError, ValueError, RecursionError) as error:
        result, is_error = f"{type(error).__name__}: {error}", True
    return LlmMessage(LlmRole.TOOL, result, tool_call_id=call.id, is_error=is_error)


async def run_agent(
    llm: LlmAdapter, question: str, model: str, on_text: Callable[[str], object] = lambda _: None
) -> str:
    """Ask, call the tools that the model wants called, and ask again until it answers.

    Args:
        llm: Whatever answers requests.
        question: What the user wants to know.
        model: The model to ask for.
        on_text: Gets each piece of text as it comes.
    """
    messages = [LlmMessage(LlmRole.USER, question)]
    for _ in range(MOST_TURNS):
        request = LlmRequest(model, SYSTEM, messages, 0.0, 512, tools=TOOLS)
        answer: LlmResponse | None = None
        async for chunk in llm.stream(request):
            if chunk.delta:
                on_text(chunk.delta)
            answer = chunk.response
        if answer is None:
            raise RuntimeError("the stream had no end")
        if not answer.tool_calls:
            return answer.text
        messages.append(LlmMessage(LlmRole.ASSISTANT, answer.text, tool_calls=answer.tool_calls))
        messages.extend(run_tool(call) for call in answer.tool_calls)
    raise RuntimeError(f"no answer after {MOST_TURNS} turns")


async def main() -> None:
    """Ask the scripted model, and print what it says while it says it."""
    question = " ".join(sys.argv[1:]) or QUESTION
    async with ScriptedAdapter() as llm:
        await run_agent(llm, question, MODEL, lambda text: print(text, end="", flush=True))
    print()


if __name__ == "__main__":
    asyncio.run(main())
