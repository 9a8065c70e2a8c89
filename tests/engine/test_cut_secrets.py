"""A prompt with a secret that an earlier answer brought is found again without the secret."""

from __future__ import annotations

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

SECRET = "sk-ant-api03-" + "Ab1_" * 23 + "AA"
OTHER = "sk-ant-api03-" + "Cd2_" * 23 + "AA"
MARK = "[REDACTED:anthropic]"


def run_in(store: Store, mode: AnyMode, cwd: str) -> RunCore:
    return RunCore(store, mode, lambda: Redactor(()), surroundings=Surroundings.of({}, cwd))


def question(key: str, cwd: str = "/home/ann/shop") -> LlmRequest:
    return ask(f"{cwd}/.env holds {key}.")


def record(store: Store, *keys: str, run: str = "one", at: str = "2026-11-16T08:00:00Z") -> None:
    core = run_in(store, "once", "/home/ann/shop")
    scope = core.open_scope(meta={"run": run, "recorded_at": at})
    for key in keys:
        ScopeAdapter(scope, EchoAdapter(f"{run} ")).sync.complete(question(key))
    core.commit()


def replay(store: Store, key: str, cwd: str = "/home/ann/shop") -> str:
    return ScopeAdapter(run_in(store, "replay", cwd).open_scope()).sync.complete(question(key, cwd)).text


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path)


def test_it_is_found_in_another_directory_with_what_stands_for_the_secret(store: Store) -> None:
    record(store, SECRET)

    assert f"/builds/7/.env holds {MARK}." in replay(store, MARK, "/builds/7")
    assert f"holds {MARK}." in replay(store, SECRET)  # as it was asked then


def test_it_is_found_where_what_stands_for_the_secret_is_in_a_part(store: Store) -> None:
    """A large system text has a file of its own."""

    def asked(key: str) -> LlmRequest:
        return ask("Go.", system=f"{'You may read everything. ' * 100}The key is {key}.")

    core = run_in(store, "once", "/home/ann/shop")
    ScopeAdapter(core.open_scope(), EchoAdapter()).sync.complete(asked(SECRET))
    core.commit()
    assert [MARK in path.read_text() for path in store.root.glob("fixtures/*/*.json")].count(True) == 1
    assert list(store.root.glob("fixtures/parts/system-*.json"))

    adapter = ScopeAdapter(run_in(store, "replay", "/home/ann/shop").open_scope())
    assert adapter.sync.complete(asked(MARK)).text == "Go."


@pytest.mark.parametrize("text", ["[REDACTED:openai]", f"{MARK} and more", "nothing", OTHER])
def test_anything_else_in_its_place_misses(store: Store, text: str) -> None:
    record(store, SECRET)

    with pytest.raises(NoFixture):
        replay(store, text)


def test_of_two_runs_with_a_secret_of_their_own_the_newer_one_counts(store: Store) -> None:
    record(store, SECRET, run="new", at="2026-11-16T09:00:00Z")
    record(store, OTHER, run="old", at="2026-11-16T08:00:00Z")

    assert replay(store, MARK).startswith("new")


def test_of_two_secrets_in_one_run_nobody_can_tell_which_is_meant(store: Store) -> None:
    record(store, SECRET, OTHER)

    with pytest.raises(NoFixture) as caught:
        replay(store, MARK)
    assert "It differs in what was cut out as secret." in caught.value.explanation
    assert "rekey" not in caught.value.explanation


def test_a_prompt_that_holds_what_looks_like_a_cut_by_itself_is_another_one(store: Store) -> None:
    record(store, MARK, run="plain")
    record(store, SECRET, run="secret")

    assert replay(store, MARK).startswith("plain")
