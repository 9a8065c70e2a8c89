"""Finding a program of the user's: never one that a repository puts in its place."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["find_program"]


def find_program(name: str, away_from: Path) -> str | None:
    """Where a program is, by PATH, or ``None``.

    Never one that lies in this folder because an entry of PATH is relative (or because the platform looks
    here first), and one in the work tree only where there is no other.

    Args:
        name: Of the program, without what Windows adds.
        away_from: The top of the work tree.
    """
    file = f"{name}.exe" if os.name == "nt" else name
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [
        program
        for program in (os.path.join(entry, file) for entry in entries if os.path.isabs(entry))  # noqa: PTH117, PTH118
        if os.path.isfile(program) and os.access(program, os.X_OK)  # noqa: PTH113
    ]
    away = (one for one in found if not Path(one).resolve().is_relative_to(away_from))
    return next(away, found[0] if found else None)
