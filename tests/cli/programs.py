"""Programs that ask a model, run behind a gateway by the installed command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gateway.upstream import REAL_KEY
from tests.warm import PROGRAM, run, start

ROOT = Path(__file__).parents[2]
ASK = """
import json, os, socket, sys
def post(body):
    address, _, path = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")
    body = json.dumps({"model": "m", **body})
    key = os.environ["OPENAI_API_KEY"]
    head = f"Host: {address}\\r\\nAuthorization: Bearer {key}\\r\\nContent-Type: application/json\\r\\n"
    head += f"Content-Length: {len(body)}\\r\\nConnection: close\\r\\n\\r\\n"
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as stream:
        connection.sendall(f"POST /{path}/chat/completions HTTP/1.1\\r\\n{head}{body}".encode())
        status, (_, _, answer) = stream.readline(), stream.read().partition(b"\\r\\n\\r\\n")
    if b" 200 " not in status:
        raise OSError(status)
    return json.loads(answer)["choices"][0]["message"]
def ask(text):
    return post({"messages": [{"role": "user", "content": text}]})["content"]
"""
"""Without an HTTP client: to import one takes longer than all else that these programs do."""
TWICE = ASK + "print(ask('one')); print(ask('two'))"


class Result:
    """What came of a command."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.out, self.talk = done.returncode, done.stdout, done.stderr

    @property
    def report(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


class Shell:
    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def run(self, *arguments: str, **variables: str) -> Result:
        env = {**self.environment, **variables}
        return Result(run(list(arguments), cwd=self.folder, env=env, text=True))

    def paste(self, arguments: str) -> Result:
        """Run it as bash reads it."""
        done = subprocess.run(
            ["bash", "-c", f"{PROGRAM} {arguments}"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Result(done)

    def record(self, program: str, url: str, *options: str, **variables: str) -> Result:
        own = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": REAL_KEY, "ANTHROPIC_BASE_URL": url}
        behind = ["--", sys.executable, "-c", program]
        return self.run("record", "--store", "llm", *options, *behind, **{**own, **variables})

    def replay(self, program: str, *options: str, **variables: str) -> Result:
        return self.run(
            "replay", "--store", "llm", *options, "--", sys.executable, "-c", program, **variables
        )


@contextmanager
def served(
    shell: Shell, *options: str, stop: signal.Signals = signal.SIGINT, **variables: str
) -> Iterator[tuple[Any, subprocess.Popen[str]]]:
    with running(shell, "serve", "--store", "llm", *options, stop=stop, **variables) as found:
        yield found


@contextmanager
def running(
    shell: Shell, *arguments: str, stop: signal.Signals = signal.SIGINT, **variables: str
) -> Iterator[tuple[Any, subprocess.Popen[str]]]:
    """A command that serves, and the facts that it prints; afterwards they have its ``talk``, too."""
    with start(
        [*arguments, "--json"],
        cwd=shell.folder,
        env={**shell.environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        facts = json.loads(line)
        try:
            yield facts, process
        finally:
            process.send_signal(stop)
            _, facts["talk"] = process.communicate(timeout=300)
