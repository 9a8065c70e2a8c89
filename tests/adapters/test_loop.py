"""The loop behind the synchronous faces."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from cortex_replay.adapters.loop import BackgroundLoop


async def thread_name() -> str:
    return threading.current_thread().name


def test_one_thread_does_all_the_work() -> None:
    """It starts when it is first needed."""
    before = threading.active_count()
    loop = BackgroundLoop("tested")
    assert threading.active_count() == before

    assert {loop.run(thread_name()) for _ in range(3)} == {"tested"}
    assert threading.active_count() == before + 1


def run_script(code: str) -> subprocess.CompletedProcess[str]:
    start = "import os, signal\nfrom cortex_replay.adapters.loop import BackgroundLoop\n"
    names = "async def answer(): return 42\nloop = BackgroundLoop('tested')\n"
    command = [sys.executable, "-c", start + names + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


FORK = """
if os.fork() == 0:
    signal.alarm(20)  # or it would outlive a failed test
    print(loop.run(answer()), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("before", ["loop.run(answer())", "loop._lock.acquire()"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_child_has_a_loop_of_its_own(before: str) -> None:
    """Neither the parent's thread nor whoever held the lock there exists any more."""
    done = run_script(before + FORK)

    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_work_at_the_end_of_the_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for a thread that is gone."""
    loop = BackgroundLoop("tested")
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)

    with pytest.raises(RuntimeError, match="shutting down"):
        loop.run(thread_name())
