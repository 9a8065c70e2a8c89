"""What all tests of one process share, and what each has of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import pytest

from cortex_replay.config import Settings
from cortex_replay.config.files import shown_path
from cortex_replay.engine.ledger import Miss
from cortex_replay.engine.owners import owner_of_test
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import ConfigError, FixtureIntegrityFailed, InvalidRequest, LlmError
from cortex_replay.faults.fault import Fault
from cortex_replay.faults.schedule import Faults
from cortex_replay.interception.block import refusal_of
from cortex_replay.interception.guard import guarding
from cortex_replay.interception.interception import Http, Interception
from cortex_replay.interception.mcp.servers import McpChoice, McpServers, check_choice
from cortex_replay.interception.transports import install
from cortex_replay.modes import Mode
from cortex_replay.progress import show_fetches
from cortex_replay.pytest_plugin.dummy_keys import WITHOUT_KEYS, DummyKeys
from cortex_replay.pytest_plugin.outer_run import OuterRun
from cortex_replay.pytest_plugin.recording import LlmRecording
from cortex_replay.pytest_plugin.settings import load
from cortex_replay.pytest_plugin.summary import MissOfTest
from cortex_replay.pytest_plugin.summary_text import HOW_TO_RECORD
from cortex_replay.pytest_plugin.terminal import fetch_line, shown
from cortex_replay.run import Run
from cortex_replay.store import Store
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER

if TYPE_CHECKING:
    from cortex_replay.adapters.base import LlmAdapter
    from cortex_replay.pytest_plugin.gateways import Gateways, ScopedGateway
    from cortex_replay.pytest_plugin.tool_servers import ToolServers

__all__ = ["LlmSession", "TestRun"]

_RUN: pytest.StashKey[TestRun] = pytest.StashKey()


class LlmSession:
    """The run of one process, and what became of its tests."""

    def __init__(self, config: pytest.Config, settings: Settings, notes: list[str]) -> None:
        self.config = config
        self.root = settings.store
        self.warnings = notes
        self.outer = OuterRun.find(os.environ)
        self.is_relayed = self.outer is not None and settings.mode.writes
        """Whether the gateway of a command around these tests records, and not we."""
        servers = self.outer.servers if self.outer is not None and self.is_relayed else None
        self.run = Run(settings, how_to_record=HOW_TO_RECORD, origin="pytest", servers=servers)
        self.problem = ""
        """Why there is no store, and what to do; said once, at the end of the run."""
        self.dummy_keys = DummyKeys(one.key_env for one in settings.providers.values())
        self._gateways: Gateways | None = None
        self._tool_servers: ToolServers | None = None
        self.ran: dict[str, bool] = {}
        """Every marked test that ran, and whether it passed."""
        self.has_left_answers = False
        """Whether a test was to record, so that its answers wait for the end of the run."""
        self.misses: list[MissOfTest] = []
        self.unpublished: list[str] = []
        """Why other workers of the run do not know of all that was recorded."""
        self._attempts: dict[str, int] = {}
        self._is_prepared = False

    @classmethod
    def open(cls, config: pytest.Config) -> LlmSession:
        """The session that the options, the environment, the ini and the configuration ask for."""
        show_fetches(partial(fetch_line, config))
        loaded = load(config, config.option)
        return cls(config, loaded.settings, loaded.warnings)

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return self.run.redactor.text(text)[0]

    @property
    def store(self) -> Store:
        """The one store of all tests, opened with the first of them.

        Raises:
            Failed: There is none that can be used.
        """
        try:
            store = self.run.store
            if not self._is_prepared:  # tests and gateways hide the user's keys
                store.prepare_remote()
                self._is_prepared = True
        except LlmError as error:
            self.problem = shown(_problem_with(self.root, error))
        else:
            return store
        pytest.fail("cortex-replay: there is no store to use; see the end of this run", pytrace=False)

    def begin(self, item: pytest.Item) -> None:
        """A test begins, perhaps not for the first time: each attempt counts from the start."""
        attempt = self._attempts[item.nodeid] = self._attempts.get(item.nodeid, 0) + 1
        item.stash[_RUN] = TestRun(self, item, attempt)

    def of(self, item: Any) -> TestRun:
        """The run of a test."""
        if _RUN not in item.stash:
            pytest.fail("cortex-replay: the fixtures llm* need the marker llm_replay", pytrace=False)
        return cast("TestRun", item.stash[_RUN])

    def note(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Remember how a phase of a test went, and put what was missed where it is read."""
        if _RUN not in item.stash:
            return
        run = item.stash[_RUN]
        run.has_failed = run.has_failed or report.failed
        if call.when == "call" or report.failed:
            for refusal in run.refusals if report.failed else ():
                if refusal not in str(report.longrepr):  # a client may have made another error of it
                    report.sections.append(("cortex-replay", refusal))
            misses = run.new_misses()
            for miss in misses:
                report.sections.append(("cortex-replay", shown(miss.explanation)))
                self.misses.append(MissOfTest(self.clean(item.nodeid), miss.explanation, miss.is_probe))
            for host in sorted(run.interception.strangers) if misses else ():
                report.sections.append(("cortex-replay", shown(_advice_on(host))))
            for host in sorted(run.interception.others) if misses else ():
                report.sections.append(("cortex-replay", shown(_advice_on_other(host))))

    def end(self, item: pytest.Item) -> None:
        if _RUN in item.stash:
            run = item.stash[_RUN]
            run.end(keep=not run.has_failed or bool(self.config.getoption("llm_keep_failed")))
            self.ran[run.name] = not run.has_failed

    @property
    def gateways(self) -> Gateways:
        """The gateway of this worker, loaded with the first test that wants one."""
        if self._gateways is None:
            from cortex_replay.pytest_plugin.gateways import Gateways  # noqa: PLC0415 - a server

            self._gateways = Gateways()
        return self._gateways

    @property
    def tool_servers(self) -> ToolServers:
        """The socket for MCP servers, opened with the first marked test."""
        if self._tool_servers is None:
            from cortex_replay.pytest_plugin.tool_servers import ToolServers  # noqa: PLC0415 - a server

            self._tool_servers = ToolServers(self.run, is_relayed=self.is_relayed)
        return self._tool_servers

    def close_scope(self, scope: Scope) -> None:
        """A test is over: nobody asks in its name any more."""
        self.run.close_scope(scope)
        if self._gateways is not None:
            self._gateways.release(scope.name)

    def close(self) -> None:
        """No test asks any more: end what was started for them, and tell the fleet what they did."""
        try:
            self.run.publish()
        except LlmError as error:
            self.unpublished.append(shown(str(error)))
        if self._gateways is not None:
            self._gateways.close()
        if self._tool_servers is not None:
            self._tool_servers.close()

    def report(self) -> dict[str, Any]:
        """What a worker tells its controller: plain values only."""
        ledger = self.run.ledger
        return {
            "hits": ledger.hits,
            "recorded": ledger.recorded,
            "live": ledger.live,
            "failed": ledger.failed,
            "misses": [list(miss) for miss in self.misses],
            "missed": len(ledger.misses),
            "not_recorded": list(ledger.refused),
            "bypassed": dict(ledger.bypassed),
            "paid": {model: asdict(tokens) for model, tokens in ledger.paid.items()},
            "saved": {model: asdict(tokens) for model, tokens in ledger.saved.items()},
            "used": [
                list(key) for key in sorted([(*key, "") for key in ledger.used_keys] + [*ledger.used_scoped])
            ],
            "used_exchanges": sorted(ledger.used_exchanges),
            "servers": {server: asdict(counted) for server, counted in ledger.servers.items()},
            "remarks": dict(ledger.remarks),
            "ran": self.ran,
            "left_answers": self.has_left_answers,
            "unpublished": self.unpublished,
        }


