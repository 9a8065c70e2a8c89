"""GitHub and GitLab as far as comments go: what was written is kept, and who may write is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from tests.adapters.fake_provider import Exchange, Received, serving_in_thread

__all__ = ["OTHER", "READER", "WRITER", "Forge", "Note", "forge_server"]

WRITER: Final = "token-that-may-write-4821"
READER: Final = "token-of-a-fork-7725"
OTHER: Final = "somebody-else"
_OWNERS: Final = {WRITER: "job", READER: "job"}
_PAGE: Final = 100


@dataclass
class Note:
    """A comment."""

    id: int
    author: str
    body: str


@dataclass
class Forge:
    """What a server knows, and what it was asked."""

    url: str = ""
    notes: list[Note] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    asked: list[Received] = field(default_factory=list)

    def write(self, author: str, body: str) -> Note:
        self.notes.append(Note(2**31 + len(self.notes), author, body))
        return self.notes[-1]

    def find(self, number: int) -> Note:
        return next(note for note in self.notes if note.id == number)

    @property
    def graphql(self) -> str:
        return f"{self.url}/graphql"

    @property
    def gitlab(self) -> str:
        return f"{self.url}/api/v4"


@contextmanager
def forge_server() -> Iterator[Forge]:
    forge = Forge()

    async def script(exchange: Exchange) -> None:
        forge.asked.append(exchange.received)
        status, document, headers = _answer(forge, exchange.received)
        await exchange.whole(json.dumps(document).encode(), status, **headers)

    with serving_in_thread(script) as server:
        forge.url = server.url
        yield forge


def _answer(forge: Forge, received: Received) -> tuple[int, Any, dict[str, str]]:
    token = received.headers.get("private-token") or received.headers.get("authorization", "")[7:]
    if token not in _OWNERS:
        return 401, {"message": "Bad credentials"}, {}
    path, _, query = received.path.partition("?")
    if path == "/graphql":
        return 200, _graphql(forge, received.json, may_write=token == WRITER), {}
    if path.startswith("/repos/"):
        return *_pulls(forge, received, path, query, may_write=token == WRITER), {}
    return _gitlab(forge, received, path, query, may_write=token == WRITER)


def _graphql(forge: Forge, asked: dict[str, Any], *, may_write: bool) -> dict[str, Any]:
    variables = asked["variables"]
    if asked["query"].lstrip().startswith("query"):
        start = int(variables["after"] or 0)
        page = forge.notes[start : start + _PAGE]
        nodes = [
            {"id": f"IC_{note.id}", "body": note.body, "viewerDidAuthor": note.author == "job"}
            for note in page
        ]
        end = start + len(page)
        info = {"hasNextPage": end < len(forge.notes), "endCursor": str(end)}
        comments = {"pageInfo": info, "nodes": nodes}
        return {"data": {"repository": {"pullRequest": {"id": "PR_1", "comments": comments}}}}
    if not may_write:
        error = {"type": "FORBIDDEN", "message": "Resource not accessible by integration"}
        return {"data": None, "errors": [error]}
    if "addComment" in asked["query"]:
        assert variables["id"] == "PR_1"
        node = {"url": f"{forge.url}/c/{forge.write('job', variables['body']).id}"}
        return {"data": {"addComment": {"commentEdge": {"node": node}}}}
    note = forge.find(int(variables["id"].removeprefix("IC_")))
    note.body = variables["body"]
    return {"data": {"updateIssueComment": {"issueComment": {"url": f"{forge.url}/c/{note.id}"}}}}


def _pulls(forge: Forge, received: Received, path: str, query: str, *, may_write: bool) -> tuple[int, Any]:
    """The list of pull requests, a new one, or a change to one."""
    if received.method == "GET":
        head = re.search(r"head=([^&]+)", query)
        assert head is not None
        return 200, [pull for pull in forge.pulls if f"owner:{pull['head']}" == unquote(head[1])]
    if not may_write:
        return 403, {"message": "Resource not accessible by integration"}
    if received.method == "POST":
        forge.pulls.append({"number": len(forge.pulls) + 1, "html_url": f"{forge.url}/1", **received.json})
        return 201, forge.pulls[-1]
    forge.pulls[int(path.rpartition("/")[2]) - 1].update(received.json)
    return 200, forge.pulls[int(path.rpartition("/")[2]) - 1]


def _gitlab(
    forge: Forge, received: Received, path: str, query: str, *, may_write: bool
) -> tuple[int, Any, dict[str, str]]:
    if path == "/api/v4/user":
        return 200, {"id": 1}, {}
    assert path.startswith("/api/v4/projects/7/merge_requests/3/notes")
    if received.method == "GET":
        number = int(re.findall(r"[?&]page=(\d+)", f"?{query}")[0])
        page = forge.notes[(number - 1) * _PAGE : number * _PAGE]
        later = str(number + 1) if number * _PAGE < len(forge.notes) else ""
        notes = [
            {
                "id": note.id,
                "body": note.body,
                "system": False,
                "author": {"id": 1 if note.author == "job" else 2},
            }
            for note in page
        ]
        return 200, notes, {"x_next_page": later}
    if not may_write:
        return 403, {"message": "403 Forbidden"}, {}
    if received.method == "POST":
        note = forge.write("job", received.json["body"])
        return 201, {"id": note.id}, {}
    note = forge.find(int(path.rpartition("/")[2]))
    note.body = received.json["body"]
    return 200, {"id": note.id}, {}
