"""What tells ``mcp NAME`` from ``mcp check NAME``. A client waits for the first, so it loads nothing of the
second."""

from __future__ import annotations

from typing import Any

import click

from cortex_replay.cli import options

__all__ = ["McpCommand"]


class McpCommand(options.RunnerCommand):
    """``mcp NAME -- SERVER``, or ``mcp check NAME -- SERVER``; a server may be called ``check``."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        is_server = args == ["check"] and parent is not None and bool(options.command_after_dashes(parent))
        if args[:1] != ["check"] or is_server:
            return super().make_context(info_name, args, parent, **extra)
        from cortex_replay.cli.mcp_check import check_command  # noqa: PLC0415 - see above

        return check_command.make_context(f"{info_name} check", args[1:], parent, **extra)
