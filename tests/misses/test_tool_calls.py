"""A call of a tool that is not recorded explains itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.mcp.questions import question_of
from cortex_replay.misses.tool_calls import explain_tool_exhaustion, explain_tool_miss
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange

SECRET = "hunter2-hunter2-hunter2"


def recorded(root: Path, *calls: tuple[str, str, dict[str, Any]], scope: str = "") -> Store:
    store = Store.open_or_create(root)
    for server, method, parameters in calls:
        question = question_of(server, method, parameters)
        wire: dict[str, Any] = {"messages": [{"at_ms": 0, "result": {}}]}
        store.add_exchange(Exchange(wire, key=opaque_key(question), request=question), scope=scope)
    store.commit()
    return Store.open(root)


def miss(store: Store, server: str, method: str, parameters: dict[str, Any], scope: str = "") -> list[str]:
    question = question_of(server, method, parameters)
    redactor = Redactor([SECRET])
    said = explain_tool_miss(store, question, opaque_key(question), "do so", redactor, scope).splitlines()
    assert said[-1] == "To record it: do so"
    return said[:-1]


def tool(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


def test_the_nearest_call_of_the_tool_and_the_arguments_that_differ(tmp_path: Path) -> None:
    """Another tool with the very same arguments is further away."""
    store = recorded(
        tmp_path,
        ("every", *tool("get-sum", a=1, b=2)),
        ("every", *tool("get-sum", a=700, b=900)),
        ("every", *tool("get-product", a=1, b=3)),
        ("other", *tool("get-sum", a=1, b=3)),
        ("every", "prompts/get", {"name": "get-sum", "arguments": {"a": 1, "b": 3}}),
    )

    first, second, *rest = miss(store, "every", *tool("get-sum", a=1, b=3, deep={"x": [1]}))

    assert first.startswith("cortex-replay: nothing is recorded for tool get-sum of server every (")
    assert second.startswith("Nearest: ")
    assert second.endswith(". It differs in:")
    assert rest == ["  argument b: 2 → 3", '  argument deep: nothing → {"x":[1]}']


def test_a_call_of_a_client_of_another_protocol(tmp_path: Path) -> None:
    store = recorded(tmp_path, ("every", *tool("echo", text="x")))
    method, parameters = tool("echo", text="x")

    *_, last = miss(
        store,
        "every",
        method,
        {**parameters, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}},
    )

    assert last == "  session: true → false"


def test_a_tool_that_was_never_called(tmp_path: Path) -> None:
    store = recorded(tmp_path, ("every", *tool("echo", text="x")), ("every", *tool("get-sum", a=1)))

    _, second, *rest = miss(store, "every", *tool("get-sums", a=1))

    assert second == "Recorded tools of server every: echo, get-sum."
    assert "  tool: 'get-sum' → 'get-sums'" in rest


def test_a_server_that_was_never_asked(tmp_path: Path) -> None:
    store = recorded(tmp_path, ("files", *tool("echo", text="x")), ("memory", "tools/list", {}))

    _, second, *rest = miss(store, "file", *tool("echo", text="x"))

    assert second == "No call of server file is recorded, but of: files, memory."
    assert rest[1:] == ["  server: 'files' → 'file'"]


def test_a_method_that_was_never_asked_for(tmp_path: Path) -> None:
    store = recorded(tmp_path, ("files", *tool("echo", text="x")))

    assert miss(store, "files", "prompts/list", {})[1:] == ["Of server files there is: tools/call."]


def test_a_store_without_such_calls(tmp_path: Path) -> None:
    assert miss(Store.create(tmp_path), "files", "tools/list", {})[1:] == [
        "No call to an MCP server is recorded in this store yet."
    ]


def test_what_a_scope_has_for_itself_is_near_it(tmp_path: Path) -> None:
    recorded(tmp_path, ("every", *tool("echo", text="x")), scope="theirs")
    store = recorded(tmp_path, ("every", *tool("echo", text="other")), scope="mine")

    assert miss(store, "every", *tool("echo", text="y"), scope="mine")[-1].startswith("  argument text: ")


def test_no_secret_and_no_command_of_a_terminal_gets_into_it(tmp_path: Path) -> None:
    store = recorded(tmp_path, ("every", *tool("echo\x1b[31m", text="x")))

    said = "\n".join(miss(store, "every", *tool(f"{SECRET}\x1b[2J", text=SECRET)))

    assert "\x1b" not in said
    assert SECRET not in said


def test_a_tool_whose_answers_were_all_given() -> None:
    question = question_of("every", *tool("poll"))

    assert explain_tool_exhaustion(question, "0123456789abcdef00", "do so") == (
        "cortex-replay: every answer that is recorded for tool poll of server every (0123456789abcdef) "
        "was given already.\nTo record another: do so"
    )
