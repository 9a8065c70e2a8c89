"""What the page of benchmarks says in words: what each bench measures, and why a goal is missed."""

from __future__ import annotations

from typing import Final

__all__ = ["ABOUT", "why_missed"]

ABOUT: Final = {
    "bytes": "`verify --bytes`: index, list of files, the hash of every file. `b3sum` hashes the same files.",
    "full": "`verify`: every file against the index and against every rule. `crtx-llm` opens the same files.",
    "open": "Reading an index, beside Python's own TOML reader.",
    "complete": "One replayed answer, in a process that runs already.",
    "hash": "The key of a request, beside the smallest JSON and hash that could do.",
    "write": "Staging and committing new recordings, beside writing the same files by hand.",
    "commit": (
        "One new answer onto stores of ever more rows. In one file, the work grows with the rows; "
        "it must not grow faster. With shards, as any store over 20,000 rows has, it should not grow."
    ),
    "index": "A store of a million rows, in shards, beside one of ten thousand.",
    "conversation": "A long conversation: its size on disk beside its text, and what reading it takes.",
    "live": "One live call, beside the provider's own SDK.",
    "chunk": "One chunk of a live stream, beside the provider's own SDK.",
    "record": (
        "`batch --jobs 16` of a server that answers at once, beside vcrpy through httpx. Matched on bodies, "
        "vcrpy tells prompts apart, as we do; matched on the URL, it does not."
    ),
    "sequence": (
        "Many answers to one and the same key, each staged as it comes. Four times the answers should take "
        "four times as long."
    ),
    "import": (
        "`import` of 200 cassettes of vcrpy's with 700 interactions, beside reading them with vcrpy's own "
        "reader, which keeps nothing."
    ),
    "tape": "What recording adds to one chunk of a stream.",
    "secrets": "Looking for secrets in what is about to be stored.",
    "gateway": "`serve`, beside aimock and llmposter with the same answers.",
    "bound": "What bound values add to a replayed answer.",
    "plugin": "What the pytest plugin adds to a test, beside pytest-recording.",
    "start": "How long the command line takes to start.",
    "miss": "The explanation of one miss among 10,000 recordings.",
    "mcp": "What a call to an MCP server costs, beside a bare pipe.",
    "viewer": (
        "What the viewer shows: the list of a store, beside `orjson` that parses the same files, and "
        "the page of a change."
    ),
    "cache-report": "`cache` over the calls of an agent.",
    "cache": "The simulation of a prompt cache.",
    "remote": "Pushing to and pulling from a bucket, beside another client.",
}
"""A sentence or two for each bench, in Markdown."""

_WHY: Final[dict[tuple[str, str], str]] = {
    ("bytes", "index, listing and hashes"): (
        "Reading and hashing the files takes as long as all of `b3sum`. The rest is the index, the list of "
        "files, and that the two agree (ADR 25)."
    ),
    ("full", "everything about"): (
        "Each request is hashed again, which `crtx-llm` does not check; the rest is some forty calls from "
        "Python for each file (ADR 25)."
    ),
    ("plugin", "an empty run"): (
        "It is the time to load the plugin and its settings. This run was beside other work, which makes "
        "absolute times longer."
    ),
    ("plugin", "added to a test"): (
        "More than half of it is paid once: the first marked test loads the engine, the store and the "
        "settings, and pytest walks them when it collects garbage at its end. The more tests a run has, the "
        "less that is for each."
    ),
    ("miss", "a miss explained"): (
        "Every recording is opened, read and compared, since an index of their words on disk could be stale. "
        "To open and read the files takes half of the time."
    ),
    ("miss", "  three words"): (
        "As above; and the long lines of each recording are compared, since both ends of the request differ."
    ),
    ("record", "10,000 answers"): (
        "A third of a call is httpx, which vcrpy goes through as well. Most of the rest is looking for "
        "secrets, in the request and again in the whole recording, and staging each answer as it comes, "
        "which vcrpy does not do."
    ),
    ("commit", "one answer onto 100,000 rows, with shards"): (
        "There are 256 shards at any size, so with four times the rows a shard has four times as many, and a "
        "commit reads and writes one of them."
    ),
    ("commit", "one answer onto 100,000 rows"): (
        "The tables by key of so many rows fit into no cache of a processor. A store as large as this has "
        "shards, unless it is held back for this row."
    ),
}
"""By bench and the start of a row's title."""


def why_missed(bench: str, title: str) -> str:
    """Why a row misses its goal; empty where that is not known."""
    found = [why for (of, start), why in _WHY.items() if of == bench and title.startswith(start)]
    return found[0] if found else ""
