"""Answers to one key that come one by one: each is staged once, and none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import Answer, Fixture, Store
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.fixture_json import RenderedFixture
from cortex_replay.store.growing import Growing
from cortex_replay.testing import ScriptedAdapter
from tests.builder import ask
from tests.engine.counting import run

REQUEST = ask("Say something.")
SECRET = "sk-ant-api03-" + "Zx81kQ" * 5


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "llm")


def saying(*texts: str) -> ScriptedAdapter:
    """Says one after the other, whatever it is asked."""
    following = iter(texts)
    return ScriptedAdapter(lambda _: next(following))


def staged_files(store: Store) -> list[Path]:
    return sorted(path for path in store.root.glob(".cortex-replay/staging/*/*") if path.name != "owner")


def record(root: Path, *texts: str, mode: Mode = Mode.ONCE) -> None:
    """Ask once for each text, and commit."""

    async def main() -> None:
        async with RecordingAdapter(saying(*texts), root, mode, redactor=Redactor()) as recorder:
            for _ in texts:
                await recorder.complete(REQUEST)

    run(main())


def texts(store: Store) -> list[str]:
    return [answer.text for answer in store.get(*store.key(REQUEST)).answers]


def begin(store: Store, *said: str, overwrite: bool = False) -> Growing:
    fixture = Fixture.of(REQUEST, *said)
    return store.begin(RenderedFixture.of(fixture), overwrite=overwrite, keep_existing=not overwrite)


def grow(store: Store, staged: Growing, place: int, text: str) -> bool:
    key = store.key(REQUEST)
    return store.grow(
        staged, place, RenderedFixture.of(Fixture(key, (Answer(text),), None, {"place": place}))
    )


def test_each_answer_is_staged_once(store: Store) -> None:
    """What is staged grows with the answers, not with their square."""
    said = [f"{number:03}" + "x" * 500 for number in range(40)]

    async def main() -> int:
        recorder = RecordingAdapter(saying(*said), store, redactor=Redactor(), commit_on_close=False)
        async with recorder:
            for _ in said:
                await recorder.complete(REQUEST)
        return sum(path.stat().st_size for path in staged_files(store))

    assert run(main()) < 3 * 1000 * len(said)
    store.commit()

    assert texts(Store.open(store.root)) == said
    assert staged_files(store) == []


def test_every_answer_says_where_it_comes_from(store: Store) -> None:
    record(store.root, "one", "two", "three")

    fixture = Store.open(store.root).get(*store.key(REQUEST))

    assert (fixture.meta or {})["adapter"] == "scripted"
    assert [(answer.meta or {}).get("adapter") for answer in fixture.answers[1:]] == ["scripted", "scripted"]


def test_what_a_run_that_died_had_staged_is_adopted_whole(store: Store) -> None:
    staged = begin(store, "one")
    assert [grow(store, staged, place, text) for place, text in ((2, "two"), (3, "three"))] == [True, True]
    store.abandon()

    heir = Store.open(store.root)
    assert heir.abandoned().answers == 3
    assert heir.adopt_abandoned() == 3
    heir.commit()

    assert texts(Store.open(store.root)) == ["one", "two", "three"]
    assert heir.abandoned().answers == 0


def test_an_heir_that_dies_too_hands_all_of_it_on(store: Store) -> None:
    staged = begin(store, "one")
    grow(store, staged, 2, "two")
    store.abandon()
    heir = Store.open(store.root)
    heir.add(Fixture.of(ask("Something else."), "so that files get other numbers"))
    heir.adopt_abandoned()
    heir.abandon()

    last = Store.open(store.root)
    last.adopt_abandoned()
    last.commit()

    assert texts(Store.open(store.root)) == ["one", "two"]


def test_a_sequence_ends_before_an_answer_that_was_lost(store: Store) -> None:
    """The fourth must not become the third."""
    staged = begin(store, "one")
    for place, text in ((2, "two"), (3, "three"), (4, "four")):
        grow(store, staged, place, text)
    store.abandon()
    [lost] = [path for path in staged_files(store) if path.name.endswith("-3")]
    lost.unlink()

    heir = Store.open(store.root)
    assert heir.adopt_abandoned() == 2
    heir.commit()

    assert texts(Store.open(store.root)) == ["one", "two"]


def test_a_further_answer_that_was_changed_is_not_adopted(store: Store) -> None:
    staged = begin(store, "one")
    grow(store, staged, 2, "two")
    store.abandon()
    [further] = [path for path in staged_files(store) if path.name.endswith("-2")]
    further.write_bytes(further.read_bytes().replace(b"two", b"2wo"))

    heir = Store.open(store.root)
    heir.adopt_abandoned()
    heir.commit()

    assert texts(Store.open(store.root)) == ["one"]


def test_a_further_answer_without_its_fixture_is_nobodys(store: Store) -> None:
    staged = begin(store, "one")
    grow(store, staged, 2, "two")
    store.abandon()
    [first] = [path for path in staged_files(store) if path.name.endswith(".add")]
    first.unlink()

    heir = Store.open(store.root)
    assert heir.adopt_abandoned() == 0
    heir.commit()

    assert len(Store.open(store.root)) == 0


@pytest.mark.parametrize("how", ["commit", "discard", "abandon", "remove", "elsewhere"])
def test_what_does_not_wait_any_more_gets_no_answers(how: str, store: Store) -> None:
    key = store.key(REQUEST)
    store.add(Fixture.of(REQUEST, "one"))
    store.commit()
    staged = begin(store, "1", overwrite=True)
    match how:
        case "commit":
            store.commit()
        case "discard":
            store.discard()
        case "abandon":
            store.abandon()
        case "remove":
            store.remove(*key)
        case _:
            store = store.branch()

    assert not store.is_staged(staged)
    assert not grow(store, staged, 2, "2")


@pytest.mark.parametrize("place", [0, 1, 3])
def test_an_answer_that_is_not_the_next_is_not_taken(place: int, store: Store) -> None:
    assert not grow(store, begin(store, "one"), place, "another")


def test_the_next_answer_comes_after_the_last_that_came(store: Store) -> None:
    staged = begin(store, "one", "old two", "old three")

    assert grow(store, staged, 2, "two")
    assert not grow(store, staged, 2, "two again")
    assert not grow(store, staged, 4, "four")
    store.commit()

    assert texts(Store.open(store.root)) == ["one", "two", "old three"]


def test_a_commit_that_failed_can_be_tried_again_with_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = begin(store, "one")
    grow(store, staged, 2, "two")
    with monkeypatch.context() as patch:
        patch.setattr("cortex_replay.store.lock.LockedStore.put_index", _refuse)
        with pytest.raises(Exception, match="no space"):
            store.commit()

    assert grow(store, staged, 3, "three")
    store.commit()

    assert texts(Store.open(store.root)) == ["one", "two", "three"]


def test_what_is_recorded_anew_takes_the_place_of_old_answers(store: Store) -> None:
    record(store.root, "one", "two", "three", "four", "five")
    record(store.root, "1", "2", "3", mode=Mode.RECORD)

    assert texts(Store.open(store.root)) == ["1", "2", "3", "four", "five"]


def test_answers_that_become_equal_become_one(store: Store) -> None:
    record(store.root, "one", "two", "three")
    record(store.root, "same", "same", "same", mode=Mode.RECORD)

    assert texts(Store.open(store.root)) == ["same"]


def test_equal_answers_are_one_until_another_comes(store: Store) -> None:
    record(store.root, "same", "same", "same", "other", "last")

    assert texts(Store.open(store.root)) == ["same", "same", "same", "other", "last"]


def test_equal_answers_are_staged_once(store: Store) -> None:
    async def main() -> int:
        recorder = RecordingAdapter(saying(*["same"] * 9), store, redactor=Redactor(), commit_on_close=False)
        async with recorder:
            for _ in range(9):
                await recorder.complete(REQUEST)
        return len(staged_files(store))

    assert run(main()) == 1
    store.commit()
    assert texts(Store.open(store.root)) == ["same"]


def test_a_sequence_goes_on_after_a_commit(store: Store) -> None:
    async def main() -> None:
        said = ("one", "two", "three", "four", "five", "six")
        async with RecordingAdapter(saying(*said), store, redactor=Redactor()) as recorder:
            for number in range(len(said)):
                await recorder.complete(REQUEST)
                if number in (2, 3):
                    await recorder.commit()

    run(main())

    assert texts(Store.open(store.root)) == ["one", "two", "three", "four", "five", "six"]


def test_a_secret_that_is_learned_later_goes_from_earlier_answers_too(store: Store) -> None:
    redactor = Redactor()
    secret = "correct-horse-battery-staple-77"

    async def main() -> None:
        said = ("one", f"two {secret}", "three", "four")
        async with RecordingAdapter(saying(*said), store, redactor=redactor) as recorder:
            for _ in said[:3]:
                await recorder.complete(REQUEST)
            redactor.learn(secret)
            await recorder.complete(REQUEST)

    run(main())

    assert secret not in "".join(texts(Store.open(store.root)))
    assert len(texts(Store.open(store.root))) == 4


def test_a_secret_in_a_further_answer_is_cut_out_before_it_is_staged(store: Store) -> None:
    async def main() -> bytes:
        said = ("one", "two", f"The key is {SECRET}.", "four")
        recorder = RecordingAdapter(saying(*said), store, redactor=Redactor(), commit_on_close=False)
        async with recorder:
            for _ in said:
                await recorder.complete(REQUEST)
        return b"".join(path.read_bytes() for path in staged_files(store))

    assert SECRET.encode() not in run(main())
    store.commit()
    assert len(texts(Store.open(store.root))) == 4


def test_two_recorders_of_one_store_do_not_mix_their_answers(store: Store) -> None:
    """Each goes on with what it staged itself, and the first to record an answer owns it."""
    first, second = begin(store, "one"), begin(store, "uno")

    assert grow(store, second, 2, "due")
    assert grow(store, first, 2, "two")
    store.commit()

    assert texts(Store.open(store.root)) == ["one", "two"]


def test_the_last_to_overwrite_wins(store: Store) -> None:
    first, second = begin(store, "one", overwrite=True), begin(store, "uno", overwrite=True)
    grow(store, second, 2, "due")
    grow(store, first, 2, "two")
    store.commit()

    assert texts(Store.open(store.root)) == ["one", "two"]


def test_the_door_to_the_store_cuts_secrets_out_of_a_further_answer(store: Store) -> None:
    """Also one that nobody has cut out before."""
    stager = RedactingStager(store, Redactor())
    _, staged = stager.begin(Fixture.of(REQUEST, "one"), overwrite=False)

    kept = stager.grow(staged, 2, store.key(REQUEST), Answer(f"The key is {SECRET}."))
    store.commit()

    assert kept is not None
    assert SECRET not in kept.text
    assert texts(Store.open(store.root)) == ["one", kept.text]


def _refuse(*_: object) -> None:
    raise OSError(28, "no space left on device")
