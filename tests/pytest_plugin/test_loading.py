"""What the first marked test loads, and how: whoever runs one test waits for it."""

from __future__ import annotations

import gc
import importlib
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader

import pytest

from cortex_replay.pytest_plugin.loading import loading
from tests.nested import LIGHT
from tests.pytest_plugin.conftest import record

_TESTS = """
import json, sys
import httpx, pytest

def test_unmarked():
    assert "cortex_replay.pytest_plugin.session" not in sys.modules

@pytest.mark.llm_replay
def test_marked():
    body = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
    with httpx.Client(verify=False) as client:
        answer = client.post("https://api.openai.com/v1/chat/completions", json=body).json()
    modules = sys.modules.items()
    loaded = {name: type(getattr(module, "__loader__", None)).__name__ for name, module in modules}
    with open("loaded.json", "w") as file:
        json.dump(loaded, file)
    from helper import check
    check(answer["choices"][0]["message"]["content"])
"""
_UNNEEDED = (
    "cortex_replay.adapters",
    "cortex_replay.engine.adapter",
    "cortex_replay.faults.replies",
    "cortex_replay.gateway",
    "cortex_replay.history",
    "cortex_replay.misses",
    "cortex_replay.prompt",
    "cortex_replay.wire.anthropic",
    "httptools",
    "uvloop",
)
"""What only an adapter of ours, a fault, a gateway, a miss, another wire or another client needs."""
_MOST_OWN = 262
"""Modules of ours; each takes about a millisecond. Load what an answer can do without with its first use."""

_BEFORE = {
    f"cortex_replay.{name}"
    for name in (
        "errors",
        "gc_pause",
        "modes",
        "providers",
        "pytest_plugin",
        "pytest_plugin.dummy_keys",
        "pytest_plugin.loading",
    )
}
"""What the hooks themselves need; pytest loads it."""


def test_the_first_marked_test_loads_little_and_as_python_does(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pytest itself finds the plugin, and loads it as it loads tests."""
    for name in LIGHT:
        monkeypatch.delenv(name)
    record(project.path / "llm", "Where?")
    project.makeconftest("import pytest\npytest.register_assert_rewrite('helper')")
    project.makepyfile(helper="def check(got):\n    assert got == 'another'\n", test_calls=_TESTS)

    without = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "xdist")]
    result = project.runpytest_subprocess(*without)

    result.assert_outcomes(passed=1, failed=1)
    assert "- another" in result.stdout.str()  # what a project asserts is explained as ever
    loaded: dict[str, str] = json.loads((project.path / "loaded.json").read_text())
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{one}." for one in _UNNEEDED))] == []
    own = {name: loader for name, loader in loaded.items() if name.startswith("cortex_replay.")}
    assert len(own) <= _MOST_OWN
    assert {name for name, loader in own.items() if loader != SourceFileLoader.__name__} == _BEFORE


class _Config:
    """What is used of pytest's own."""

    def __init__(self) -> None:
        self.cleanups: list[Callable[[], None]] = []

    def add_cleanup(self, cleanup: Callable[[], None]) -> None:
        self.cleanups.append(cleanup)


def test_only_our_own_modules_are_found_otherwise_and_only_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [finder for finder in sys.meta_path if "PlainImports" not in repr(finder)]
    monkeypatch.setattr(sys, "meta_path", list(before))
    config = _Config()

    with loading(config), loading(config):  # type: ignore[arg-type]
        assert not gc.isenabled()
        finder = sys.meta_path[0]
        assert finder.find_spec("tests.helper", None) is None
        assert finder.find_spec("cortex_replay_helper", None) is None
        package = importlib.import_module("cortex_replay.store")
        spec = finder.find_spec("cortex_replay.store.paths", package.__path__)
        assert spec is not None
        assert isinstance(spec.loader, SourceFileLoader)

    assert gc.isenabled()
    assert [*sys.meta_path[1:]] == before
    (cleanup,) = config.cleanups
    cleanup()
    assert sys.meta_path == before
    cleanup()  # where somebody has put the list back


@pytest.fixture
def _thawed() -> Iterator[None]:
    """As in a project that has frozen nothing; here, all that was collected is."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("_thawed")
def test_what_was_loaded_is_as_collectable_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """But young objects are few, and so is what the next collection walks."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    is_gone: list[bool] = []

    class Knot:
        def __init__(self) -> None:
            self.itself = self

    with loading(_Config()):  # type: ignore[arg-type]
        weakref.finalize(Knot(), is_gone.append, True)
        made: list[list[int]] = [[] for _ in range(10_000)]

    assert gc.get_freeze_count() == 0
    assert sum(map(len, map(gc.get_objects, (0, 1)))) < len(made)
    gc.collect()
    assert is_gone == [True]


@pytest.mark.usefixtures("_thawed")
def test_what_a_project_has_frozen_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with loading(_Config()):  # type: ignore[arg-type]
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
