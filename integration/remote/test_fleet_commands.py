"""Machines that run ``cortex-replay record -- COMMAND``, whose program asks through the openai SDK."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from cortex_replay import Store
from integration.remote.servers import start_s3s_fs
from tests.servers.s3 import S3Server
from tests.waiting import wait_until

COMMAND: Final = str(Path(sys.executable).with_name("cortex-replay"))
QUESTIONS: Final = 50
SECRET: Final = "the-name-of-a-run-which-is-a-secret"
PROGRAM: Final = f"""
import os, random, sys
from openai import OpenAI

assert os.environ["CORTEX_REPLAY_RUN"] != {SECRET!r}
client = OpenAI()
questions = [f"Question {{number}}?" for number in range({QUESTIONS})]
random.Random(sys.argv[1]).shuffle(questions)
for question in questions:
    asked = dict(model="m", messages=[dict(role="user", content=question)])
    if question < "Question 3":
        parts = client.chat.completions.create(stream=True, **asked)
        text = "".join(part.choices[0].delta.content or "" for part in parts)
    else:
        text = client.chat.completions.create(**asked).choices[0].message.content
    print(question, text, flush=True)
"""


class _Model(BaseHTTPRequestHandler):
    """Never says the same twice, and counts what it is asked."""

    protocol_version = "HTTP/1.1"
    calls: Counter[str]
    lock: threading.Lock

    def do_POST(self) -> None:
        body: Any = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question = body["messages"][-1]["content"]
        with self.lock:
            self.calls[question] += 1
            text = f"is {self.calls.total()}"
        facts = {"id": "c", "created": 1, "model": "m"}
        if body.get("stream"):
            deltas = [{"role": "assistant", "content": text[:2]}, {"content": text[2:]}, {}]
            chunks = [
                {
                    **facts,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}],
                }
                for delta in deltas
            ]
            data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            self._send(data.encode(), "text/event-stream")
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {**facts, "object": "chat.completion", "choices": [choice], "usage": usage}
        self._send(json.dumps(answer).encode(), "application/json")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def model() -> Iterator[tuple[str, Counter[str]]]:
    calls: Counter[str] = Counter()
    handler = type("Model", (_Model,), {"calls": calls, "lock": threading.Lock()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", calls
        server.shutdown()


def start(folder: Path, name: str, server: S3Server, bucket: str, upstream: str) -> subprocess.Popen[str]:
    """A machine of its own: neither home nor store nor folder is another's."""
    place = folder / name
    (place / "home").mkdir(parents=True)
    (place / "cortex-replay.toml").write_text(f'store = "llm"\n[remote]\nurl = "{bucket}"\n')
    (place / "ask.py").write_text(PROGRAM)
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), **server.variables}
    environment |= {"CORTEX_REPLAY_RUN": SECRET, "OPENAI_API_KEY": "sk-a-key-of-nobody-at-all"}
    command = [COMMAND, "record", "--upstream", f"openai={upstream}", "--pass-env", "HOME"]
    with (place / "said").open("w") as said, (place / "errors").open("w") as errors:
        return subprocess.Popen(
            [*command, "--", sys.executable, "ask.py", name],
            cwd=place,
            env=environment,
            stdout=said,
            stderr=errors,
            text=True,
        )


def collect(folder: Path, server: S3Server, bucket: str) -> dict[str, Any]:
    place = folder / "collector"
    place.mkdir()
    environment = (
        os.environ | server.variables | {"CORTEX_REPLAY_REMOTE": bucket, "CORTEX_REPLAY_RUN": SECRET}
    )
    command = [COMMAND, "collect", "--store", "llm", "--json"]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    Store.open(place / "llm")
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("killed", [0, 1])
def test_four_machines_ask_each_question_once(killed: int, minio: S3Server, tmp_path: Path) -> None:
    bucket = f"s3://{minio.new_bucket()}/agents"
    with model() as (upstream, calls):
        names = [f"machine-{number}" for number in range(4)]
        workers = {name: start(tmp_path, name, minio, bucket, upstream) for name in names}
        for name in names[:killed]:
            wait_until(lambda: calls.total() > QUESTIONS // 4, 120)
            workers[name].send_signal(signal.SIGKILL)
        codes = {name: worker.wait(300) for name, worker in workers.items()}
    living = names[killed:]

    assert [codes[name] for name in living] == [0] * len(living), (
        tmp_path / living[0] / "errors"
    ).read_text()
    said = {"\n".join(sorted((tmp_path / name / "said").read_text().splitlines())) for name in living}
    assert len(said) == 1
    assert len(calls) == QUESTIONS
    assert calls.total() <= QUESTIONS + killed
    told = collect(tmp_path, minio, bucket)
    assert (told["answers"], len(told["added"])) == (QUESTIONS, QUESTIONS)
    assert (told["workers"], told["unfinished_workers"]) == (4, killed)


def test_a_server_that_breaks_conditions_is_refused(tmp_path: Path) -> None:
    """Before anything is asked."""
    with start_s3s_fs(tmp_path) as server, model() as (upstream, calls):
        worker = start(tmp_path, "machine", server, f"s3://{server.new_bucket()}/agents", upstream)
        assert worker.wait(120) == 1
    assert "does not keep the condition of a put" in (tmp_path / "machine" / "errors").read_text()
    assert not calls
