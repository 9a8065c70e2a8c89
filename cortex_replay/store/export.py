"""A copy of a store in the layout of ``crtx-llm``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tomli_w

from cortex_replay.disk import Folder
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.changes import fixture_path
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.store import Store
from cortex_replay.store.tool_calls import tool_call_keys
from cortex_replay.store.trust import Layout
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["ExportSummary", "Omission", "export_crtx"]

_OMISSIONS: Final = {
    "failure": ("recorded errors", "it has answers only; their files are left out"),
    "exchange": ("calls that are no completions", "it makes none; their files are left out"),
    "tool": ("calls to MCP servers", "it makes none; their files are left out"),
    "scoped": ("answers of single scopes", "it knows no scopes, and gives the shared answer"),
    "answer": ("further answers", "it gives the first one to every call"),
    "request": (
        "recordings that it cannot ask for",
        "they have tools, images or settings that it does not know, or no temperature or limit",
    ),
    "normalised": ("recordings that were normalised", "it normalises nothing, and asks by another key"),
    "bound": ("recordings with bound values", "it fills in nothing, and asks by another key"),
    "tool_calls": ("tool calls", "it gives the text of an answer only"),
    "reasoning": ("reasoning", "it gives the text of an answer only"),
    "stream": ("streams", "it gives the text of an answer at once"),
    "finish_reason": ("answers that ended early", "it says of every answer that it came to its end"),
}
"""What ``crtx-llm`` does not see, by kind: what it is called, and why."""


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that is recorded here and that ``crtx-llm`` will not give."""

    kind: str
    count: int
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What was written, and what ``crtx-llm`` will not see of it."""

    fixtures: int
    with_more_answers: int
    """Fixtures of which it gives the first answer only."""
    left_out: tuple[Omission, ...]


def export_crtx(store: Store, target: Path) -> ExportSummary:
    """Write every fixture into a new flat folder, with an index of paths and hashes.

    The files are copied byte for byte, but for those whose request does not stand there whole: they get all
    of it. ``crtx-llm`` ignores the fields it does not know.

    Raises:
        StoreIo: The folder exists and is not empty, or the disk refuses.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreIo(f"{target} exists already; export writes into a new or an empty folder")
    if target.resolve().is_relative_to(store.root / ("fixtures" if store.layout is Layout.NESTED else ".")):
        raise StoreIo(f"{target} is inside the store itself, which would then have unlisted files")
    was_there = target.exists()
    try:
        with Folder.reach(target, make=True) as folder:
            return _write(store, folder)
    except OSError as error:
        if not was_there:
            with suppress(OSError), Folder.reach(target.absolute().parent) as above:
                above.remove_folder(target.name)
        raise StoreIo(f"the export cannot be written: {error.strerror or error} ({target})") from error


def _write(store: Store, folder: Folder) -> ExportSummary:
    blocks: list[str] = []
    several = 0
    tools = len(tool_call_keys(store))
    unseen = Counter(
        failure=store.count_failures(),
        exchange=len(store.exchange_keys()) - tools,
        tool=tools,
        scoped=store.count_scoped(),
    )
    written: list[str] = []
    try:
        for item in store.list():
            key = FixtureKey(item.model, item.prompt_hash)
            data = store.whole_content(*key)
            digest = blake3_hex(data)
            name = fixture_path(Layout.FLAT, key, digest)
            folder.create(name, data, durable=True)
            written.append(name)
            rows = tomli_w.dumps({"path": name, "blake3": digest})
            blocks.append(f"[[fixture]]\n{rows}")
            fixture = store.get(*key)
            several += len(fixture.answers) > 1
            unseen.update(_unseen(fixture))
        folder.sync()
        # Last: a folder without an index is refused, so half an export is never taken for a whole one.
        folder.replace(INDEX_NAME, "\n".join(blocks).encode(), f"{INDEX_NAME}.tmp")
    except OSError:
        with suppress(OSError):
            for name in written:
                folder.unlink(name)
        raise
    left_out = [Omission(kind, unseen[kind], *words) for kind, words in _OMISSIONS.items() if unseen[kind]]
    return ExportSummary(len(blocks), several, tuple(left_out))


def _unseen(fixture: Fixture) -> Iterator[str]:
    """What ``crtx-llm`` does not see of a fixture, by kind."""
    yield from ("answer" for _ in fixture.answers[1:])
    if (fixture.meta or {}).get("normalisers"):
        yield "normalised"
    elif (fixture.meta or {}).get("bindings"):
        yield "bound"
    elif fixture.request is not None and not _is_askable(fixture.request):
        yield "request"
    first = fixture.answers[0]
    if first.tool_calls:
        yield "tool_calls"
    if first.reasoning:
        yield "reasoning"
    if first.stream:
        yield "stream"
    if first.finish_reason not in (None, "stop", "tool_calls"):
        yield "finish_reason"


def _is_askable(request: LlmRequest) -> bool:
    """Whether ``crtx-llm`` has all that a request says, and so can come to its key."""
    if request.temperature is None or request.max_tokens is None:
        return False
    if any(message.role is LlmRole.SYSTEM for message in request.messages):
        return False
    plain = LlmRequest(
        request.model,
        request.system,
        [LlmMessage(message.role, message.content) for message in request.messages],
        request.temperature,
        request.max_tokens,
        request.json_schema,
    )
    return plain.canonical_bytes() == request.canonical_bytes()
