"""The pytest plugin: one marker, and the model calls of a test are recorded and replayed (`docs/pytest.md`).

Only hooks are here. What they need is loaded with the first test that is marked.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Generator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest

from cortex_replay.modes import Mode
from cortex_replay.pytest_plugin.dummy_keys import (
    WITHOUT_KEYS,
    DummyKeys,
    conftests_at,
    is_used,
    variables_checked_in,
)
from cortex_replay.pytest_plugin.loading import loading

if TYPE_CHECKING:
    from cortex_replay.adapters import LlmAdapter
    from cortex_replay.pytest_plugin.gateways import ScopedGateway
    from cortex_replay.pytest_plugin.recording import LlmRecording
    from cortex_replay.pytest_plugin.session import LlmSession
    from cortex_replay.pytest_plugin.summary import Summary
    from cortex_replay.store import Store

__all__ = ["LlmRecording"]

_SESSION: pytest.StashKey[LlmSession] = pytest.StashKey()
_DESELECTED: pytest.StashKey[list[str]] = pytest.StashKey()
_WORKERS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
_SUMMARY: pytest.StashKey[Summary] = pytest.StashKey()
_KEYS: pytest.StashKey[DummyKeys | None] = pytest.StashKey()
_TRIED: pytest.StashKey[bool] = pytest.StashKey()
_OUTPUT = "cortex_replay"
_RUN = "CORTEX_REPLAY_RUN"


def __getattr__(name: str) -> object:
    if name == "LlmRecording":
        from cortex_replay.pytest_plugin.recording import LlmRecording  # noqa: PLC0415

        return LlmRecording
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cortex-replay", "record and replay of model calls")
    group.addoption(
        "--llm-mode",
        dest="llm_mode",
        choices=[*map(str, Mode)],
        help="What marked tests do with their model calls.",
    )
    group.addoption("--llm-store", dest="llm_store", metavar="DIR", help="Root of the store.")
    group.addoption(
        "--llm-keep-failed",
        dest="llm_keep_failed",
        action="store_true",
        help="Keep what failed tests recorded.",
    )
    group.addoption(
        "--llm-fail-unused",
        dest="llm_fail_unused",
        action="store_true",
        help="Fail when fixtures are unused.",
    )
    group.addoption(
        "--llm-report",
        dest="llm_report",
        metavar="FILE",
        help="Write what was used, as JSON; cortex-replay prune --unused-from reads it.",
    )
    parser.addini("llm_replay", "Whether every test is marked llm_replay.", type="bool", default=False)
    parser.addini("llm_mode", "The mode where neither an option nor the environment names one.", default="")
    parser.addini(
        "llm_allow_hosts",
        "Hosts of applications under test, which may be asked as models are.",
        type="args",
        default=[],
    )
    parser.addini(
        "llm_allow_no_calls", "Whether a marked test may make no model call.", type="bool", default=False
    )
    parser.addini(
        "llm_http",
        "Which calls marked tests record and replay: models, or all of their HTTP.",
        default="models",
    )
    parser.addini(
        "llm_mcp", "Whether marked tests record and replay their MCP sessions.", type="bool", default=True
    )
    parser.addini("llm_store", "Root of the store, relative to this file.", default="")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str]
) -> Generator[None, object, object]:
    keys = _dummy_keys(early_config, early_config.known_args_namespace)
    if keys is None:
        return (yield)
    files = conftests_at([place for place in args if not place.startswith("-")], early_config.rootpath)
    with keys.give(without=variables_checked_in(files, keys.variables)):
        return (yield)


def _dummy_keys(config: pytest.Config, options: Namespace) -> DummyKeys | None:
    """What stands for keys while tests are collected; ``None`` where real ones are needed, or nobody asks."""
    if _KEYS not in config.stash:
        keys = None
        if is_used(config, options):
            with loading(config), suppress(pytest.UsageError):  # the first marked test says what is wrong
                from cortex_replay.pytest_plugin.settings import load  # noqa: PLC0415 - for those who use it

                settings = load(config, options).settings
                if settings.mode in WITHOUT_KEYS:
                    keys = DummyKeys(one.key_env for one in settings.providers.values())
        config.stash[_KEYS] = keys
    return config.stash[_KEYS]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    keys = _dummy_keys(session.config, session.config.option)
    with nullcontext() if keys is None else keys.give():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    keys = collector.config.stash.get(_KEYS, None)
    if keys is None or not isinstance(collector, pytest.Module) or _TRIED in collector.stash:
        return (yield)
    checked = variables_checked_in([collector.path], keys.variables)
    with keys.withhold(checked):
        report = yield
    if report.failed and checked:
        # It does more with a key than look whether it is there.
        collector.stash[_TRIED] = True
        report = collector.ihook.pytest_make_collect_report(collector=collector)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config) -> Generator[None, object, object]:
    keys = config.stash.get(_KEYS, None)
    with nullcontext() if keys is None else keys.withhold(keys.variables):
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "llm_replay(enabled=True, mode=None, guard=True, allow_hosts=(), allow_no_calls=False, "
        "normalisers=(), scope=None, http='models', mcp=True): record and replay the model calls and the MCP "
        "sessions of this test, or all of its HTTP.",
    )
    config.addinivalue_line(
        "markers",
        "llm_faults(*faults, turns=None): run this recorded test once for every call and fault as well.",
    )
    config.stash[_DESELECTED] = []
    config.stash[_WORKERS] = []
    is_controller = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if is_controller and _RUN not in os.environ:
        # All workers are one run: where several of them need an answer, one asks.
        from cortex_replay.engine.run_names import new_run_name  # noqa: PLC0415 - few sessions have workers

        os.environ[_RUN] = new_run_name()
        config.add_cleanup(_forget_run)


def _forget_run() -> None:
    os.environ.pop(_RUN, None)


def _is_marked(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("llm_replay")
    if marker is None:
        return bool(item.config.getini("llm_replay")) or item.get_closest_marker("llm_faults") is not None
    return bool(marker.args[0] if marker.args else marker.kwargs.get("enabled", True))


def _session(config: pytest.Config) -> LlmSession:
    if _SESSION not in config.stash:
        with loading(config):
            from cortex_replay.pytest_plugin.session import LlmSession  # noqa: PLC0415 - with all that it needs

            config.stash[_SESSION] = LlmSession.open(config)
    return config.stash[_SESSION]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("llm_faults")
    if marker is not None:
        from cortex_replay.pytest_plugin.fault_tests import family_of  # noqa: PLC0415

        metafunc.fixturenames.append("_llm_fault")
        base = metafunc.definition.nodeid
        family = family_of(_session(metafunc.config), base, marker)
        metafunc.parametrize(
            "_llm_fault", family, indirect=True, ids=[fault or "recorded" for fault in family]
        )


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        item.config.stash[_DESELECTED].append(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _is_marked(item):
        _session(item.config).begin(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if _is_marked(item):
        _session(item.config).of(item).check_calls()
    return result


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if _SESSION in item.config.stash:
            item.config.stash[_SESSION].end(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if _SESSION in item.config.stash:
        item.config.stash[_SESSION].note(item, call, report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    output = getattr(config, "workeroutput", None)
    if _SESSION in config.stash:
        llm = config.stash[_SESSION]
        llm.close()
        if output is not None:
            output[_OUTPUT] = llm.report()
    if output is None and (_SESSION in config.stash or config.stash[_WORKERS]):
        from cortex_replay.pytest_plugin.finish import finish  # noqa: PLC0415

        llm = _session(config)
        config.stash[_SUMMARY] = finish(session, llm, config.stash[_WORKERS], config.stash[_DESELECTED])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {}).get(_OUTPUT)
    if told is not None:
        node.config.stash[_WORKERS].append(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _SUMMARY in config.stash:
        from cortex_replay.pytest_plugin.summary_text import print_summary  # noqa: PLC0415

        print_summary(terminalreporter, config.stash[_SUMMARY])


@pytest.fixture
def llm_store(request: pytest.FixtureRequest) -> Store:
    """The store that this test is replayed from, or recorded to."""
    return _session(request.config).of(request.node).store


@pytest.fixture
def llm(request: pytest.FixtureRequest) -> LlmAdapter:
    """An adapter in the current mode; ``llm.sync`` is for tests that are not async."""
    return _session(request.config).of(request.node).adapter()


@pytest.fixture
def llm_recording(request: pytest.FixtureRequest) -> LlmRecording:
    """What this test asked, and what it got."""
    return _session(request.config).of(request.node).recording


@pytest.fixture
def llm_gateway(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ScopedGateway:
    """A gateway for this test's subprocesses, whose environment points to it."""
    return _session(request.config).of(request.node).gateway(monkeypatch)


@pytest.fixture
def _llm_fault(request: pytest.FixtureRequest) -> str:
    """Which member of a family a test is; see :class:`TestRun`, which reads it before any fixture is made."""
    return str(getattr(request, "param", ""))
