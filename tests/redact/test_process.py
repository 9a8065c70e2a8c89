"""What a process knows to be secret: learned late, from the environment too, and cut out of its logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from cortex_replay.redact import process
from cortex_replay.redact.logs import logger_of
from cortex_replay.redact.process import count_secrets, learn_secret, process_redactor, teach
from cortex_replay.redact.redactor import MOST_LEARNED, Redactor

SECRET = "a-key-that-only-this-run-knows-4711"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has learned nothing."""
    monkeypatch.setattr(process, "_process", process._Process())


def is_known(secret: str, redactor: Redactor | None = None) -> bool:
    return secret not in (redactor or process_redactor()).text(f"It is {secret}.")[0]


def test_what_is_learned_is_known_from_then_on() -> None:
    made_before = Redactor()
    assert not is_known(SECRET)
    learn_secret(SECRET)

    assert is_known(SECRET)
    assert not is_known(SECRET, made_before)
    teach(made_before)
    assert is_known(SECRET, made_before)
    assert count_secrets() == 1
    learn_secret(SECRET)
    assert count_secrets() == 1


@pytest.mark.parametrize("word", ["not-needed", "password", "none", "EMPTY", "test", "ollama"])
def test_a_word_is_no_secret(word: str) -> None:
    """A client brings one where a server needs no key, and it stands in many texts."""
    learn_secret(word)

    assert not is_known(word)
    assert count_secrets() == 0


def test_a_key_of_the_environment_stays_known_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was used while it was there."""
    redactor = Redactor()
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    assert is_known(SECRET)
    teach(redactor)
    monkeypatch.delenv("SOME_API_KEY")
    teach(redactor)
    redactor.learn("another-key-of-this-run-0815")

    assert is_known(SECRET, redactor)


def test_of_very_many_the_last_are_known() -> None:
    """A client may sign each call anew, and each is looked for in every text."""
    redactor = Redactor()
    keys = [f"{SECRET}-{number:06}" for number in range(MOST_LEARNED + 5)]
    for key in keys:
        learn_secret(key)
        redactor.learn(key)

    for one in (redactor, process_redactor()):
        assert len(one) <= MOST_LEARNED
        assert is_known(keys[-1], one)


def fail(secret: str) -> None:
    try:
        raise ValueError(f"wrong: {secret}")
    except ValueError as error:
        raise RuntimeError(f"and {secret} again") from error


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (f"it is {SECRET}", ()),
        ("it is %s", (SECRET,)),
        ("it is %(key)s", ({"key": SECRET},)),
        ("it is %d", (SECRET,)),
        (f"%s %s {SECRET}", ("one",)),
    ],
)
@pytest.mark.parametrize("with_trace", [False, True], ids=["alone", "with a traceback"])
def test_no_record_of_a_log_holds_a_secret(
    caplog: pytest.LogCaptureFixture, message: str, arguments: tuple[Any, ...], with_trace: bool
) -> None:
    learn_secret(SECRET)
    logger = logger_of("cortex_replay.tests.redact")
    try:
        fail(SECRET) if with_trace else None
    except RuntimeError:
        logger.exception(message, *arguments)
    else:
        logger.warning(message, *arguments)

    (record,) = caplog.records
    written = logging.Formatter("%(message)s").format(record)
    assert SECRET not in written
    assert ("Traceback" in written) == with_trace
    assert SECRET not in str(vars(record))
