"""A recording from a machine with telling names is found where the names are common ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import LlmRequest, NoFixture, Store
from cortex_replay.bindings import Surroundings
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.modes import AnyMode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.testing import EchoAdapter
from tests.builder import ask

LAPTOP = {"USER": "annabel", "TZ": "Europe/Berlin", "TMPDIR": "/var/folders/x1"}
CI = {"USER": "root", "TZ": "UTC", "TMPDIR": "/tmp"}


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.bindings.machine._account", lambda: None)


def run_in(store: Store, mode: AnyMode, environment: Mapping[str, str], cwd: str) -> RunCore:
    return RunCore(store, mode, lambda: Redactor(()), surroundings=Surroundings.of(environment, cwd))


def question(environment: Mapping[str, str], cwd: str) -> LlmRequest:
    return ask(
        f"I am {environment['USER']} in {cwd}, zone {environment['TZ']}, with {environment['TMPDIR']}/a.txt; "
        "the root of it all is in UTC"
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.create(tmp_path)
    run = run_in(store, "once", LAPTOP, "/Users/annabel/shop")
    ScopeAdapter(run.open_scope(), EchoAdapter()).sync.complete(question(LAPTOP, "/Users/annabel/shop"))
    run.commit()
    return store


def test_it_is_found_and_filled_with_the_common_values(store: Store) -> None:
    adapter = ScopeAdapter(run_in(store, "replay", CI, "/builds/shop").open_scope())

    answer = adapter.sync.complete(question(CI, "/builds/shop")).text

    assert "I am root in /builds/shop, zone UTC, with /tmp/a.txt; the root of it all" in answer
    assert "annabel" not in answer


def test_it_is_found_where_the_placeholder_stands_in_what_it_continues(store: Store) -> None:
    """A conversation is stored once, so the file of a later turn does not have it."""

    def later(environment: Mapping[str, str], cwd: str) -> LlmRequest:
        asked = question(environment, cwd)
        return replace(asked, messages=(*asked.messages, *ask("And then?").messages))

    run = run_in(store, "once", LAPTOP, "/Users/annabel/shop")
    ScopeAdapter(run.open_scope(), EchoAdapter()).sync.complete(later(LAPTOP, "/Users/annabel/shop"))
    run.commit()
    files = [path.read_text() for path in store.root.glob("fixtures/*/*.json")]
    assert sum("⟦user" in text for text in files) == 1

    adapter = ScopeAdapter(run_in(store, "replay", CI, "/builds/shop").open_scope())
    assert adapter.sync.complete(later(CI, "/builds/shop")).text == "And then?"


@pytest.mark.parametrize(
    ("old", "new"), [("I am root", "I am user"), ("zone UTC", "zone GMT"), ("the root", "the user")]
)
def test_any_other_word_in_its_place_misses(store: Store, old: str, new: str) -> None:
    adapter = ScopeAdapter(run_in(store, "replay", CI, "/builds/shop").open_scope())
    text = question(CI, "/builds/shop").messages[0].content.replace(old, new)

    with pytest.raises(NoFixture):
        adapter.sync.complete(ask(text))


@pytest.mark.parametrize("text", ["I am ⟦user⟧", "with ⟦tmp⟧/a.txt", "with ⟦tmp|0-3⟧/a.txt"])
def test_text_that_looks_like_what_is_too_common_here_is_text(tmp_path: Path, text: str) -> None:
    """It says something else than the value that stood there, and comes back as it is."""
    store = Store.create(tmp_path)
    for environment, asked in ((LAPTOP, "I am annabel"), (LAPTOP, "with /var/folders/x1/a.txt")):
        run = run_in(store, "once", environment, "/Users/annabel/shop")
        ScopeAdapter(run.open_scope(), EchoAdapter()).sync.complete(ask(asked))
        run.commit()
    with pytest.raises(NoFixture):
        ScopeAdapter(run_in(store, "replay", CI, "/builds/shop").open_scope()).sync.complete(ask(text))

    run = run_in(store, "once", CI, "/builds/shop")
    ScopeAdapter(run.open_scope(), EchoAdapter()).sync.complete(ask(text))
    run.commit()

    for environment in (LAPTOP, CI):
        adapter = ScopeAdapter(run_in(store, "replay", environment, "/builds/2").open_scope())
        assert adapter.sync.complete(ask(text)).text == text


def test_two_recordings_that_are_one_here_are_none(tmp_path: Path) -> None:
    """Where the user is called as somebody else in the text, nobody can tell which of two was meant."""
    store = Store.create(tmp_path)
    run = run_in(store, "once", LAPTOP, "/Users/annabel/shop")
    adapter = ScopeAdapter(run.open_scope(), EchoAdapter())
    for text in ("From annabel to root.", "From root to annabel.", "To annabel."):
        adapter.sync.complete(ask(text))
    run.commit()
    here = ScopeAdapter(run_in(store, "replay", CI, "/builds/shop").open_scope())

    assert here.sync.complete(ask("To root.")).text == "To root."
    with pytest.raises(NoFixture):
        here.sync.complete(ask("From root to root."))
