"""What all tests of one process share, and what each has of its own."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from cortex_replay.adapters import LlmAdapter
from cortex_replay.config import Settings, known_secrets, load_settings
from cortex_replay.config.reader import refuse_store_elsewhere
from cortex_replay.config.trust import is_ci
from cortex_replay.engine.claims import Claims, MemoryClaims
from cortex_replay.engine.http import Engine, Ledger, Upstreams
from cortex_replay.engine.replay import ReplayAdapter
from cortex_replay.engine.scope import RUN_VARIABLE, claims_of
from cortex_replay.errors import LlmError
from cortex_replay.faults.fault import Fault
from cortex_replay.faults.schedule import Faults
from cortex_replay.interception.block import refusal_of
from cortex_replay.interception.guard import guarding
from cortex_replay.interception.interception import Interception
from cortex_replay.interception.transports import installed
from cortex_replay.modes import Mode
from cortex_replay.providers import PROVIDERS
from cortex_replay.pytest_plugin.recording import LlmRecording, NotingAdapter, PassingAdapter
from cortex_replay.pytest_plugin.terminal import shown
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store

if TYPE_CHECKING:
    from cortex_replay.pytest_plugin.gateways import Gateways, ScopedGateway

__all__ = ["LlmSession", "TestRun"]

_RUN: pytest.StashKey[TestRun] = pytest.StashKey()


class LlmSession:
    """The store, the mode and the counts of one process."""

    def __init__(self, config: pytest.Config, settings: Settings, root: Path, warnings: list[str]) -> None:
        self.config = config
        self.settings = settings
        self.root = root
        self.mode = settings.mode
        self.warnings = warnings
        self.redactor = Redactor(known_secrets(settings, os.environ), settings.redaction.extra_patterns)
        self.ledger = Ledger(self.redactor)
        self._gateways: Gateways | None = None
        self.ran: dict[str, bool] = {}
        """Every marked test that ran, and whether it passed."""
        self.has_left_answers = False
        """Whether a test was to record, so that its answers wait for the end of the run."""
        self.misses: list[tuple[str, str]] = []
        self._store: Store | None = None
        self._claims: Claims | None = None
        self._attempts: dict[str, int] = {}
        self._upstreams: dict[tuple[str | None, ...], Upstreams] = {}
        self._engines: dict[Upstreams, Engine] = {}

    @classmethod
    def open(cls, config: pytest.Config) -> LlmSession:
        """The session that the options, the environment, the ini and the configuration ask for."""
        asked = config.getoption("llm_mode")
        warnings: list[str] = []
        if asked is None and not os.environ.get("CORTEX_REPLAY_MODE"):
            asked = config.getini("llm_mode") or None
            if asked not in (None, "replay") and is_ci(os.environ):  # it comes with the project
                warnings = [f"CI is set, so the mode is replay and not {asked}, as llm_mode in the ini says"]
                asked = "replay"
        flags: dict[str, object] = {"mode": asked}
        try:
            if (store := _named_store(config)) is not None:
                flags["store"] = store
            loaded = load_settings(config.rootpath, os.environ, flags)
        except LlmError as error:
            raise pytest.UsageError(shown(f"cortex-replay: {error}")) from None
        root = loaded.settings.store
        root = root if root.is_absolute() else config.rootpath / root
        return cls(config, loaded.settings, root, [*warnings, *loaded.warnings])

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return self.redactor.text(text)[0]

    @property
    def store(self) -> Store:
        """The one store of all tests, opened with the first of them."""
        if self._store is None:
            try:
                opened = Store.open_or_create if self.mode.writes else Store.open
                self._store = opened(self.root, verify="on-read")
            except LlmError as error:
                pytest.fail(shown(f"cortex-replay: {self.root}: {error}"), pytrace=False)
        return self._store

    @property
    def claims(self) -> Claims:
        """Those of the run: of this process, or of all workers."""
        if self._claims is None:
            self._claims = claims_of(self.store) if os.environ.get(RUN_VARIABLE) else MemoryClaims()
        return self._claims

    @property
    def upstreams(self) -> Upstreams:
        """Who may be asked; made anew when the environment names other servers."""
        named = tuple(os.environ.get(row.url_variable) for row in PROVIDERS.values())
        if named not in self._upstreams:
            self._upstreams[named] = Upstreams(self.settings, os.environ)
        return self._upstreams[named]

    def replaying_engine(self, upstreams: Upstreams) -> Engine:
        """The engine of all tests that are replayed: they differ in their scopes alone."""
        if upstreams not in self._engines:
            self._engines[upstreams] = Engine(
                self.store, Mode.REPLAY, upstreams, redactor=self.redactor, ledger=self.ledger
            )
        return self._engines[upstreams]

    def begin(self, item: pytest.Item) -> None:
        """A test begins, perhaps not for the first time: each attempt counts from the start."""
        attempt = self._attempts[item.nodeid] = self._attempts.get(item.nodeid, 0) + 1
        item.stash[_RUN] = TestRun(self, item, attempt)

    def of(self, item: Any) -> TestRun:
        """The run of a test."""
        if _RUN not in item.stash:
            pytest.fail("cortex-replay: the fixtures llm* need the marker llm_replay", pytrace=False)
        return cast("TestRun", item.stash[_RUN])

    def refuse_silence(self, item: pytest.Item) -> None:
        self.of(item).refuse_silence()

    def noted(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Remember how a phase of a test went, and put what was missed where it is read."""
        if _RUN not in item.stash:
            return
        run = item.stash[_RUN]
        run.has_failed = run.has_failed or report.failed
        if call.when == "call" or report.failed:
            for explanation in run.new_misses():
                report.sections.append(("cortex-replay", shown(explanation)))
                self.misses.append((self.clean(item.nodeid), explanation))

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

    def close(self) -> None:
        if self._gateways is not None:
            self._gateways.close()

    def told(self) -> dict[str, Any]:
        """What a worker tells its controller: plain values only."""
        ledger = self.ledger
        return {
            "hits": ledger.hits,
            "recorded": ledger.recorded,
            "live": ledger.live,
            "failed": ledger.failed,
            "misses": [list(miss) for miss in self.misses],
            "missed": len(ledger.misses),
            "not_recorded": list(ledger.refused),
            "prompt_tokens": sum(ledger.prompt_tokens.values()),
            "completion_tokens": sum(ledger.completion_tokens.values()),
            "replayed_tokens": ledger.replayed_tokens,
            "used": [list(key) for key in sorted(ledger.used_keys)],
            "used_exchanges": sorted(ledger.used_exchanges),
            "ran": self.ran,
            "left_answers": self.has_left_answers,
        }


