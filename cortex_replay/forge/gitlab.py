"""A merge request of GitLab, by its REST API."""

from __future__ import annotations

import re
from typing import Any, Final

from cortex_replay.errors import ResponseParse
from cortex_replay.forge.client import Client
from cortex_replay.forge.comments import Comment

__all__ = ["GitLabRequest"]

_COMMAND: Final = re.compile(r"^(\s*)/(?=\w)", re.MULTILINE)
"""What GitLab would take for one of its quick actions, such as ``/approve``, and carry out in our name."""


class GitLabRequest:
    """A merge request.

    Args:
        url: Of the API, with its version.
        token: One that may write notes. The token of a job may not.
        project: Its number; of the one that the merge request is for.
        number: Of the merge request.
    """

    longest = 1_000_000

    def __init__(self, url: str, token: str, project: int, number: int) -> None:
        self._client = Client(url, {"private-token": token})
        self._notes = f"/projects/{project}/merge_requests/{number}/notes"

    def disarm(self, text: str) -> str:
        return _COMMAND.sub(r"\1\\/", text)

    def own_comments(self) -> list[Comment]:
        user, _ = self._client.call("GET", "/user")
        own = _field(user, "id")
        found: list[Comment] = []
        page = "1"
        while page:
            path = f"{self._notes}?per_page=100&order_by=created_at&sort=asc&page={page}"
            notes, headers = self._client.call("GET", path)
            if not isinstance(notes, list):
                raise ResponseParse("GitLab did not say which notes the merge request has")
            found += [
                Comment(str(_field(note, "id")), str(_field(note, "body")))
                for note in notes
                if _field(_field(note, "author"), "id") == own and not note.get("system")
            ]
            later = headers.get("x-next-page", "")
            page = later if later.isdecimal() and int(later) > int(page) else ""
        return found

    def add(self, body: str) -> str:
        self._client.call("POST", self._notes, {"body": body})
        return ""

    def change(self, comment: Comment, body: str) -> str:
        if not comment.id.isdecimal():
            raise ResponseParse("GitLab gave a note an id that is no number")
        self._client.call("PUT", f"{self._notes}/{comment.id}", {"body": body})
        return ""


def _field(document: Any, name: str) -> Any:
    if not isinstance(document, dict) or name not in document:
        raise ResponseParse(f"GitLab left out the field {name!r}")
    return document[name]
