"""What a model answers today beside what is recorded, as documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cortex_replay.behaviour.differences import Tier
from cortex_replay.engine.ledger import Ledger
from cortex_replay.run.refresh.items import Refresh
from cortex_replay.run.refresh.outcome import Outcome
from cortex_replay.store import Answer
from cortex_replay.types import LlmRequest
from cortex_replay.view.documents.answers import compared_answer
from cortex_replay.view.documents.change import difference_documents, tier_word
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.shapes import AnswerDocument, ChangeDocument, DriftDocument, DriftItem

__all__ = ["change_in", "drift_document"]


def drift_document(
    outcome: Outcome,
    sample: dict[str, Any] | None,
    ledger: Ledger,
    question: Callable[[LlmRequest | None], str | None],
    cut: Cutter,
) -> DriftDocument:
    """A refresh for programs and for the page. Secrets are still in it.

    Args:
        outcome: What it came to.
        sample: What was chosen, in words for programs.
        ledger: What it cost.
        question: The question of a request, in one line.
        cut: Makes what was answered short and harmless.
    """
    plan, tiers = outcome.plan, outcome.tiers()
    return {
        "asked": len(outcome.asked),
        "tiers": {tier.word: tiers[tier] for tier in sorted(Tier, reverse=True)},
        "changed": [
            _item(item, number, question(item.fixture.request) or "", cut)
            for number, item in enumerate(outcome.changed, start=1)
        ],
        "written": sorted({item.written_to for item in outcome.changed if item.written_to is not None}),
        "outdated": sorted({item.written_to or item.stored.path for item in outcome.outdated}),
        "failed": [
            {**item.stored._asdict(), "message": str(item.error or item.refusal)} for item in outcome.failed
        ],
        "not_asked": [{**stored._asdict(), "reason": reason} for stored, reason in plan.skipped],
        "beyond_budget": [item.stored._asdict() for item in outcome.beyond],
        "sample": sample,
        "exchanges": plan.exchanges,
        "tools": plan.tools,
        "cached_tokens": ledger.cached_tokens,
        "money": ledger.money(),
    }


def change_in(drift: DriftDocument, now: str) -> ChangeDocument:
    """The same as the page shows a change.

    Args:
        drift: What was found.
        now: When the models were asked.
    """
    return {
        "base": "recorded",
        "head": f"asked again {now}",
        "counts": {**drift["tiers"], "added": 0, "removed": 0},
        "items": [*drift["changed"]],
        "left_out": 0,
    }


def _item(item: Refresh, number: int, title: str, cut: Cutter) -> DriftItem:
    stored = item.stored
    return {
        "id": f"drift-{number}",
        "change": "changed",
        "tier": tier_word(item.tier),
        "title": title,
        "who": stored.model,
        "key": stored.prompt_hash,
        "path": stored.path,
        "scopes": sorted(item.users),
        "why": "",
        "differences": difference_documents(item.differences),
        "before": _answers(item.fixture.answers, cut),
        "after": _answers((answer for answer, _ in item.successors), cut),
        "model": stored.model,
        "prompt_hash": stored.prompt_hash,
        "blake3": stored.blake3,
        "scope": stored.scope,
        "provider": item.target.provider,
        "samples": len(item.after),
        "is_confirmed": item.is_confirmed,
        "written_to": item.written_to,
    }


def _answers(answers: Iterable[Answer], cut: Cutter) -> list[AnswerDocument]:
    return [compared_answer(answer, cut) for answer in answers]
