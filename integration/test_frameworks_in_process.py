"""Frameworks on the providers' SDKs, inside marked tests: recorded from llama.cpp, replayed without it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.servers import tiny_model
from tests.servers.llamacpp import start_llamacpp

ROOT = Path(__file__).parent.parent
KEY = "only-the-recording-has-this-key"
FOLDER = ROOT / ".bench" / "frameworks"
PACKAGES = (
    "aiohttp==3.14.5",
    "pytest==9.2.0",
    "langchain-anthropic==1.7.7",
    "langchain-openai==1.7.3",
    "instructor==1.17.0",
    "llm==0.36",
)
TESTS = f"""
import instructor, llm, pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from openai import OpenAI
from pydantic import BaseModel

MODEL = {tiny_model.MODEL!r}
pytestmark = pytest.mark.llm_replay

def test_langchain_anthropic():
    assert ChatAnthropic(model=MODEL, max_tokens=16).invoke("Hello.").content

def test_langchain_openai():
    chunks = ChatOpenAI(model=MODEL, max_tokens=16).stream("Hello, stream.")
    assert "".join(str(chunk.content) for chunk in chunks)

class Anything(BaseModel):
    pass

def test_instructor():
    client = instructor.from_openai(OpenAI(), mode=instructor.Mode.MD_JSON)
    try:
        client.chat.completions.create(
            model=MODEL, max_tokens=16, max_retries=0, response_model=Anything,
            messages=[{{"role": "user", "content": "As JSON."}}])
    except Exception as error:  # the tiny model writes no JSON; that it was asked is what counts
        assert "424" not in str(error), error

def test_llm():
    model = llm.get_model("gpt-4o-mini")
    assert model.prompt("Hello from llm.", max_tokens=16).text()
"""


@pytest.fixture(scope="module")
def python() -> str:
    """A Python that has the frameworks, and this project as it is."""
    program = os.fspath(FOLDER / "bin" / "python")
    complete, packages = FOLDER / ".complete", "\n".join(PACKAGES)
    if not complete.exists() or complete.read_text() != packages:
        venv.create(FOLDER, with_pip=True, clear=True)
        subprocess.run([program, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=600)
        complete.write_text(packages)
    subprocess.run([program, "-m", "pip", "install", "--quiet", "-e", str(ROOT)], check=True, timeout=600)
    return program


SECOND_CLIENT = """
import json, os, socket
import openai, pytest

URL = os.environ["SECOND_SERVER"] + "/v1"
ASKED = {{"model": {model!r}, "max_tokens": 8, "messages": [{{"role": "user", "content": "Hello."}}]}}
pytestmark = pytest.mark.llm_replay

def test_openai():
    client = openai.OpenAI(base_url=URL, api_key=os.environ.get("SECOND_KEY", "none"), max_retries=0)
    assert client.chat.completions.create(**ASKED).choices[0].message.content
    assert client.models.list().data

def test_around():
    host, _, port = os.environ["SECOND_SERVER"].removeprefix("http://").partition(":")
    body = json.dumps(ASKED)
    head = f"POST /v1/messages HTTP/1.1\\r\\nHost: {{host}}:{{port}}\\r\\nContent-Length: {{len(body)}}\\r\\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall((head + "\\r\\n" + body).encode())
"""


@pytest.mark.parametrize("key", [None, KEY])
def test_a_second_client_is_replayed_and_what_goes_around_is_refused(
    python: str, tmp_path: Path, key: str | None
) -> None:
    """With the server up all the time: who asks it in replay is found out by its log."""
    (tmp_path / "model").mkdir()
    (tmp_path / "test_second.py").write_text(SECOND_CLIENT.format(model=tiny_model.MODEL))

    def run(*options: str, **variables: str) -> tuple[int, str]:
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-store", "llm", *options],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | variables,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.returncode, done.stdout

    with start_llamacpp(tmp_path / "model", api_key=key) as url:
        secret = {} if key is None else {"SECOND_KEY": key}
        status, recorded = run("-k", "openai", "--llm-mode", "once", SECOND_SERVER=url, **secret)
        assert status == 0, recorded
        assert "2 recorded, 2 live" in recorded
        for mode in ("once", "replay"):
            status, replayed = run("--llm-mode", mode, SECOND_SERVER=url)
            assert status == 1
            assert "1 failed, 1 passed" in replayed, replayed[-3000:]
            assert "2 hits, 0 misses, 0 recorded, 0 live" in replayed
            assert f"refused: 1 x {url.removeprefix('http://')}" in replayed
    stored = b"".join(path.read_bytes() for path in (tmp_path / "llm").rglob("*") if path.is_file())
    assert KEY.encode() not in stored


def test_frameworks_are_replayed(python: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "test_frameworks.py").write_text(TESTS)

    def run(*options: str, **variables: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LLM_USER_PATH": str(tmp_path / "llm-home"),
        }
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-store", "llm", *options],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert KEY not in done.stdout
        return done.stdout

    with start_llamacpp(tmp_path / "model", api_key=KEY) as url:
        servers = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}
        run("--llm-mode", "once", ANTHROPIC_API_KEY=KEY, OPENAI_API_KEY=KEY, **servers)
    replayed = run()

    assert "4 passed" in replayed
    assert "0 misses, 0 recorded, 0 live" in replayed
    assert sys.version_info >= (3, 11)