class TestRun:
    """One attempt at one test."""

    __test__ = False

    def __init__(self, session: LlmSession, item: pytest.Item, attempt: int) -> None:
        marker = item.get_closest_marker("llm_replay")
        options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
        self._session = session
        self._allows_no_calls = _allows_no_calls(item, options)
        http = _http_of(item, options)
        mcp = _mcp_of(item, options)
        is_of_family = item.get_closest_marker("llm_faults") is not None
        # It is stored with what the test records, and a parameter may be a key.
        self.name = session.clean(item.nodeid.partition("[")[0] if is_of_family else item.nodeid)
        self.has_failed = False
        self.recording = LlmRecording(prices=session.run.ledger.prices, clean=session.clean)
        fault = getattr(item, "callspec", None) and item.callspec.params.get("_llm_fault")  # type: ignore[attr-defined]
        self.faults = Faults([Fault.parse(fault)] if fault else [], per_scope=False)
        _ = session.store  # a test without one fails, with the reason
        environment = dict(os.environ)  # as it is now: a test may change it
        self.scope = session.run.open_scope(
            f"{item.nodeid} {attempt}",
            owner=_owner_of(self.name, options.get("scope"), session.store),
            mode=_mode_of(options.get("mode"), session),
            is_branch=True,
            normalisers=options.get("normalisers"),
            observer=self.recording.observe,
            how_to_record=f"{HOW_TO_RECORD} {item.nodeid!r}",
            meta={"tests": [self.name]},
            environment=environment,
        )
        self.mode = self.scope.mode
        self.recording.is_replay = not self.mode.asks
        self.store = self.scope.store
        self._misses_seen = len(session.run.ledger.misses)
        is_relayed = session.is_relayed and self.mode is Mode.LIVE
        self._servers = McpServers(session.run, self.scope, mcp, is_relayed=is_relayed)
        self.interception = Interception(
            session.run.engine(environment),
            self.scope,
            self.faults,
            allow_hosts=_allowed_hosts(item, options, session.outer),
            http=http,
            mcp=self._servers,
            outer_scope=item.nodeid if session.is_relayed else "",
        )
        self.refusals: list[str] = []
        """What was said to clients that went around us."""
        self._active = ExitStack()
        if fault:
            from cortex_replay.faults.tools import strike_by  # noqa: PLC0415 - few tests have faults

            rules = session.run.call_rules
            rules.set_faults(self.scope.name, strike_by(self.faults))
            self._active.callback(rules.set_faults, self.scope.name, None)
        if self.mode in WITHOUT_KEYS:
            self._active.enter_context(session.dummy_keys.give(now=environment))
        if options.get("guard", True) and self.mode is not Mode.LIVE:
            guard = guarding(self.interception.hosts, self._refuse, self.interception.is_allowed)
            self._active.enter_context(guard)
        self._active.enter_context(install(self.interception))
        tools = item.nodeid if session.is_relayed else self.scope.name
        self._active.enter_context(session.tool_servers.serve(tools))

    def adapter(self) -> LlmAdapter:
        """An adapter in the mode of this test."""
        from cortex_replay.faults.adapter import FaultAdapter  # noqa: PLC0415 - most tests bring their own client

        return FaultAdapter.with_faults(self._own_adapter(), self.faults)

    def _own_adapter(self) -> LlmAdapter:
        try:
            return self._session.run.adapter(None, self.scope)
        except ConfigError as error:  # perhaps there is no key, and what is recorded needs none
            if self.mode is not Mode.ONCE:
                raise
            from cortex_replay.engine.adapter import ScopeAdapter  # noqa: PLC0415 - as above
            from cortex_replay.pytest_plugin.keyless import KeylessAdapter  # noqa: PLC0415

            return ScopeAdapter(self.scope, KeylessAdapter(error))

    def gateway(self, monkeypatch: pytest.MonkeyPatch) -> ScopedGateway:
        """The gateway of this worker, for this test."""
        gateways, run = self._session.gateways, self._session.run
        scoped = gateways.for_scope(run, self.scope.name, self.faults, monkeypatch)
        self.interception.allow(scoped.authority)
        return scoped

    def _refuse(self, host: str) -> BaseException:
        """Not an Exception: no client is to catch it and try again."""
        self._session.run.ledger.bypass(host)
        message = shown(refusal_of(host, is_provider=host in self.interception.hosts))
        self.refusals.append(message)
        return pytest.fail.Exception(message, pytrace=False)

    def check_calls(self) -> None:
        """Fail a test one of whose calls was refused, in whatever thread; and one that was to be replayed and
        has asked nobody: it may go around us."""
        if self.refusals:
            pytest.fail(self.refusals[0], pytrace=False)
        has_asked = (
            self.recording.calls or self.interception.calls or self._servers.sessions or self.faults.struck
        )
        if not self.mode.asks and not self._allows_no_calls and not has_asked:
            pytest.fail(
                "cortex-replay: this test is marked llm_replay, and made no model call that was intercepted, "
                "nor opened an MCP session. Does its client use another library than httpx, requests, "
                "urllib3, botocore, aiohttp or http.client, or ask in a way that is not known "
                "(docs/pytest.md)? If it makes none, say "
                "@pytest.mark.llm_replay(allow_no_calls=True), or llm_allow_no_calls = true in the ini.",
                pytrace=False,
            )

    def new_misses(self) -> list[Miss]:
        misses = self._session.run.ledger.misses
        new = misses[self._misses_seen :]
        self._misses_seen = len(misses)
        return new

    def end(self, *, keep: bool) -> None:
        self._active.close()
        self._session.close_scope(self.scope)
        if self.mode.writes and keep:
            self.store.abandon()
            self._session.has_left_answers = True
        elif self.mode.writes:
            self.store.discard()


