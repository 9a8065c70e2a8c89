"""A pull request of GitHub, by its GraphQL API: that one tells which comments our token wrote."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.errors import ResponseParse, Upstream
from cortex_replay.forge.client import Client
from cortex_replay.forge.comments import Comment

__all__ = ["GitHubRequest"]

_FIND: Final = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      id
      comments(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { id body viewerDidAuthor }
      }
    }
  }
}"""
_ADD: Final = """
mutation($id: ID!, $body: String!) {
  addComment(input: {subjectId: $id, body: $body}) { commentEdge { node { url } } }
}"""
_CHANGE: Final = """
mutation($id: ID!, $body: String!) {
  updateIssueComment(input: {id: $id, body: $body}) { issueComment { url } }
}"""
_STATUSES: Final = {"FORBIDDEN": 403, "NOT_FOUND": 404}
"""An error of GraphQL comes with the status 200."""


class GitHubRequest:
    """A pull request.

    Args:
        url: Of the GraphQL API.
        token: That of the job, or of an app.
        repository: ``owner/name``.
        number: Of the pull request.
    """

    longest = 65_536

    def __init__(self, url: str, token: str, repository: str, number: int) -> None:
        self._client = Client(url, {"authorization": f"Bearer {token}"})
        owner, _, name = repository.partition("/")
        self._variables = {"owner": owner, "name": name, "number": number}
        self._id: str | None = None

    def disarm(self, text: str) -> str:
        return text  # a comment is only text there

    def own_comments(self) -> list[Comment]:
        found: list[Comment] = []
        after: str | None = None
        while True:
            data = self._ask(_FIND, {**self._variables, "after": after})
            try:
                request = data["repository"]["pullRequest"]
                self._id = str(request["id"])
                comments = request["comments"]
                found += [
                    Comment(str(node["id"]), str(node["body"]))
                    for node in comments["nodes"]
                    if node["viewerDidAuthor"] is True
                ]
                page = comments["pageInfo"]
                if page["hasNextPage"] is not True or page["endCursor"] in {None, after}:
                    return found
                after = str(page["endCursor"])
            except (KeyError, TypeError):
                raise ResponseParse("GitHub did not say which comments the pull request has") from None

    def add(self, body: str) -> str:
        if self._id is None:
            self.own_comments()
        data = self._ask(_ADD, {"id": self._id, "body": body})
        return _url(data, "addComment", "commentEdge", "node")

    def change(self, comment: Comment, body: str) -> str:
        data = self._ask(_CHANGE, {"id": comment.id, "body": body})
        return _url(data, "updateIssueComment", "issueComment")

    def _ask(self, query: str, variables: dict[str, Any]) -> Any:
        document, _ = self._client.call("POST", body={"query": query, "variables": variables})
        fields = document if isinstance(document, dict) else {}
        errors = fields.get("errors")
        if errors:
            first = errors[0] if isinstance(errors, list) and isinstance(errors[0], dict) else {}
            kind = str(first.get("type"))
            raise Upstream(_STATUSES.get(kind, 400), str(first.get("message", "")), kind)
        return fields.get("data")


def _url(data: Any, *names: str) -> str:
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return str(data["url"]) if isinstance(data, dict) and "url" in data else ""
