"""Each test keeps what it recorded, and finds what was imported from its cassette."""

from __future__ import annotations

import pytest

from cortex_replay import LlmRequest, Store
from cortex_replay.store.fixture import Answer
from tests.builder import fixture_of

pytest_plugins = ["pytester"]

SUITE = """
import pytest
from cortex_replay import LlmRequest

REQUEST = LlmRequest(model="m", messages="q", temperature=0.0, max_tokens=64)

@pytest.mark.llm_replay
@pytest.mark.parametrize("x", ["a/b"])
def test_parameter(llm, x):
    assert llm.sync.complete(REQUEST).text == "of the parameter"

@pytest.mark.llm_replay
def test_plain(llm):
    assert llm.sync.complete(REQUEST).text == "of the plain one"

@pytest.mark.llm_replay(scope="cassettes/login.yaml")
def test_by_name(llm):
    assert llm.sync.complete(REQUEST).text == "of the cassette"

@pytest.mark.llm_replay
def test_new(llm):
    assert llm.sync.complete(REQUEST).text == "shared"
"""
SCOPES = {
    "test_m.py::test_parameter[a-b]": "of the parameter",
    "test_m.py::test_plain": "of the plain one",
    "cassettes/login.yaml": "of the cassette",
}


def test_each_test_gets_its_own_answer(pytester: pytest.Pytester) -> None:
    """By its id, by the name of its cassette, or by what its marker says; and once is enough to keep it."""
    request = LlmRequest(model="m", messages="q", temperature=0.0, max_tokens=64)
    store = Store.create(pytester.path / "llm")
    store.add(fixture_of(request, Answer("shared")))
    for scope, text in SCOPES.items():
        store.add(fixture_of(request, Answer(text), meta={"scope": scope}), scope=scope)
    store.commit()
    pytester.makepyfile(test_m=SUITE)

    pytester.runpytest_inprocess("--llm-store", "llm", "--llm-fail-unused").assert_outcomes(passed=4)
    pytester.runpytest_inprocess("--llm-store", "llm", "--llm-mode", "once").assert_outcomes(passed=4)
    store = Store.open(pytester.path / "llm")
    assert store.scopes == {*SCOPES, "test_m.py::test_new"}

    store.replace(fixture_of(request, Answer("another")))
    store.commit()
    pytester.runpytest_inprocess("--llm-store", "llm").assert_outcomes(passed=4)
