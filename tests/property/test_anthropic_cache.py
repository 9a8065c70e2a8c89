"""Laws of Anthropic's cache: whatever is asked, and in whatever order."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from random import Random

from hypothesis import given, strategies as st

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import BlockKind, CacheBlock, CacheCall, CacheOutcome
from cortex_replay.prompt.cache.simulator import simulate, simulator_for
from cortex_replay.prompt.policy import CachePolicy
from tests.property.strategies import effort

MODEL = "claude-sonnet-4-6"
"""One that keeps thinking: where it is dropped, a question at the end changes what stands before."""
MINIMUM = 1024
KINDS: tuple[BlockKind, ...] = ("", "", "user", "tool_use", "tool_result", "thinking")
SETTINGS: tuple[dict[Place, str], ...] = (
    {},
    {Place.SYSTEM: "fast"},
    {Place.MESSAGES: "any"},
    {Place.SYSTEM: "fast", Place.MESSAGES: "any"},
)


def prompt(dice: Random) -> list[CacheBlock]:
    """Blocks from a small stock, so that prompts share starts and part; some are longer than the lookback."""
    length = dice.choice((dice.randint(1, 8), dice.randint(20, 50)))
    changed = dice.randint(0, 2 * length)
    size = dice.choice((30, 300, 1500))
    first, second = sorted((dice.randint(0, length), dice.randint(0, length)))
    kinds = dice.choices(KINDS, k=3)
    return [
        CacheBlock(
            f"block {i}",
            Place((i >= first) + (i >= second)),
            f"{i}{'!' * (i == changed)} {kinds[i % 3]} {size}",
            0 if i % 11 == 5 else size + i % 7,
            kind=kinds[i % 3],
        )
        for i in range(length)
    ]


def mark(blocks: list[CacheBlock], places: list[int], time: CachePolicy) -> tuple[CacheBlock, ...]:
    marked = {place % len(blocks) for place in places}
    return tuple(replace(block, marker=time) if i in marked else block for i, block in enumerate(blocks))


def some_places(dice: Random, most: int) -> list[int]:
    return [dice.randint(0, 60) for _ in range(dice.randint(0, most))]


def build(seed: int) -> list[CacheCall]:
    """Calls one after the other, seconds or hours apart; some begin to answer late."""
    dice = Random(seed)
    row, at = [], 0
    for _ in range(dice.randint(1, 6)):
        at += dice.choice((0, 1, 60, 299, 300, 3600))
        late = dice.choice((None, None, 0, 2, 90))
        time = dice.choice((CachePolicy.EPHEMERAL_5M, CachePolicy.EPHEMERAL_1H))
        call = CacheCall(
            provider="anthropic",
            model=MODEL,
            at=at,
            ready=None if late is None else at + late,
            blocks=mark(prompt(dice), some_places(dice, 5), time),
            settings=dice.choice(SETTINGS),
            automatic=dice.choice((CachePolicy.NONE, CachePolicy.NONE, time)),
        )
        row.append(call)
    return row


seeds = st.integers(0, 2**64)
"""A number is drawn at once, and a row of calls in a thousand steps."""
rows = seeds.map(build)


def run(row: list[CacheCall]) -> list[CacheOutcome]:
    return simulate(simulator_for("anthropic"), row)


def end_of_markers(call: CacheCall) -> int:
    """The size of the prompt up to the last marker."""
    ends = list(accumulate(block.tokens for block in call.blocks))
    marked = [i for i, block in enumerate(call.blocks) if block.marker.is_cached]
    if call.automatic.is_cached:
        marked += [i for i, block in enumerate(call.blocks) if block.kind != "thinking" and block.tokens]
    return ends[max(marked)] if marked else 0


@given(row=rows)
@effort(200)
def test_the_counts_add_up_and_reasons_are_no_larger_than_the_prompt(row: list[CacheCall]) -> None:
    for call, outcome in zip(row, run(row), strict=True):
        assert outcome.tokens == call.tokens
        assert min(outcome.read, outcome.write_5m, outcome.write_1h, outcome.fresh) >= 0
        assert all(0 < reason.tokens <= call.tokens for reason in outcome.reasons)


@given(row=rows, seed=seeds)
@effort(200)
def test_text_behind_the_last_marker_changes_nothing_that_is_read(row: list[CacheCall], seed: int) -> None:
    tail = tuple(replace(block, place=Place.MESSAGES) for block in prompt(Random(seed)))
    explicit = [replace(call, automatic=CachePolicy.NONE) for call in row]
    longer = [*explicit[:-1], replace(explicit[-1], blocks=explicit[-1].blocks + tail)]

    assert run(longer)[-1].read == run(explicit)[-1].read


@given(row=rows)
@effort(200)
def test_a_call_repeated_at_once_reads_up_to_its_last_marker(row: list[CacheCall]) -> None:
    again = replace(row[-1], ready=None)
    *_, first, second = run([*row[:-1], again, again])

    end = end_of_markers(again)
    is_refused = any(reason.why == "refused" for reason in first.reasons)
    assert second.read == (end if end >= MINIMUM and not is_refused else 0)
    assert second.write_5m == second.write_1h == 0


@given(seed=seeds)
@effort(200)
def test_more_markers_never_read_less(seed: int) -> None:
    dice = Random(seed)
    few, many, at = [], [], 0
    for _ in range(dice.randint(1, 6)):
        at += dice.choice((0, 60, 299, 300))
        blocks, places, more = prompt(dice), some_places(dice, 2), some_places(dice, 2)
        few.append(CacheCall("anthropic", MODEL, at, mark(blocks, places, CachePolicy.EPHEMERAL_5M)))
        many.append(CacheCall("anthropic", MODEL, at, mark(blocks, places + more, CachePolicy.EPHEMERAL_5M)))

    for less, outcome in zip(run(few), run(many), strict=True):
        assert outcome.read >= less.read


@given(row=rows)
@effort(100)
def test_another_model_reads_nothing(row: list[CacheCall]) -> None:
    others = [replace(call, model=f"claude-sonnet-{i}") for i, call in enumerate(row)]

    assert all(outcome.read == 0 for outcome in run(others))


@given(row=rows, shift=st.integers(0, 10**9))
@effort(100)
def test_only_equality_and_distance_count(row: list[CacheCall], shift: int) -> None:
    """Not the words of a digest, the hour of the day or the order in which settings are written."""
    other = [
        replace(
            call,
            at=call.at + shift,
            ready=None if call.ready is None else call.ready + shift,
            blocks=tuple(replace(block, digest=f"other {block.digest}") for block in call.blocks),
            settings=dict(reversed(list(call.settings.items()))),
        )
        for call in row
    ]

    assert run(other) == run(row) == run(row)


@given(row=rows)
@effort(200)
def test_a_plain_list_of_entries_gives_the_same(row: list[CacheCall]) -> None:
    """The rules once more, without a tree and without haste."""
    kept: dict[tuple[object, ...], list[float]] = {}  # a prefix: its time, its end, and when it can be read
    for call, outcome in zip(row, run(row), strict=True):
        if outcome.reasons and outcome.reasons[0].why == "refused":
            continue
        prefixes = [prefix_of(call, i) for i in range(len(call.blocks))]
        ends = list(accumulate(block.tokens for block in call.blocks))
        marks = {i: block.marker for i, block in enumerate(call.blocks) if block.marker.is_cached}
        able = [i for i, block in enumerate(call.blocks) if block.kind != "thinking" and block.tokens]
        if call.automatic.is_cached and able:
            marks[able[-1]] = call.automatic
        live = [i for i, prefix in enumerate(prefixes) if prefix in kept and is_live(kept[prefix], call.at)]
        hit = max((i for i in live for mark in marks if i <= mark and steps(call, i, mark) < 20), default=-1)
        written = [i for i in marks if i > hit and ends[i] >= MINIMUM]
        hours = [i for i in written if marks[i] is CachePolicy.EPHEMERAL_1H]
        read = ends[hit] if hit >= 0 else 0
        hour = ends[max(hours)] if hours else read
        end = ends[max(written)] if written else read
        assert (outcome.read, outcome.write_1h, outcome.write_5m) == (read, hour - read, end - hour)
        for i in live:
            if i <= hit:
                kept[prefixes[i]][1] = call.at + kept[prefixes[i]][0]
        ready = call.at if call.ready is None else call.ready
        for i, time in marks.items():
            if ends[i] >= MINIMUM and i not in live:
                seconds = 3600 if time is CachePolicy.EPHEMERAL_1H else 300
                entry = [seconds, call.at + seconds, ready]
                before = kept.get(prefixes[i])
                if before is not None and before[1] > call.at:
                    entry = [*max(before[:2], entry[:2], key=lambda pair: pair[1]), min(before[2], ready)]
                kept[prefixes[i]] = entry


def prefix_of(call: CacheCall, last: int) -> tuple[object, ...]:
    """Everything that has to be equal."""
    settings = [call.settings.get(place, "") for place in Place if place <= call.blocks[last].place]
    return (
        call.model,
        tuple((block.place, block.digest) for block in call.blocks[: last + 1]),
        tuple(settings),
    )


def is_live(entry: list[float], at: float) -> bool:
    return entry[2] <= at < entry[1]


def steps(call: CacheCall, first: int, last: int) -> int:
    """How many positions there are from one block to a later one."""
    kinds = [block.kind for block in call.blocks[first : last + 1]]
    return sum(one != two or one not in ("tool_use", "tool_result") for one, two in pairwise(kinds))
