"""What a test asked and got, for its assertions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from cortex_replay.engine.money import PriceList
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.mcp.scripts import is_script
from cortex_replay.pytest_plugin.recorded_call import RecordedCall
from cortex_replay.pytest_plugin.terminal import shown
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest, ToolCall

__all__ = ["LlmRecording"]


@dataclass(repr=False)
class LlmRecording:
    """The calls of a test, in the order in which they were answered."""

    calls: list[RecordedCall] = field(default_factory=list)
    prices: PriceList = field(default_factory=PriceList)
    is_replay: bool = True
    """Whether calls are only replayed, so that one without an answer is a miss."""
    clean: Callable[[str], str] = str
    """What a text of a prompt passes before it is shown."""

    def __repr__(self) -> str:
        """Without the prompts: pytest shows the fixtures of a test that fails."""
        return f"<LlmRecording of {len(self.calls)} calls>"

    def observe(self, ask: Callable[[], LlmRequest | None], outcome: Outcome | None) -> None:
        """Note a call and what it got. What MCP servers were asked is no call to a model."""
        if isinstance(outcome, Exchange) and is_script(outcome.wire):
            return
        request = ask()
        if isinstance(outcome, Answer):
            call = RecordedCall(
                request,
                outcome.text,
                outcome.tool_calls,
                outcome.usage,
                outcome.finish_reason,
                answer=outcome,
            )
        else:
            call = RecordedCall(request, is_answered=outcome is not None and request is None)
        self.calls.append(call)

    @property
    def requests(self) -> list[LlmRequest]:
        return [call.request for call in self.calls if call.request is not None]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every tool call that a model made."""
        return [tool for call in self.calls for tool in call.tool_calls]

    @property
    def tokens(self) -> int:
        """What the providers counted, prompts and answers together."""
        counted = [call.usage for call in self.calls if call.usage is not None]
        return sum(usage.prompt_tokens + usage.completion_tokens for usage in counted)

    def assert_cache(self, reads_at_least: float) -> None:
        """Assert that the provider's cache reads a share of all prompts of this test but the first.

        The cache is simulated, with nothing in it at first.

        Args:
            reads_at_least: The share of their tokens, from 0 to 1.

        Raises:
            CacheMissed: Less is read. The message names the block that is to blame, and what it costs.
            ValueError: The test made fewer than two calls, or how a model is cached is not known.
        """
        __tracebackhide__ = True
        from cortex_replay.prompt.cache.checks import check_reads  # noqa: PLC0415 - few tests ask
        from cortex_replay.pytest_plugin.cache_calls import replay_test  # noqa: PLC0415

        with self._clean_message():
            check_reads(replay_test(self.calls, self.clean, is_replay=self.is_replay), reads_at_least)

    def assert_cache_cost(
        self, at_most: float | Decimal, *, unit: Literal["money", "tokens"] = "money"
    ) -> None:
        """Assert that the prompts of this test cost no more than an amount, with what the cache saves.

        The cache is simulated, with nothing in it at first. What answers cost does not count.

        Args:
            at_most: The amount.
            unit: ``money`` at the configured prices, or ``tokens``: what as many fresh input tokens cost.

        Raises:
            CacheCostExceeded: They cost more. The message names the block that is to blame.
            ValueError: A price is missing, or how a model is cached is not known.
        """
        __tracebackhide__ = True
        from cortex_replay.prompt.cache.checks import check_cost  # noqa: PLC0415 - few tests ask
        from cortex_replay.pytest_plugin.cache_calls import replay_test, tariff_for  # noqa: PLC0415

        checked = replay_test(self.calls, self.clean, is_replay=self.is_replay)
        with self._clean_message():
            check_cost(checked, tariff_for(checked, self.prices, unit), Fraction(str(at_most)))

    @contextmanager
    def _clean_message(self) -> Iterator[None]:
        """Take secrets, and what steers a terminal or a CI job, out of what an assertion says."""
        __tracebackhide__ = True
        try:
            yield
        except AssertionError as error:
            error.args = (shown(self.clean(str(error))),)
            raise

    def assert_prefix_stable(self) -> None:
        """Assert that each prompt begins with the one before it, as providers' caches need it.

        Raises:
            PrefixChanged: One does not. The message says what changed.
        """
        __tracebackhide__ = True
        from cortex_replay.prompt.prefix import PrefixChanged, hold_prefix  # noqa: PLC0415 - few tests ask

        def clean(text: str) -> str:
            return shown(self.clean(text))

        for previous, current in pairwise(self.requests):
            if previous.model == current.model:
                try:
                    hold_prefix(previous, current, self.clean)
                except PrefixChanged as error:
                    change, diff = clean(error.change), clean(error.diff)
                    raise PrefixChanged(clean(error.part), change, diff, error.tokens, error.advice) from None
