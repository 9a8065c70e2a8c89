"""What has drifted, in words for a person: on a terminal, and in the summary of a GitHub job."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import click

from cortex_replay.behaviour.differences import Tier
from cortex_replay.cli import output
from cortex_replay.cli.change_text import plain_sentence, sentence
from cortex_replay.cli.questions import question_of, shorten
from cortex_replay.engine.ledger import Ledger
from cortex_replay.run.refresh.items import Plan, Refresh
from cortex_replay.run.refresh.outcome import Outcome
from cortex_replay.run.step_summary import write_step_summary

__all__ = ["print_drift", "print_end", "summarise_drift", "tier_counts"]

_MOST_NAMED: Final = 3
"""Of the recordings that cannot be asked for one reason; ``--json`` names all."""
_MOST_TOLD: Final = 20
"""Of the differences of one recording."""
_LONGEST: Final = 100
_HASH_SHOWN: Final = 8
_WIDTH: Final = 9
"""Of the longest name of a tier."""
_COUNTED: Final = {
    Tier.CONTRACT: ("broken contract", "broken contracts"),
    Tier.BEHAVIOUR: ("changed behaviour", "changed behaviours"),
    Tier.WORDS: ("only reworded", "only reworded"),
}


def print_drift(outcome: Outcome, *, words: bool, raw: bool) -> None:
    """Say of each recording in what it has drifted, the most important first.

    Args:
        outcome: What was found.
        words: Whether rewordings are shown as well, or only counted.
        raw: Whether recorded texts are printed as they are.
    """
    least = Tier.SAME if words else Tier.BEHAVIOUR
    for item in outcome.drifted(least):
        output.echo("\n".join(_lines(item, words=words, raw=raw)), raw=raw)
    if not words and (folded := outcome.tiers()[Tier.WORDS]):
        name = click.style(Tier.WORDS.word.ljust(_WIDTH), bold=True)
        output.echo(f"{name}  {output.count(folded, 'recording')} only reworded (--words shows them)")


def _lines(item: Refresh, *, words: bool, raw: bool) -> Iterator[str]:
    name = click.style(item.tier.word.ljust(_WIDTH), bold=True, fg="red" if item.tier > Tier.WORDS else None)
    stored = item.stored
    short = click.style(f"({stored.prompt_hash[:_HASH_SHOWN]})", dim=True)
    parts = [name, output.escape(stored.model), _question(item), short, output.escape(stored.path)]
    of = f"  of {output.escape(output.redact(stored.scope))}" if stored.scope else ""
    yield "  ".join(filter(None, parts)) + of
    sentences = [sentence(one) for one in item.differences if one.tier > Tier.WORDS]
    yield from (f"{' ' * _WIDTH}  {text}" for text in _first(sentences))
    if not item.is_confirmed:
        yield f"{' ' * _WIDTH}  not confirmed, since the budget is spent; it may be noise"
    if words:
        yield from _texts(item, raw=raw)


def _texts(item: Refresh, *, raw: bool) -> Iterator[str]:
    """What the answers say, then and now."""
    answers = item.fixture.answers
    for number, (before, (after, _)) in enumerate(zip(answers, item.successors, strict=False), start=1):
        if before.text == after.text:
            continue
        if len(answers) > 1:
            yield f"answer {number}"
        lines = difflib.unified_diff(
            before.text.splitlines(), after.text.splitlines(), "recorded", "now", lineterm=""
        )
        yield from (output.quote(line, raw=raw) for line in lines)


def _question(item: Refresh) -> str:
    question = question_of(item.fixture.request)
    return f'"{output.escape(shorten(question, _LONGEST))}"' if question else ""


def _first(texts: list[str]) -> list[str]:
    """Some of many texts, and how many more there are."""
    more = len(texts) - _MOST_TOLD
    return texts if more <= 0 else [*texts[:_MOST_TOLD], f"and {more} more; --json lists them"]


def tier_counts(items: Iterable[Refresh]) -> list[str]:
    """How many have drifted how much: ``2 broken contracts``; nothing where nothing has."""
    tiers = Counter(item.tier for item in items)
    return [f"{tiers[tier]} {forms[tiers[tier] != 1]}" for tier, forms in _COUNTED.items() if tiers[tier]]


def print_end(outcome: Outcome, ledger: Ledger, *, is_check: bool) -> None:
    """Say what failed, what was not asked and why, and how much there was of everything."""
    for item in outcome.failed:
        output.talk(f"{output.escape(item.stored.path)}: {_failure(item)}")
    _print_skipped(outcome.plan)
    if outdated := outcome.outdated:
        many = output.count(outdated, "recording")
        output.talk(
            f"warning: later turns go on from an answer that was replaced ({many}), so a replay will ask "
            "something else there. Record the program again"
        )
    if is_check and (counts := tier_counts(outcome.changed)):
        output.echo(f"drift: {', '.join(counts)}")
    differ = f"{len(outcome.changed)} differ" if is_check else f"{len(outcome.written)} replaced"
    facts = [
        f"{len(outcome.asked)} asked again",
        differ,
        f"{len(outcome.failed)} failed",
        f"{len(outcome.plan.skipped)} not asked",
    ]
    if outcome.beyond:
        facts.append(f"{len(outcome.beyond)} beyond the budget")
    output.echo(", ".join([*facts, *map(output.escape, ledger.cost_facts())]))


def _failure(item: Refresh) -> str:
    """Why it failed; and in what an answer differs that did come, though that is not confirmed."""
    reason = output.escape(str(item.error or item.refusal))
    if item.error is None or not item.differences:
        return reason
    return f"{reason}; what came before that differs: {sentence(item.differences[0])}"


def _print_skipped(plan: Plan) -> None:
    """Each reason once, with some of the recordings that it is true of."""
    for reason, count in Counter(reason for _, reason in plan.skipped).items():
        paths = [stored.path for stored, other in plan.skipped if other == reason]
        named = ", ".join(map(output.escape, paths[:_MOST_NAMED]))
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        output.talk(f"not asked: {named}{more}: {output.escape(reason)}")
    if plan.exchanges:
        many = output.count(plan.exchanges, "exchange")
        output.talk(f"not asked: {many}: embeddings, lists of models and the like stay as they were recorded")
    if plan.tools:
        many = output.count(plan.tools, "call")
        output.talk(
            f"not asked: {many} to MCP servers: a tool may do something each time. To record them again, "
            "run what calls them in mode record"
        )


def summarise_drift(outcome: Outcome, ledger: Ledger, *, least: Tier) -> None:
    """Write a table in the summary of a GitHub job, and what has drifted so much that the job fails."""
    tiers = outcome.tiers()
    rows: Mapping[str, object] = {
        "asked again": len(outcome.asked),
        **{forms[1]: tiers[tier] for tier, forms in _COUNTED.items()},
        "failed": len(outcome.failed),
        "not asked": len(outcome.plan.skipped),
        **({"not chosen": len(outcome.choice.left)} if outcome.is_sampled else {}),
        **({"beyond the budget": len(outcome.beyond)} if outcome.beyond else {}),
        **({"written": len(outcome.written)} if outcome.written else {}),
        **ledger.cost_rows(),
    }
    texts = ("\n".join(_summary(item)) for item in outcome.drifted(least))
    write_step_summary(os.environ, "cortex-replay refresh", rows, texts)


def _summary(item: Refresh) -> Iterator[str]:
    yield "  ".join(filter(None, [item.tier.word, item.stored.model, question_of(item.fixture.request)]))
    yield item.stored.path
    yield from (f"  {text}" for text in _first([plain_sentence(one) for one in item.differences]))
