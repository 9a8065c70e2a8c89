"""Naming a fixture on the command line."""

from __future__ import annotations

import json
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from cortex_replay.cli import output
from cortex_replay.cli.options import store_root, wants_json
from cortex_replay.errors import LlmError, NoFixture
from cortex_replay.mcp.questions import server_in
from cortex_replay.store import Store, StoredFixture
from cortex_replay.store.reader import StoredExchange

__all__ = ["complete_fixture", "end_without_fixture", "find_fixture", "find_mcp_call", "fixtures_like"]


def complete_fixture(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """The prompt hashes that begin with what was typed."""
    try:
        stored = Store.open(store_root(ctx, ctx.params.get("store")), verify="on-read").list()
    except (LlmError, click.UsageError):
        return []
    return [
        CompletionItem(item.prompt_hash[:16], help=output.escape(item.model))
        for item in stored
        if item.prompt_hash.startswith(typed)
    ]


def end_without_fixture(ctx: click.Context, reason: str) -> NoReturn:
    """End a command that found nothing to work on."""
    if wants_json(ctx):
        output.talk(json.dumps({"error": "NoFixture", "message": reason, "findings": []}))
    else:
        output.talk(f"error: {reason}")
    ctx.exit(NoFixture.exit_code)


def find_fixture(
    ctx: click.Context, store: Store, wanted: str, model: str | None, scope: str = ""
) -> StoredFixture:
    """The one fixture with this path, or whose prompt hash begins so; ends the command if it is not one.

    By its hash it is what a scope gets: its own, or the shared one. By its path, whoever has it.
    """
    found = fixtures_like(store, wanted, model, scope)
    if not found:
        shown = output.escape(wanted)
        if find_mcp_call(store, wanted, scope) is not None:
            end_without_fixture(
                ctx, f"{shown} is a call to an MCP server, and no prompt: cortex-replay show {shown}"
            )
        end_without_fixture(ctx, f"no fixture fits {shown}; `cortex-replay list` shows them all")
    if len(found) > 1:
        choices = "".join(f"\n  {item.prompt_hash[:16]}  {output.escape(item.model)}" for item in found[:10])
        raise click.UsageError(f"{len(found)} fixtures fit {wanted!r}; give more digits or --model:{choices}")
    return found[0]


def fixtures_like(store: Store, wanted: str, model: str | None, scope: str = "") -> list[StoredFixture]:
    """The fixtures with this path, or whose prompt hash begins so; see :func:`find_fixture`."""
    stored = store.list(scoped=True)
    by_path = [item for item in stored if item.path == wanted and scope in ("", item.scope)]
    return by_path[:1] or [
        item
        for item in stored
        if wanted
        and item.prompt_hash.startswith(wanted.lower())
        and model in (None, item.model)
        and item.scope == (scope if store.has_own(item.model, item.prompt_hash, scope) else "")
    ]


def find_mcp_call(store: Store, wanted: str, scope: str = "") -> StoredExchange | None:
    """The one recorded call to an MCP server with this path, or whose key begins so, if there is one.

    Raises:
        UsageError: There are several.
    """
    stored = store.list_exchanges()
    by_path = [item for item in stored if item.path == wanted and scope in ("", item.scope)]
    own = {item.key for item in stored if scope and item.scope == scope}
    like = by_path[:1] or [
        item
        for item in stored
        if wanted and item.key.startswith(wanted.lower()) and item.scope == (scope if item.key in own else "")
    ]
    found = [item for item in like if _is_of_mcp(store, item)]
    if len(found) > 1:
        choices = "".join(f"\n  {item.key[:16]}  {output.escape(item.path)}" for item in found[:10])
        raise click.UsageError(f"{len(found)} MCP calls fit {wanted!r}; give more digits:{choices}")
    return found[0] if found else None


def _is_of_mcp(store: Store, stored: StoredExchange) -> bool:
    exchange = store.exchange(stored.key, stored.scope)
    return exchange is not None and server_in(exchange.request) is not None
