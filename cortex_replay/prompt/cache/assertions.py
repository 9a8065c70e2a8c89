"""An assertion for tests: a cache reads most of the prompts that are asked one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.checks import CheckedCalls, check_reads
from cortex_replay.prompt.cache.costs import reported_outcome
from cortex_replay.prompt.cache.layout import Layouts
from cortex_replay.prompt.cache.requests import to_call
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.cache.sizes import PromptSizes
from cortex_replay.prompt.parts import Prompt, parts_of
from cortex_replay.prompt.request import to_request
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["assert_cache"]

_WIRES: Final[dict[str, Provider]] = {
    "anthropic-messages": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "ollama-chat": "llamacpp",
}
_MODELS: Final[tuple[tuple[Provider, re.Pattern[str]], ...]] = (
    ("anthropic", re.compile(r"claude")),
    ("openai", re.compile(r"(?:.*/)?(?:gpt-|chatgpt-|o\d)")),
    ("gemini", re.compile(r"(?:.*/)?gemini-")),
)


def assert_cache(
    prompts: Iterable[Prompt],
    *,
    reads_at_least: float,
    wire: str | None = None,
    model: str | None = None,
    every: float = 1.0,
    usage: Sequence[TokenUsage | None] | None = None,
    **fields: Any,
) -> None:
    """Assert that the provider's cache reads a share of all prompts but the first, by its rules.

    Nothing is sent: the cache is simulated, with nothing in it at first.

    Args:
        prompts: In the order in which they are asked, all of one kind: requests, contexts, IRs or lists of
            blocks.
        reads_at_least: The share of their tokens that is to be read, from 0 to 1.
        wire: The provider's API. Prompts that are no requests need it; of a request, the model's name says
            enough as a rule.
        model: The model that is asked, for prompts that are no requests.
        every: How many seconds one is asked after the other.
        usage: What the provider counted for each, where that is known: then sizes are no estimates.
        **fields: Further fields of the requests, as :func:`~cortex_replay.prompt.to_request` takes them.

    Raises:
        CacheMissed: Less is read. The message names the block that is to blame, and what it costs.
        TypeError: The prompts are not of one kind, or do not say what is asked.
        ValueError: There are fewer than two, or how the model is cached is not known.
    """
    __tracebackhide__ = True
    if every < 0:
        raise ValueError(f"every is a number of seconds from 0, not {every!r}")
    requests = _requests(list(prompts), wire, model, fields)
    counts = [None] * len(requests) if usage is None else list(usage)
    if len(counts) != len(requests):
        raise ValueError(f"expected a usage for each of {len(requests)} prompts, not {len(counts)}")
    layouts, sizes = Layouts(), PromptSizes()
    providers = [_provider(request.model, wire) for request in requests]
    traced = [
        sizes.trace(provider, request.model, layouts.lay_out(request), counted)
        for request, provider, counted in zip(requests, providers, counts, strict=True)
    ]
    calls = []
    for i, (request, provider, prompt) in enumerate(zip(requests, providers, traced, strict=True)):
        sized = sizes.measure(prompt)
        calls.append(
            to_call(request, provider, sized.blocks, layouts, is_estimate=not sized.is_counted, at=i * every)
        )
    reported = [reported_outcome(counted) for counted in counts]
    check_reads(
        CheckedCalls(calls, simulate_run(calls, layouts.text_of), layouts.text_of, reported), reads_at_least
    )


def _requests(
    prompts: Sequence[Prompt], wire: str | None, model: str | None, fields: dict[str, Any]
) -> list[LlmRequest]:
    kinds = {parts_of(prompt).kind for prompt in prompts}
    if len(kinds) > 1:
        raise TypeError(f"expected prompts of one kind, not {' and '.join(sorted(kinds))}")
    if kinds <= {"request"}:
        if model is not None or fields:
            given = ", ".join(["model"] * (model is not None) + list(fields))
            raise TypeError(f"a request says everything itself: leave out {given}")
        return [prompt for prompt in prompts if isinstance(prompt, LlmRequest)]
    if wire is None or model is None:
        raise TypeError("say how they are asked: assert_cache(…, wire='anthropic-messages', model='…')")
    return [
        to_request(prompt, wire=wire, model=model, **fields)
        for prompt in prompts
        if not isinstance(prompt, LlmRequest)
    ]


def _provider(model: str, wire: str | None) -> Provider:
    for provider, pattern in _MODELS:
        if wire is None and pattern.search(model.lower()):
            return provider
    if wire is None:
        raise ValueError(
            f"how {model!r} is cached is not known: name the provider's API, such as wire='ollama-chat'"
        )
    if wire not in _WIRES:
        raise ValueError(f"expected one of the wires {', '.join(_WIRES)}, not {wire!r}")
    return _WIRES[wire]
