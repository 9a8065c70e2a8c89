"""What ``make test`` takes of a long family: the same in every worker, another part with every commit."""

from __future__ import annotations

import pytest

from tests import sampling
from tests.sampling import sample

CASES = [f"{letter}{number}" for letter in "abc" for number in range(50)]


def taken(monkeypatch: pytest.MonkeyPatch, seed: str, most: int = 10) -> list[str]:
    monkeypatch.setattr(sampling, "seed", lambda: seed)
    monkeypatch.setattr(sampling, "IS_TORTURE", False)
    return sample(CASES, most)


def test_a_seed_takes_the_same_cases_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    some = taken(monkeypatch, "one")

    assert len(some) == 10
    assert some == taken(monkeypatch, "one")
    assert some == [case for case in CASES if case in some]


def test_in_time_every_case_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {case for commit in range(200) for case in taken(monkeypatch, f"{commit}")}

    assert found == set(CASES)


def test_each_kind_has_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    taken(monkeypatch, "one")
    some = sample([*CASES, "d0"], 2, kind=lambda case: case[0])

    assert [case[0] for case in some] == [*"aabbccd"]


def test_torture_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "IS_TORTURE", True)

    assert sample(CASES, 1) == CASES


def test_a_seed_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sampling.SEED_VARIABLE, "told")

    assert sampling.seed.__wrapped__() == "told"


def test_without_git_there_is_a_seed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert sampling.seed.__wrapped__() == "none"
