"""An MCP call that is not recorded, explained: the nearest one, what differs, what there is instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.messages import DISCOVER, INITIALIZE, TOOLS_CALL
from cortex_replay.mcp.questions import SUBJECTS, name_call, server_in, stands_alone, subject_of
from cortex_replay.misses.differences import escape_text
from cortex_replay.misses.explanation import difference_lines, exhaustion_text, miss_text, redact_plain
from cortex_replay.misses.nearest import nearest_exchange, recorded_requests
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.store import Store

__all__ = ["explain_tool_exhaustion", "explain_tool_miss"]

_MOST_NAMED: Final = 20
_LONGEST_NAME: Final = 60

Request = dict[str, JsonValue]


def explain_tool_miss(
    store: Store, request: Request, key: str, how_to_record: str, redactor: Redactor, scope: str = ""
) -> str:
    """A call that was not recorded.

    Args:
        store: Where it was looked for.
        request: What was asked.
        key: What it was looked up by.
        how_to_record: The command, or the words, for the last line.
        redactor: What cuts secrets out.
        scope: Whose recordings count beside the shared ones.
    """
    asked = redact_plain(request, redactor)[0]
    what = f"{escape_text(name_call(asked))} ({key[:16]})"
    return miss_text(what, _lines(store, asked, redactor, scope), how_to_record)


def explain_tool_exhaustion(request: Request, key: str, how_to_record: str) -> str:
    """Every answer to a call was given."""
    return exhaustion_text(f"{escape_text(name_call(request))} ({key[:16]})", how_to_record)


def _lines(store: Store, asked: Request, redactor: Redactor, scope: str) -> Iterator[str]:
    server, subject = server_in(asked), subject_of(asked)
    nearest = nearest_exchange(store, asked, scope=scope)
    before = None if nearest is None else redact_plain(nearest.request, redactor)[0]
    is_known = before is not None and before.get("upstream") == asked.get("upstream")
    if not is_known:
        yield from _server_lines(store, server or "", redactor, scope)
    elif before is not None and before.get("path") != asked.get("path"):
        yield from _method_lines(store, asked, redactor, scope)
        return
    elif before is not None and subject_of(before) != subject:
        yield from _subject_lines(store, asked, redactor, scope)
    if nearest is None or before is None or before.get("path") != asked.get("path"):
        return
    yield from difference_lines(nearest.path, _form(before), _form(asked))


def _form(request: Request) -> Request:
    """A call as it is compared: by the names of its arguments."""
    body = request.get("body")
    form: Request = {"server": server_in(request), "session": not stands_alone(request)}
    for name, value in body.items() if isinstance(body, dict) else ():
        if name == "arguments" and isinstance(value, dict):
            form |= {f"argument {argument}": given for argument, given in value.items()}
        else:
            form["tool" if name == "name" and request.get("path") == TOOLS_CALL else name] = value
    return form


def _server_lines(store: Store, server: str, redactor: Redactor, scope: str) -> Iterator[str]:
    servers = {found for one in recorded_requests(store, scope) if (found := server_in(one)) is not None}
    if not servers:
        yield "No call to an MCP server is recorded in this store yet."
    elif server not in servers:
        yield f"No call of server {escape_text(server)} is recorded, but of: {_listed(servers, redactor)}."


def _method_lines(store: Store, asked: Request, redactor: Redactor, scope: str) -> Iterator[str]:
    server = server_in(asked) or ""
    methods = {str(one.get("path")) for one in recorded_requests(store, scope) if server_in(one) == server}
    yield f"Of server {escape_text(server)} there is: {_listed(methods, redactor)}."
    if asked.get("path") == INITIALIZE and DISCOVER in methods:
        yield "It was recorded with a client of a newer protocol. Record it with this one, too."


def _subject_lines(store: Store, asked: Request, redactor: Redactor, scope: str) -> Iterator[str]:
    server, method = server_in(asked), asked.get("path")
    subjects = {
        subject
        for one in recorded_requests(store, scope)
        if server_in(one) == server and one.get("path") == method and (subject := subject_of(one)) is not None
    }
    what = f"{SUBJECTS[str(method)][0]}s" if method in SUBJECTS else "calls"
    yield f"Recorded {what} of server {escape_text(server or '')}: {_listed(subjects, redactor)}."


def _listed(names: Iterable[str], redactor: Redactor) -> str:
    shown = sorted({redactor.text(name)[0] for name in names})
    listed = [escape_text(name[:_LONGEST_NAME]) for name in shown[:_MOST_NAMED]]
    return ", ".join(
        [*listed, *([f"and {len(shown) - _MOST_NAMED} more"] if len(shown) > _MOST_NAMED else [])]
    )
