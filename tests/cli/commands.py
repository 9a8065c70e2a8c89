"""Commands, run in this process, at a shell, and at a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.cli.main import main
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.exchange import Exchange
from tests.builder import StoreBuilder, ask
from tests.warm import start

ROOT = Path(__file__).parents[2]
ECHO = ("--provider", "echo", "--model", "m")


def run(*arguments: str | Path, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


def spoil(builder: StoreBuilder) -> str:
    """Change a byte of the first fixture; gives its path."""
    path = next(iter(builder.files))
    (builder.root / path).write_bytes(builder.files[path].replace(b"One.", b"Two!"))
    return path


def first_file(builder: StoreBuilder) -> Path:
    return builder.root / next(iter(builder.files))


def key_of(question: str) -> tuple[str, str]:
    return ask(question).model, ask(question).prompt_hash()


def at_a_terminal(*arguments: str | Path, columns: int = 80, **environment: str) -> str:
    """What the real program prints when a terminal is there."""
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (24, columns))
    process = start(list(map(str, arguments)), stdout=child, stderr=child, env=os.environ | environment)
    os.close(child)
    output = b""
    while True:
        try:
            block = os.read(parent, 4096)
        except OSError:  # how a pty says that the other end is gone
            break
        output += block
        if not block:
            break
    process.wait(30)
    os.close(parent)
    return output.decode()


def at_a_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m cortex_replay"
    return subprocess.run(
        ["bash", "-c", command.replace("cortex-replay", program)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def batch_file(*requests: dict[str, Any]) -> str:
    Path("batch.jsonl").write_text("".join(json.dumps(request) + "\n" for request in requests))
    return "batch.jsonl"


def question(number: int, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": f"Question {number}?", "max_tokens": 16, **more}


def record_answers(*pairs: tuple[LlmRequest, str], adapter: str = "scripted") -> None:
    """Put answers into the store of this folder, as if an adapter had given them."""
    store = Store.open_or_create(".")
    for request, text in pairs:
        store.add(Fixture.of(request, Answer(text, finish_reason="stop"), meta={"adapter": adapter}))
    store.commit()


def record_tool(root: Path) -> None:
    """Put a call of a tool into a store."""
    question = question_of("files", "tools/call", {"name": "read_file"})
    wire: dict[str, JsonValue] = {"messages": [{"at_ms": 0, "result": {"content": []}}]}
    store = Store.open_or_create(root)
    store.add_exchange(Exchange(wire, key=opaque_key(question), request=question))
    store.commit()
