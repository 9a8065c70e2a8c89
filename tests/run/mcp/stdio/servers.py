"""Small MCP servers, most of them bad ones. Each is a program for ``python -c``."""

from __future__ import annotations

import sys

__all__ = ["HONEST", "answering", "server"]

_HEAD = """\
import json, os, signal, sys, time
out = sys.stdout.buffer
def say(message):
    out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
    out.flush()
def hear():
    for line in sys.stdin.buffer:
        yield json.loads(line)
"""
HONEST = """\
for message in hear():
    if "id" in message:
        say({"id": message["id"], "result": {"echo": message.get("params")}})
"""
"""Answers every call with its parameters, and ends with its input."""


def server(program: str) -> list[str]:
    """The command that starts one."""
    return [sys.executable, "-I", "-S", "-c", _HEAD + program]


def answering(then: str) -> list[str]:
    """A server that does something when its second call comes."""
    return server(
        "calls = 0\n"
        "for message in hear():\n"
        "    calls += 1\n"
        "    if calls == 1:\n"
        "        say({'id': message['id'], 'result': {'n': 1}})\n"
        "        continue\n" + "".join(f"    {line}\n" for line in then.splitlines())
    )