class TestRun:
    """One attempt at one test."""

    __test__ = False

    def __init__(self, session: LlmSession, item: pytest.Item, attempt: int) -> None:
        marker = item.get_closest_marker("llm_replay")
        options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
        self._session = session
        self._may_call_nobody = bool(options.get("may_call_nobody", False))
        is_of_family = item.get_closest_marker("llm_faults") is not None
        # It is stored with what the test records, and a parameter may be a key.
        self.name = session.clean(item.nodeid.partition("[")[0] if is_of_family else item.nodeid)
        self.has_failed = False
        self.recording = LlmRecording()
        self.mode = Mode.of(options.get("mode") or session.mode)
        fault = getattr(item, "callspec", None) and item.callspec.params.get("_llm_fault")  # type: ignore[attr-defined]
        self.faults = Faults([Fault.parse(fault)] if fault else [], per_scope=False)
        self.store = session.store if not self.mode.asks else session.store.branch()
        self._has_normalisers = bool(options.get("normalisers"))
        if self._has_normalisers:
            self.store = self.store.with_normalisers(options["normalisers"])
        self._scope = f"{item.nodeid} {attempt}"
        self._misses_seen = len(session.ledger.misses)
        self.engine = self._made_engine(item)
        self.interception = Interception(self.engine, self._scope, self.faults)
        self._active = ExitStack()
        is_guarded = bool(options.get("guard", True)) and not self.mode.asks
        if is_guarded:
            self._active.enter_context(guarding(self.interception.hosts, _refused))
        self._active.enter_context(installed(self.interception))

    def _made_engine(self, item: pytest.Item) -> Engine:
        session = self._session
        once = f"pytest --llm-mode once {item.nodeid!r}"
        if not self.mode.asks and not self._has_normalisers:
            engine = session.replaying_engine(session.upstreams)
            engine.observer = self.recording.observe
            engine.how_to_record = once
            return engine
        return Engine(
            self.store,
            self.mode,
            session.upstreams,
            environment=dict(os.environ),  # as it is now: a test may change it
            redactor=session.redactor,
            how_to_record=once,
            max_sensitivity=session.settings.max_sensitivity,
            ledger=session.ledger,
            claims=session.claims if self.mode.writes else None,
            keeps_shared=True,
            meta={"adapter": "pytest", "tests": [self.name]},
            observer=self.recording.observe,
        )

    def adapter(self) -> LlmAdapter:
        """An adapter in the mode of this test."""
        # Most tests bring a client of their own.
        from cortex_replay.engine.recording import RecordingAdapter  # noqa: PLC0415
        from cortex_replay.faults.adapter import FaultAdapter  # noqa: PLC0415
        from cortex_replay.run.adapters import adapter_for  # noqa: PLC0415

        session, mode = self._session, self.mode
        adapter: LlmAdapter
        if not mode.asks:
            adapter = ReplayAdapter(self.store)
        else:
            live = PassingAdapter(adapter_for(session.settings, None))
            adapter = live
            if mode.writes:
                adapter = RecordingAdapter(
                    live,
                    self.store,
                    mode,
                    redactor=session.redactor,
                    commit_on_close=False,
                    meta={"tests": [self.name]},
                )
        return NotingAdapter(
            FaultAdapter.with_faults(adapter, self.faults), self.recording, session.ledger, self.store
        )

    def gateway(self, monkeypatch: pytest.MonkeyPatch) -> ScopedGateway:
        """The gateway of this worker, for this test."""
        return self._session.gateways.scoped(
            self.engine, self._scope, self.faults, self._session.settings, monkeypatch
        )

    def refuse_silence(self) -> None:
        """Fail a test that was to be replayed and has asked nobody: it may go around us."""
        if not self.mode.asks and not self._may_call_nobody and not self.recording.calls:
            pytest.fail(
                "cortex-replay: this test is marked llm_replay, and made no model call that was intercepted. "
                "Does its client use another transport than httpx or httpx2, or ask a server that is none "
                "of the configured providers (docs/configuration.md)? If it asks nobody, say "
                "@pytest.mark.llm_replay(may_call_nobody=True).",
                pytrace=False,
            )

    def new_misses(self) -> list[str]:
        misses = self._session.ledger.misses
        new = [miss.explanation for miss in misses[self._misses_seen :]]
        self._misses_seen = len(misses)
        return new

    def end(self, *, keep: bool) -> None:
        self._active.close()
        if self.mode.writes and keep:
            self.store.abandon()
            self._session.has_left_answers = True
        elif self.mode.asks:
            self.store.discard()


def _named_store(config: pytest.Config) -> Path | None:
    """The store that an option or the ini names; the latter comes with the project, and stays in it.

    Raises:
        InvalidRequest: It does not.
    """
    if (given := config.getoption("llm_store")) is not None:
        return Path(str(given))
    said = str(config.getini("llm_store"))
    if not said or os.environ.get("CORTEX_REPLAY_STORE"):
        return None
    store = config.rootpath / said
    refuse_store_elsewhere(store, config.rootpath, "llm_store")
    return store


def _refused(host: str) -> BaseException:
    """Not an Exception: no client is to catch it and try again."""
    return pytest.fail.Exception(refusal_of(host), pytrace=False)
