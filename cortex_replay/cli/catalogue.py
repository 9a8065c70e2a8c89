"""Every command by its section, with one sentence about it.

Plain data, so that the help of the group loads no command. A command repeats its sentence as the start of its
own help; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["RUNNERS", "SECTIONS", "SUMMARIES", "module_of"]

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Record and replay": {
        "record": "Ask a real model and record what it answers.",
        "replay": "Run a command with every model call answered from the store.",
        "serve": "Serve recorded answers to any SDK, or record what it asks.",
        "mcp": "Stand in for an MCP server: record what it says, or replay it without the server.",
        "batch": "Record the answers to many requests.",
        "learn": "Replay a recorded command, and make rules for what differs from run to run.",
        "refresh": "Ask again what is recorded, show what changed, and write it.",
        "sweep": "Run a recorded command once for every call and fault, and tell which it survives.",
    },
    "Look": {
        "list": "List the recordings: prompt hash, model, question.",
        "show": "Show one recording, or the story of a run.",
        "diff": "Show what changed since a commit: behaviour first, rewordings in one line.",
        "explain": "Explain a recorded prompt: its parts, their sizes, what each provider would cache.",
        "cache": "Show what a prompt cache did with recorded calls, and what would cost less.",
        "view": "Look at recordings in a browser: the store, conversations, what a run did.",
    },
    "Keep the store healthy": {
        "verify": "Check that a store is what its index says.",
        "sign": "Sign the index with an SSH key, after showing what changed since it was signed last.",
        "receipt": "Prove an answer of a signed store to somebody who has the signed index alone.",
        "scan": "Look for secrets in every recorded file.",
        "index": "Rebuild INDEX.toml from the files, after showing what that changes.",
        "resolve": "Resolve a merge conflict in INDEX.toml: keep what both branches recorded.",
        "prune": "Remove recordings: print the plan, then act.",
        "rekey": "Compute keys anew from stored requests, without asking any model.",
        "repack": "Store each conversation once, or every request whole; keys stay as they are.",
    },
    "Share": {
        "push": "Send the files of the store that the remote lacks.",
        "pull": "Fetch the files of the store that this machine lacks.",
        "keep": "Move the files of the store to the remote, or back into git.",
        "gc": "Delete objects of the remote that no commit needs: print the plan, then act.",
        "collect": "Add what the workers of a run recorded to the store.",
    },
    "Set up": {
        "init": "Set up a store: index, settings, git attributes, a pre-commit hook, and a first test.",
        "config": "Show every setting, its value, and where that comes from.",
        "trust": "Say which keys may go to which servers.",
        "comment": "Post Markdown as one comment on a pull or merge request, and keep it up to date.",
        "completion": "Print a script that completes commands, options and fixtures in a shell.",
        "merge-driver": "Merge three versions of INDEX.toml, as git calls it: by key, not by line.",
    },
    "Move over": {
        "import": "Take over cassettes of vcrpy and pytest-recording.",
        "export": "Write a copy of the store for another program.",
    },
}
SUMMARIES: Final = {name: summary for commands in SECTIONS.values() for name, summary in commands.items()}
RUNNERS: Final = {
    "record": "[-- COMMAND ...]",
    "replay": "-- COMMAND ...",
    "learn": "-- COMMAND ...",
    "mcp": "-- SERVER ...",
    "sweep": "-- COMMAND ...",
}
"""Those that run a command of the user's, and how their usage names it."""

_MODULES: Final = {"import": "import_cassettes"}
"""Where a command's own name is no name of a module."""


def module_of(name: str) -> str:
    """The module of a command."""
    return f"cortex_replay.cli.{_MODULES.get(name, name.replace('-', '_'))}"
