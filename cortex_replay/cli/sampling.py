"""The options that choose a sample of recordings, and what is said of it."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import click

from cortex_replay.cli import options, output
from cortex_replay.run import Run
from cortex_replay.run.refresh.choosing import Choice, Order, Share, choose
from cortex_replay.run.refresh.items import Plan
from cortex_replay.store.prune import count_used

__all__ = ["Sampling", "sample_options"]

_WORDS: Final = {
    Order.AGE: "the oldest first",
    Order.USE: "the most used first",
    Order.MONEY: "the most expensive first",
    Order.RANDOM: "at random",
}
_MOST_SEEDS: Final = 10**6

sample_options = options.option_group(
    click.option("--sample", metavar="N|P%", help="Ask only this many: 20, or 10%.  [default: all]"),
    click.option(
        "--by",
        type=click.Choice([order.value for order in Order]),
        help="Which come first, also where a budget ends it.  [default with --sample: age]",
    ),
    click.option("--seed", type=click.IntRange(0), help="Of --by random, to get the same ones again."),
    click.option(
        "--used-from",
        "reports",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With --by use: a report of a run, which says what it used. Repeatable.",
    ),
)


class Sampling:
    """What the options say.

    Args:
        flags: The values of all options; those of a sample are taken out.

    Raises:
        click.UsageError: They do not go together, or a report is none.
    """

    def __init__(self, flags: MutableMapping[str, Any]) -> None:
        sample, by, seed, reports = (flags.pop(name) for name in ("sample", "by", "seed", "reports"))
        try:
            self.share = None if sample is None else Share.parse(sample)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--sample") from None
        self.order = Order(by) if by else Order.AGE if sample is not None else None
        if seed is not None and self.order is not Order.RANDOM:
            raise click.UsageError("--seed goes with --by random")
        if reports and self.order is not Order.USE:
            raise click.UsageError("--used-from goes with --by use")
        self.seed = SystemRandom().randrange(_MOST_SEEDS) if seed is None else seed
        try:
            self._used = count_used(report.read_bytes() for report in reports)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--used-from") from None

    @property
    def is_given(self) -> bool:
        """Whether something was chosen, so that what a budget leaves out is no failure."""
        return self.order is not None

    def choose(self, run: Run, plan: Plan) -> Choice:
        """Choose among what can be asked."""
        return choose(
            plan.items, self.share, self.order, seed=self.seed, prices=run.ledger.prices, used=self._used
        )

    def tell(self, choice: Choice) -> None:
        """Say what was chosen, and what not."""
        if self.order is None:
            return
        total = len(choice.items) + len(choice.left)
        seed = f" (--seed {self.seed})" if self.order is Order.RANDOM else ""
        output.talk(
            f"chosen: {len(choice.items)} of {output.count(total, 'recording')}, {_WORDS[self.order]}{seed}"
        )
        if choice.unpriced:
            names = ", ".join(map(output.escape, sorted(choice.unpriced)))
            output.talk(f"no price for {names}: they come behind what has one, by their tokens")

    def to_dict(self, choice: Choice) -> dict[str, Any] | None:
        """The same for a program; ``None`` where nothing was chosen."""
        if self.order is None:
            return None
        return {
            "sample": None if self.share is None else str(self.share),
            "by": self.order.value,
            "seed": self.seed if self.order is Order.RANDOM else None,
            "not_chosen": [item.stored._asdict() for item in choice.left],
        }
