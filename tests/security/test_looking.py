"""Secrets in what people look at: pages, comments, reports. A store that others wrote may hold any."""

from __future__ import annotations

import base64
import gzip
import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay import Answer, Fixture, LlmRequest
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import ToolCall
from tests.cli.commands import run
from tests.cli.repositories import Project

KNOWN = "Zq7-kX_92mWvT4pLr8sBn1"
SHAPED = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
SPELLINGS = [
    KNOWN,
    base64.b64encode(KNOWN.encode()).decode(),
    urllib.parse.quote(f"/{KNOWN}", safe="")[3:],
    "".join(f"\\u{ord(character):04x}" for character in KNOWN),
    KNOWN.encode().hex(),
    SHAPED,
]
BRANCH = f"x-{SHAPED}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A secret wherever a recording has a text or a name; each answer changes in front of one, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_API_KEY", KNOWN)
        project = Project(tmp_path_factory.mktemp("project"))
        patch.chdir(project.root)
        record(project, "then")
        project.commit(f"It was {SHAPED}")
        project.git("branch", BRANCH)
        record(project, "now")
        yield project


def record(project: Project, when: str) -> None:
    for number, secret in enumerate(SPELLINGS):
        schema = {"type": "object", "properties": {secret: {"type": "string", "title": secret}}}
        tool = {"name": f"tool-{number}", "description": secret, "input_schema": schema}
        asked = [{"role": "user", "content": f"{number}: {'word ' * 36}{secret} it is"}]
        request = LlmRequest("claude-haiku-5-5", f"{number} {secret}", asked, tools=[tool])
        arguments: dict[str, JsonValue] = {
            "a": f"{when} {secret}",
            f"{when} {secret}": 1,
            "deep": [{secret: when}],
        }
        call = ToolCall(id=secret, name="do", arguments=arguments)
        answer = Answer(f"{when} {secret}", reasoning=f"{when} {secret}", tool_calls=(call,))
        project.store.replace(Fixture.of(request, answer, meta={"scope": f"test[{secret}]", secret: when}))
        written = json.dumps({secret: when, "in": [f"{when} {secret}"]})
        project.store.replace(Fixture.of(LlmRequest("gpt-6-luna", f"JSON {number}", asked), Answer(written)))
        question = question_of("files", "tools/call", {"name": "read", "arguments": {secret: [secret]}})
        said: dict[str, JsonValue] = {
            "at_ms": 7,
            "result": {"content": [{"type": "text", "text": f"{when} {secret}"}], secret: 1},
        }
        exchange = Exchange({"messages": [said]}, key=opaque_key(question), request=question)
        project.store.add_exchange(exchange, overwrite=True)
    project.store.commit()


def documents_in(page: str) -> Iterator[str]:
    for packed in re.findall(r'id="data:[^"]*">([^<]*)<', page):
        yield gzip.decompress(base64.b64decode(packed)).decode("utf-8", "surrogatepass")


def leaks(text: str) -> list[str]:
    """Secrets that can be read in a text, or in a page that it is; half of one is one."""
    texts = [text, *documents_in(text)]
    halves = [half for secret in SPELLINGS for half in (secret[: len(secret) * 2 // 3], secret[6:])]
    forms = {form for half in halves for form in (half, half.replace("_", " "), json.dumps(half)[1:-1])}
    return [form for form in sorted(forms) if any(form in one for one in texts)]


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_no_form_of_a_change_shows_a_secret(project: Project, tmp_path: Path, form: str) -> None:
    printed = project.diff(BRANCH, "--format", form, "--all")
    written = project.diff(BRANCH, "--format", form, "--output", str(tmp_path / "change"))

    assert (printed.exit_code, written.exit_code) == (0, 0)
    assert leaks(printed.stdout) == leaks(printed.stderr) == leaks(written.stderr) == []
    assert leaks((tmp_path / "change").read_text()) == []


def test_no_document_of_a_page_shows_a_secret(project: Project, tmp_path: Path) -> None:
    counted = dict.fromkeys(SPELLINGS, 1)
    servers = {secret: {"hits": 1} for secret in SPELLINGS}
    misses = [{"what": secret, "explanation": secret} for secret in SPELLINGS]
    report = tmp_path / f"{SHAPED}.json"
    report.write_text(
        json.dumps({"hits": 1, "misses": misses, "servers": servers, "remarks": counted, "bypassed": counted})
    )
    page = tmp_path / "page.html"
    done = run(
        "view", "--store", project.root / "llm", "--base", BRANCH, "--report", report, "--export", page
    )

    assert done.exit_code == 0, done.stderr
    assert len(list(documents_in(page.read_text()))) > 3 * len(SPELLINGS)
    assert leaks(page.read_text()) == leaks(done.stderr) == []
