"""``intercept``: for unittest, notebooks, and whoever has no plugin."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cortex_replay.config import load_settings
from cortex_replay.interception.guard import LiveCallRefused, guarding
from cortex_replay.interception.interception import Interception
from cortex_replay.interception.transports import install
from cortex_replay.modes import AnyMode
from cortex_replay.run import Run
from cortex_replay.store import Store

__all__ = ["intercept", "refusal_of"]


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
    run = Run.open(settings, store=store, how_to_record="use the mode once")
    own = run.open_scope(scope, is_branch=True)
    interception = Interception(run.engine(), own)
    try:
        with contextlib.ExitStack() as stack:
            if guard and not run.mode.asks:
                stack.enter_context(
                    guarding(interception.hosts, lambda host: LiveCallRefused(refusal_of(host)))
                )
            stack.enter_context(install(interception))
            yield interception
    except BaseException:
        if run.mode.writes:
            if keep_failed:
                own.store.commit()
            else:
                own.store.discard()
        raise
    if run.mode.writes:
        own.store.commit()
