"""The page of clients, made of what a run of the matrix found."""

# ruff: noqa: E501 - the lines of a page are long

from __future__ import annotations

from collections import Counter
from typing import Any, Final

__all__ = ["render"]

_ROADS: Final = {"process": "in process", "gateway": "gateway", "proxy": "proxy"}
_JUDGEMENTS: Final = ("recorded", "stream", "tools", "structured")

Result = dict[str, Any]


def render(found: Result) -> str:
    """The whole page."""
    clients: list[Result] = found["clients"]
    notes: list[str] = []
    rows = [_row(client, found["rounds"], notes) for client in clients]
    languages = Counter(client["language"] for client in clients)
    counted = ", ".join(f"{count} in {name}" for name, count in languages.items())
    lines = [
        "# Clients",
        "",
        "Which clients are recorded and replayed, and by which road. `make matrix` runs them and writes this page; what it found is in",
        "[clients.json](clients.json). Nothing in the table is written by hand.",
        "",
        f"Run on {found['date']} with Python {found['python']} on {found['system']}: {len(clients)} clients, {counted}.",
        "",
        "| column | what was done |",
        "|---|---|",
        "| recorded | by how many of its roads the client was recorded, of those that it was tried on |",
        f"| equal | how many of {found['rounds']} replays on each road told the same as the recording, to the byte of what the client prints; without a key, with no server |",
        "| stream, tools, structured | the same for streams, piece by piece; for calls of tools; for answers to a schema. `–`: the client has none, or the test does not ask for it |",
        "| miss | whether the client's own error says what is not recorded |",
        "| in process | `intercept()`, as in a marked test; Python only |",
        "| gateway | `record -- CMD`, `replay -- CMD`, by a base URL |",
        "| proxy | `record --proxy -- CMD`, `replay --proxy -- CMD`; the client calls its provider's own host |",
        "",
        "Servers: **llama.cpp** and **Ollama** are the real ones, with a tiny model; **scripted** is a server of ours in the shape of the provider's API,",
        "where no real one runs here. When something is recorded, hosts of providers lead to these, through a proxy and over TLS that is verified.",
        "",
        "| client | language | version | server | recorded | equal | stream | tools | structured | miss | in process | gateway | proxy |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    if found["not_run"]:
        lines += ["", f"Not run: {', '.join(f'`{name}`' for name in found['not_run'])}."]
    if notes:
        lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    return "\n".join(lines) + "\n"


def _row(client: Result, rounds: int, notes: list[str]) -> str:
    tried = [client["roads"][road] for road in _ROADS if "not_tried" not in client["roads"][road]]
    cells = [
        f"`{client['name']}`",
        client["language"],
        client["version"],
        client["server"],
        f"{sum(road['recorded'] for road in tried)} of {len(tried)}",
        _equal(tried, rounds),
        *(_mark([road[name] for road in tried]) for name in ("stream", "tools", "structured")),
        _miss(tried, rounds, notes),
        *(_road(client["roads"][road], rounds, notes) for road in _ROADS),
    ]
    return f"| {' | '.join(cells)} |"


def _equal(tried: list[Result], rounds: int) -> str:
    return f"{sum(road['equal'] for road in tried)} of {rounds * len(tried)}"


def _mark(values: list[bool | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    return "✓" if all(known) else f"{sum(known)} of {len(known)}"


def _miss(tried: list[Result], rounds: int, notes: list[str]) -> str:
    silent = [road["why"] for road in tried if _is_good(road, rounds) and not road["miss"]]
    return _mark([road["miss"] for road in tried]) + "".join(_note(why, notes) for why in silent[:1])


def _is_good(road: Result, rounds: int) -> bool:
    return road["equal"] == rounds and all(road[name] is not False for name in _JUDGEMENTS)


def _road(road: Result, rounds: int, notes: list[str]) -> str:
    if "not_tried" in road:
        return f"–{_note(road['not_tried'], notes)}"
    return "✓" if _is_good(road, rounds) else f"✗{_note(road['why'], notes)}"


def _note(text: str, notes: list[str]) -> str:
    if not text:
        return ""
    if text not in notes:
        notes.append(text)
    return f" ({notes.index(text) + 1})"