def _owner_of(name: str, scope: Any, store: Store) -> str:
    """Whose answers a test gets and records: its own, or those of a scope that its marker names."""
    return owner_of_test(name, store.scopes) if scope is None else str(scope)


def _allows_no_calls(item: pytest.Item, options: Mapping[str, Any]) -> bool:
    if "may_call_nobody" in options:
        item.warn(pytest.PytestDeprecationWarning("llm_replay: may_call_nobody is now called allow_no_calls"))
    default = item.config.getini("llm_allow_no_calls")
    return bool(options.get("allow_no_calls", options.get("may_call_nobody", default)))


def _mode_of(wanted: Any, session: LlmSession) -> Mode | None:
    """What a test does with its calls: what its marker says, unless the gateway around us records them."""
    mode = session.run.mode if wanted is None else Mode.of(wanted)
    return Mode.LIVE if session.is_relayed and mode.writes else mode


def _problem_with(root: Path, error: LlmError) -> str:
    """Why a store cannot be opened; the first of all runs finds none."""
    where = shown_path(root)
    if not isinstance(error, FixtureIntegrityFailed):
        return str(error)
    if (root / INDEX_NAME).exists() or (root / NESTED_FOLDER).exists():
        return f"{where}: {error}"
    return (
        f"nothing is recorded yet: there is no store at {where}\n"
        f"Record it once, with the keys of your providers in the environment: {HOW_TO_RECORD}\n"
        "Commit what that writes; from then on pytest replays it without a key.\n"
        "If the store is elsewhere, name it: --llm-store DIR, or llm_store in the ini."
    )


