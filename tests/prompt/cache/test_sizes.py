"""Sizes from counts."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given, settings, strategies as st

from cortex_replay.prompt.cache.calls import CacheBlock
from cortex_replay.prompt.cache.layout import Layout, Layouts
from cortex_replay.prompt.cache.sizes import PromptSizes, SizedPrompt
from cortex_replay.types import CacheMark, LlmRequest, PromptCachePlan, TokenUsage

MODEL = "claude-sonnet-4-5"


def layout_of(*texts: str, marks: tuple[int, ...] = ()) -> Layout:
    plan = PromptCachePlan(marks=tuple(CacheMark("message", i) for i in marks))
    messages = [{"role": "user", "content": text} for text in texts]
    return Layouts().lay_out(LlmRequest(MODEL, messages=messages, cache=plan))


def measure(*calls: tuple[Layout, TokenUsage | None]) -> list[SizedPrompt]:
    run = PromptSizes()
    traced = [run.trace("anthropic", MODEL, layout, usage) for layout, usage in calls]
    return [run.measure(prompt) for prompt in traced]


def sizes(prompt: SizedPrompt) -> list[int]:
    return [block.tokens for block in prompt.blocks]


def test_a_prompt_that_was_counted_is_the_start_of_a_longer_one() -> None:
    short, long = measure(
        (layout_of("a" * 400, "b" * 400), TokenUsage(70, 1)),
        (layout_of("a" * 400, "b" * 400, "c" * 40), TokenUsage(90, 1)),
    )

    assert sizes(short) == [35, 35]
    assert sizes(long) == [35, 35, 20]  # by bytes alone it would be 43, 43, 4
    assert long.ends == {0, 70, 90}
    assert long.is_counted


def test_the_longer_prompt_may_have_been_asked_first() -> None:
    long, _ = measure(
        (layout_of("a" * 400, "c" * 40), TokenUsage(90, 1)), (layout_of("a" * 400), TokenUsage(70, 1))
    )

    assert sizes(long) == [70, 20]


def test_what_was_written_is_the_size_up_to_the_last_marker() -> None:
    prompt, later = measure(
        (layout_of("a" * 400, "b" * 400, marks=(0,)), TokenUsage(300, 1, 0, 250)),
        (layout_of("a" * 400, "z" * 80), None),
    )

    assert sizes(prompt) == [250, 50]
    assert sizes(later) == [250, 20]
    assert not later.is_counted
    assert later.ends == {0, 250}


def test_what_was_read_and_written_reaches_to_the_last_marker() -> None:
    _, second = measure(
        (layout_of("a" * 400, marks=(0,)), TokenUsage(100, 1, 0, 100)),
        (layout_of("a" * 400, "b" * 400, "c" * 40, marks=(1,)), TokenUsage(330, 1, 100, 110)),
    )

    assert sizes(second) == [100, 110, 120]


def test_what_was_read_is_the_size_of_what_was_written_before() -> None:
    """Two conversations with one system prompt: the second says how large that is."""
    first, second = measure(
        (layout_of("a" * 400, "b" * 400, marks=(0, 1)), TokenUsage(300, 1, 0, 300)),
        (layout_of("a" * 400, "c" * 400, marks=(0, 1)), TokenUsage(320, 1, 210, 110)),
    )

    assert sizes(first) == [210, 90]
    assert sizes(second) == [210, 110]


def test_what_was_read_is_told_from_what_had_gone() -> None:
    """Of two prefixes that were written, the one of that size was read."""
    texts = ["a" * 4000, "b" * 4000]
    prompts = measure(
        (layout_of(*texts, marks=(0, 1)), TokenUsage(2000, 1, 0, 2000)),
        (layout_of(*texts, "c" * 400, marks=(0, 2)), TokenUsage(2100, 1, 990, 1110)),
    )

    assert sizes(prompts[1])[0] == 990


def test_the_last_tokens_of_a_prompt_are_not_part_of_what_is_cached() -> None:
    """Anthropic counts a few behind a marker on the last block; what is read later is without them."""
    first, second = measure(
        (layout_of("a" * 400, marks=(0,)), TokenUsage(104, 1, 0, 100)),
        (layout_of("a" * 400, "b" * 400, marks=(1,)), TokenUsage(204, 1, 100, 100)),
    )

    assert sizes(first) == [104]
    assert sizes(second) == [100, 104]


def test_a_longer_prompt_that_counts_less_is_believed() -> None:
    """The thinking of earlier turns is dropped."""
    short, long, longer = measure(
        (layout_of("a" * 400, "b" * 400), TokenUsage(300, 1)),
        (layout_of("a" * 400, "b" * 400, "c" * 400), TokenUsage(240, 1)),
        (layout_of("a" * 400, "b" * 400, "c" * 400, "d" * 4), TokenUsage(250, 1)),
    )

    assert sizes(short) == [150, 150]
    assert sizes(long) == [80, 80, 80]
    assert sizes(longer) == [80, 80, 80, 10]


def test_without_a_count_sizes_are_estimates() -> None:
    (prompt,) = measure((layout_of("a" * 400, "b" * 41), None))

    assert sizes(prompt) == [100, 11]
    assert not prompt.is_counted
    assert prompt.ends == {0}
    assert measure((layout_of(), TokenUsage(7, 1)))[0].blocks == ()
    assert sizes(measure((layout_of("a" * 400), TokenUsage(0, 1)))[0]) == [100]


def test_counts_of_another_model_say_nothing() -> None:
    run = PromptSizes()
    run.trace("anthropic", "another", layout_of("a" * 400), TokenUsage(70, 1))
    prompt = run.trace("anthropic", MODEL, layout_of("a" * 400, "b" * 400), TokenUsage(200, 1))

    assert sizes(run.measure(prompt)) == [100, 100]


def test_counts_that_cannot_be_are_not_used() -> None:
    (prompt,) = measure((layout_of("a" * 400, "b" * 400, marks=(0,)), TokenUsage(100, 1, 900, 900)))

    assert sizes(prompt) == [50, 50]


_TEXTS = st.lists(st.sampled_from(["a", "bb" * 50, "c" * 1000, "dé" * 30]), max_size=6)
_COUNTS = st.one_of(
    st.none(),
    st.builds(
        TokenUsage,
        st.integers(0, 900),
        st.just(1),
        st.one_of(st.none(), st.integers(0, 900)),
        st.one_of(st.none(), st.integers(0, 900)),
    ),
)
_CALLS = st.lists(st.tuples(_TEXTS, st.sets(st.integers(0, 5), max_size=4), _COUNTS), max_size=7)


@settings(max_examples=60)
@given(_CALLS)
def test_sizes_add_up_to_the_count_and_are_never_negative(
    calls: list[tuple[list[str], set[int], TokenUsage | None]],
) -> None:
    """Whatever the provider says: also if it contradicts itself."""
    made = [(layout_of(*texts, marks=tuple(marks)), usage) for texts, marks, usage in calls]
    for (layout, usage), prompt in zip(made, measure(*made), strict=True):
        assert [block.digest for block in prompt.blocks] == [row.digest for row in layout.rows]
        assert all(size >= 0 for size in sizes(prompt))
        assert prompt.tokens == sum(sizes(prompt))
        if usage is not None and usage.prompt_tokens and layout.rows:
            assert prompt.is_counted
            assert sum(sizes(prompt)) == usage.prompt_tokens
        assert {i: b.marker for i, b in enumerate(prompt.blocks) if b.marker.is_cached} == layout.markers
        assert prompt.ends <= {0, *accumulate(sizes(prompt))}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["a" * 40, "b" * 400]), min_size=1, max_size=8), st.data())
def test_true_counts_are_found_again(texts: list[str], data: st.DataObject) -> None:
    """Counts of every prefix make every size exact, in whatever order they come."""
    true = data.draw(st.lists(st.integers(1, 500), min_size=len(texts), max_size=len(texts)))
    order = data.draw(st.permutations(range(1, len(texts) + 1)))
    calls = [(layout_of(*texts[:end]), TokenUsage(sum(true[:end]), 1)) for end in order]

    for end, prompt in zip(order, measure(*calls), strict=True):
        assert sizes(prompt) == true[:end]


def test_blocks_that_prompts_share_are_one_value() -> None:
    """So that a long run costs what is new in it."""
    texts = [str(i) * 100 for i in range(6)]
    prompts = measure(*((layout_of(*texts[:end]), TokenUsage(end * 50, 1)) for end in range(1, 7)))

    shared: list[CacheBlock] = list(prompts[4].blocks[:3])
    assert all(one is other for one, other in zip(shared, prompts[5].blocks, strict=False))


def test_what_was_written_for_an_hour_is_the_size_up_to_the_last_such_marker() -> None:
    plan = PromptCachePlan(marks=(CacheMark("message", 0, "1h"), CacheMark("message", 2, "5m")))
    messages = [{"role": "user", "content": text * 400} for text in "abc"]
    layout = Layouts().lay_out(LlmRequest(MODEL, messages=messages, cache=plan))

    (prompt,) = measure((layout, TokenUsage(300, 1, 0, 300, 220)))

    assert sizes(prompt) == [220, 40, 40]
    assert prompt.ends == {0, 220, 300}


def test_what_a_prompt_says_of_itself_counts_for_it() -> None:
    """Thinking within: the provider has dropped some of it when the same start is asked again."""
    texts = ["a" * 400, "b" * 400, "c" * 400]
    first, second, third = measure(
        (layout_of(*texts[:2], marks=(1,)), TokenUsage(300, 1, 0, 300)),
        (layout_of(*texts, marks=(1,)), TokenUsage(350, 1, 0, 250)),
        (layout_of(*texts, "d" * 40), TokenUsage(360, 1)),
    )

    assert sizes(first) == [150, 150]
    assert sizes(second) == [125, 125, 100]
    assert sizes(third) == [125, 125, 100, 10]  # as it was counted last
