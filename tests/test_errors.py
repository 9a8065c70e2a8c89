from __future__ import annotations

import pickle

import pytest

from cortex_replay import errors
from cortex_replay.errors import Finding, FixtureIntegrityFailed, InvalidRequest, LlmError, NoFixture

EXAMPLES: list[tuple[LlmError, str, int]] = [
    (errors.Transport("connection reset"), "transport: connection reset", 1),
    (errors.Upstream(529, "overloaded"), "upstream: 529 overloaded", 1),
    (InvalidRequest("temperature", "must be finite"), "invalid request: temperature: must be finite", 2),
    (
        errors.ConfigError("cortex-replay.toml: jobs", "must be at least 1"),
        "configuration: cortex-replay.toml: jobs: must be at least 1",
        2,
    ),
    (errors.Timeout(30), "timeout after 30 ms", 1),
    (errors.Timeout(30, "http://host"), "timeout after 30 ms, waiting for http://host", 1),
    (
        errors.TurnTooLate(30, 60, 5),
        (
            "timeout: with requests_per_minute = 5, this call would go out in 60 ms, and its timeout is "
            "30 ms. Nothing was sent. Raise one of the two, or make fewer calls at once"
        ),
        1,
    ),
    (errors.ResponseParse("not JSON"), "response parse: not JSON", 1),
    (NoFixture("m", "ab"), "no replay fixture for model=m prompt_hash=ab", 3),
    (
        FixtureIntegrityFailed([Finding("missing", "a.json", "is gone")]),
        "fixture integrity failed: a.json: is gone",
        5,
    ),
    (
        errors.FixtureConflict("m", "ab"),
        "fixture conflict: another answer is recorded for model=m prompt_hash=ab; replace it, or keep it",
        1,
    ),
    (errors.StoreIo("no such folder"), "io: no such folder", 1),
    (
        errors.RecordingRefused(["response.text", "meta"]),
        "recording refused: a secret would be stored in response.text, meta",
        1,
    ),
    (
        errors.BudgetSpent("calls", 3),
        "budget spent: another call might cross the 3 calls that were allowed",
        1,
    ),
]


@pytest.mark.parametrize(("error", "text", "exit_code"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_errors_read_as_in_the_reference_and_know_their_exit_status(
    error: LlmError, text: str, exit_code: int
) -> None:
    """Each error has the reference's wording in front, and the exit status of its class."""
    assert text == str(error)
    assert exit_code == error.exit_code


@pytest.mark.parametrize("error", [error for error, _, _ in EXAMPLES], ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: LlmError) -> None:
    """A test runner can send an error from a worker process to the one that prints it."""
    copy = pickle.loads(pickle.dumps(error))

    assert type(error) is type(copy)
    assert vars(error) == vars(copy)
    assert str(error) == str(copy)


def test_every_error_is_in_the_examples() -> None:
    """A new class of error needs an example above."""
    classes = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, LlmError)
    }

    assert classes - {LlmError} == {type(error) for error, _, _ in EXAMPLES}


def test_an_exhausted_fixture_says_so() -> None:
    """A miss because all answers were given reads differently from one that was never recorded."""
    error = NoFixture("m", "ab", exhausted=True)

    assert error.exhausted
    assert "all its recorded answers were given" in str(error)


def test_many_findings_are_counted_and_the_first_are_shown() -> None:
    """A thousand findings do not flood a terminal, but none is lost."""
    error = FixtureIntegrityFailed(Finding("missing", f"{i}.json", "is gone") for i in range(1000))

    assert len(error.issues) == 1000
    assert "1000 findings" in str(error)
    assert "and 980 more" in str(error)