def _allowed_hosts(item: pytest.Item, options: Mapping[str, Any], outer: OuterRun | None) -> list[str]:
    """The applications under test, by the marker and the ini; and the gateway that we run behind."""
    given = options.get("allow_hosts", ())
    ours = [] if outer is None else [outer.authority]
    return [*([given] if isinstance(given, str) else given), *item.config.getini("llm_allow_hosts"), *ours]


def _http_of(item: pytest.Item, options: Mapping[str, Any]) -> Http:
    """Which calls of a test are ours, by the marker or the ini.

    Raises:
        Failed: Neither knows such a choice.
    """
    said = options.get("http", item.config.getini("llm_http"))
    if said not in get_args(Http):
        where = "llm_replay" if "http" in options else "llm_http in the ini"
        pytest.fail(
            f"cortex-replay: {where}: http is 'models' or 'all', not {shown(repr(said))}", pytrace=False
        )
    return cast("Http", said)


def _mcp_of(item: pytest.Item, options: Mapping[str, Any]) -> McpChoice:
    """Which MCP sessions of a test are ours, by the marker or the ini.

    Raises:
        Failed: The marker says what makes no sense.
    """
    try:
        return check_choice(options.get("mcp", bool(item.config.getini("llm_mcp"))))
    except InvalidRequest as error:
        pytest.fail(f"cortex-replay: llm_replay: {shown(str(error))}", pytrace=False)


def _advice_on(host: str) -> str:
    return (
        f"{host} is none of the configured providers, and was asked as a model is. If it is the application "
        f"under test, leave it alone: @pytest.mark.llm_replay(allow_hosts=[{host!r}])"
    )


def _advice_on_other(host: str) -> str:
    return (
        f"{host} was asked in a test all of whose HTTP is recorded (http='all'). If it is the application "
        f"under test, leave it alone: @pytest.mark.llm_replay(allow_hosts=[{host!r}])"
    )
