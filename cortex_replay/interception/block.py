"""``intercept``: for unittest, notebooks, and whoever has no plugin."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cortex_replay.config import Settings, known_secrets, load_settings
from cortex_replay.engine.http import Engine, Upstreams
from cortex_replay.interception.guard import LiveCallRefused, guarding
from cortex_replay.interception.interception import Interception
from cortex_replay.interception.transports import installed
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store

__all__ = ["engine_for", "intercept", "refusal_of"]


def engine_for(store: Store, mode: Mode, settings: Settings, how_to_record: str) -> Engine:
    """The engine of calls inside this process."""
    return Engine(
        store,
        mode,
        Upstreams(settings, os.environ),
        environment=os.environ,
        redactor=Redactor(known_secrets(settings, os.environ), settings.redaction.extra_patterns),
        how_to_record=how_to_record,
        max_sensitivity=settings.max_sensitivity,
    )


def refusal_of(host: str) -> str:
    """What is said to whoever goes around us."""
    return (
        f"cortex-replay: a live call to {host} was refused. This client does not use the transport of httpx "
        "or httpx2, so its calls are not replayed here; docs/pytest.md says what to do."
    )


@contextlib.contextmanager
def intercept(
    store: str | os.PathLike[str] | Store,
    mode: AnyMode | None = None,
    *,
    scope: str = "",
    guard: bool = True,
    keep_failed: bool = False,
) -> Iterator[Interception]:
    """Answer the model calls of this process from a store, or record them there.

    Args:
        store: An open store, or the root of one, which is made if something is recorded and it is not there.
        mode: ``replay``, ``once``, ``record`` or ``live``; by default what the configuration says.
        scope: Whose answers are counted together.
        guard: Whether, in replay, a client that is not intercepted may not reach a model's host.
        keep_failed: Whether what was recorded is kept if the block raises.

    Raises:
        FixtureIntegrityFailed: The store is not what its index says.
    """
    settings = load_settings(Path(), os.environ, {} if mode is None else {"mode": mode}).settings
    chosen = settings.mode
    if not isinstance(store, Store):
        opened = Store.open_or_create if chosen.writes else Store.open
        store = opened(store, verify="on-read")
    store = store.branch()
    engine = engine_for(store, chosen, settings, "use the mode once")
    interception = Interception(engine, scope)
    try:
        with contextlib.ExitStack() as stack:
            if guard and not chosen.asks:
                stack.enter_context(
                    guarding(interception.hosts, lambda host: LiveCallRefused(refusal_of(host)))
                )
            stack.enter_context(installed(interception))
            yield interception
    except BaseException:
        if not keep_failed:
            store.discard()
            raise
        store.commit()
        raise
    else:
        if chosen.writes:
            store.commit()
