"""``docs/proof.md``, made of the published figures and of nothing else that can change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from textwrap import fill
from typing import Final

from integration.proof.figures import Number, Proof, Proven, Row

__all__ = ["page", "shown"]

_WIDTH: Final = 110
_TOP: Final = """\
<!-- Made by `make proof` from proof.json. Edit the code in integration/proof/ instead. -->

# Proof

What happens to recordings when something goes wrong, counted in runs of our own, and beside it what the same
test does to other programs. `make proof` runs all of it again on your machine and writes this page;
`python -m integration.proof --only NAME` runs one part. Every row says how many cases it had.

Others are tested as their documentation says to use them. Most of them do not promise what is tested here:
a row shows what you get, not a bug.
"""


def page(proofs: Mapping[str, Proven], known: Iterable[Proof]) -> str:
    """The page that shows these figures."""
    return "\n".join(
        [
            _TOP,
            *(line for proof in known if proof.name in proofs for line in _part(proof, proofs[proof.name])),
        ]
    )


def _part(proof: Proof, proven: Proven) -> Iterator[str]:
    yield f"## {proof.title}\n"
    yield f"{fill(proof.about, _WIDTH)}\n"
    columns = list(dict.fromkeys(name for row in proven.rows for name in row.results))
    yield f"| test | program | {proof.case} | {' | '.join(columns)} |"
    yield f"|---|---|--:|{'--:|' * len(columns)}"
    yield from (_line(row, columns) for row in proven.rows)
    yield ""
    if notes := [f"- {note}" for row in proven.rows for note in row.notes]:
        yield "\n".join([*notes, ""])
    seed = "" if proven.seed is None else f", seed {proven.seed}"
    yield (
        f"Run on {proven.date} at commit {proven.commit} in {proven.seconds} s{seed}, on {proven.machine}: "
        f"`{proven.command}`\n"
    )


def _line(row: Row, columns: Iterable[str]) -> str:
    cells = [shown(row.results[name]) if name in row.results else "" for name in columns]
    return f"| {row.what} | {row.who} | {shown(row.cases)} | {' | '.join(cells)} |"


def shown(number: Number) -> str:
    """A number as a reader sees it."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"
