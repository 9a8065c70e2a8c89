"""What ``verify`` says of old recordings."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay.cli import output
from cortex_replay.config.ages import age_words, parse_age
from cortex_replay.config.store_age import max_age_for
from cortex_replay.history.ages import Ages

__all__ = ["OF_SETTINGS", "age_limit", "ages_as_json", "print_ages"]

OF_SETTINGS: Final = ""
"""What ``--max-age`` is where no age follows it."""
_MOST_SHOWN: Final = 10


def age_limit(root: Path, given: str | None) -> timedelta | None:
    """From when on a recording is old: what the option says, else what is configured; ``None``: never.

    Raises:
        UsageError: The option says no age, and neither does the configuration.
    """
    if given:
        try:
            return parse_age(given)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--max-age") from None
    found = max_age_for(root, os.environ)
    if given == OF_SETTINGS and found is None:
        raise click.UsageError('say how old: --max-age 90d, or max_age = "90d" in the configuration')
    return found


def ages_as_json(ages: Ages | None) -> dict[str, Any] | None:
    """For programs."""
    if ages is None:
        return None
    return {
        "max_age": age_words(ages.max_age),
        "recordings": ages.recordings,
        "undated": ages.undated,
        "old": [{"path": one.path, "recorded_at": f"{one.moment:%Y-%m-%dT%H:%M:%SZ}"} for one in ages.old],
    }


def print_ages(ages: Ages, *, fails: bool) -> None:
    """For a person: all old ones where they fail, else the oldest."""
    lines = [f"{one.moment:%Y-%m-%d}  {output.escape(one.path)}" for one in ages.old]
    if fails:
        output.echo_lines(f"old  {line}" for line in lines)
    if ages.old:
        kind, many = "error" if fails else "warning", output.count(ages.recordings, "recording")
        output.talk(f"{kind}: {len(lines)} of {many} older than {age_words(ages.max_age)}")
        for line in [] if fails else lines[:_MOST_SHOWN]:
            output.talk(f"  {line}")
        if not fails and len(lines) > _MOST_SHOWN:
            output.talk(f"  … and {len(lines) - _MOST_SHOWN} more")
        output.talk("`cortex-replay refresh --check` says if they still hold; replay takes them as they are.")
        renew = f"cortex-replay prune --older-than {age_words(ages.max_age)}"
        output.talk(f"To record them anew: `{renew}`, and record again.")
    if ages.undated and (ages.old or fails):
        output.talk(f"{output.count(ages.undated, 'recording')} without a time, and perhaps as old")
