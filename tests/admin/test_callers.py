"""Who calls."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.admin.callers import Caller, Callers
from cortex_replay.config import CallerSettings, Settings
from cortex_replay.errors import InvalidRequest

TOKEN = "token-of-the-build-server"
OTHER = "token-of-somebody-else-here"
SETTINGS = Settings(
    callers={
        "ci": CallerSettings(token_env=("FIRST", "SECOND"), grants=("llm_complete",), max_calls=5),
        "me": CallerSettings(token_env=("MINE",), max_tokens=9),
        "nobody": CallerSettings(grants=("llm_complete",)),
    }
)
ENVIRONMENT = {"FIRST": " ", "SECOND": f"{TOKEN}\n", "MINE": OTHER}


def test_a_caller_is_found_by_token() -> None:
    """With what was granted, and nothing else."""
    callers = Callers(SETTINGS, ENVIRONMENT)

    assert callers.by_token(TOKEN) == Caller("ci", frozenset(["llm_complete"]), 5, None)
    assert callers.by_token(OTHER.encode()) == Caller("me", frozenset(), None, 9)
    assert callers.without_token == ["nobody"]
    assert len(callers) == 3


@pytest.mark.parametrize(
    "token", ["", " ", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "nobody", "\ud800", b"\xff"]
)
def test_a_token_that_nobody_has(token: Any) -> None:
    assert Callers(SETTINGS, ENVIRONMENT).by_token(token) is None
    assert Callers(Settings(), {}).by_token(token) is None


@pytest.mark.parametrize(
    ("header", "is_found"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        (f"Bearer{TOKEN}", False),
        ("Bearer", False),
        ("", False),
    ],
)
def test_a_header(header: str, is_found: bool) -> None:
    """``Authorization``, as text or as bytes."""
    callers = Callers(SETTINGS, ENVIRONMENT)

    assert (callers.by_authorization(header) is not None) is is_found
    assert (callers.by_authorization(header.encode()) is not None) is is_found


def test_every_token_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a time that tells nothing, also after the right one was found."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def noting(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    callers = Callers(SETTINGS, ENVIRONMENT)
    for token in (TOKEN, OTHER, "x"):
        callers.by_token(token)

    assert compared == [(32, 32)] * 6


def test_a_token_in_a_file(tmp_path: Path) -> None:
    """Kept as a key is."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    settings = Settings(callers={"ci": CallerSettings(token_env=("UNSET",), token_file=path)})

    assert Callers(settings, {}).by_token(TOKEN) is not None
    assert Callers(settings, {"UNSET": OTHER}).by_token(TOKEN) is None
    path.chmod(0o644)
    with pytest.raises(InvalidRequest, match=r"token_file .*others can read it"):
        Callers(settings, {})


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"SECOND": "short"}, "less than 16 characters"),
        ({"SECOND": TOKEN, "MINE": TOKEN}, "its token is that of ci"),
    ],
)
def test_a_token_that_will_not_do(environment: dict[str, str], reason: str) -> None:
    """Is refused when the server starts, and not shown."""
    with pytest.raises(InvalidRequest, match=reason) as caught:
        Callers(SETTINGS, environment)

    assert not any(token in str(caught.value) for token in environment.values())


def test_a_caller_by_name() -> None:
    """For a transport that only one can reach."""
    callers = Callers(SETTINGS, {})

    assert callers.by_name("nobody").grants == {"llm_complete"}
    with pytest.raises(InvalidRequest, match="did you mean nobody"):
        callers.by_name("nobod")


def test_tokens_do_not_show() -> None:
    """Nor are they kept."""
    callers = Callers(SETTINGS, ENVIRONMENT)

    assert TOKEN not in repr(vars(callers))
    assert TOKEN not in repr(callers.by_token(TOKEN))


def test_a_token_may_have_just_as_many_characters_as_it_needs() -> None:
    settings = Settings(callers={"ci": CallerSettings(token_env=("TOKEN",))})

    assert len(Callers(settings, {"TOKEN": "x" * 16})) == 1
    with pytest.raises(InvalidRequest, match="less than 16 characters"):
        Callers(settings, {"TOKEN": "x" * 15})
