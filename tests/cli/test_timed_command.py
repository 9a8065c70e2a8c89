"""A command that may not take long, and the end of what it prints."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from cortex_replay.cli.timed_command import Tail, run_in_time

KEY = "sk-ant-api03-" + "aB3dE6gH9jK2" * 7 + "-AA"


def log_of(program: str, seconds: float = 30) -> tuple[int | None, str]:
    with Tail() as tail:
        status = run_in_time(
            [sys.executable, "-I", "-S", "-c", program], os.environ, seconds, tail.descriptor
        )
    return status, tail.text()


def test_both_streams_are_kept_and_the_status() -> None:
    status, log = log_of("import sys; print('a', flush=True); print('b', file=sys.stderr); sys.exit(3)")

    assert (status, log) == (3, "a\nb\n")


def test_of_much_the_last_whole_lines_are_kept() -> None:
    status, log = log_of("for n in range(200_000): print('line', n)")

    assert status == 0
    assert log.startswith("…\nline ")
    assert log.endswith("line 199999\n")
    assert len(log) < 9000


def test_a_line_without_an_end_is_cut() -> None:
    _, log = log_of("print('x' * 100_000, end='')")

    assert log.strip("x…\n") == ""
    assert 1000 < len(log) < 9000


def test_a_secret_is_cut_out_also_where_the_text_is_cut() -> None:
    """The key stands across the place where the kept text begins."""
    _, log = log_of(f"print('{KEY}' + 'é' * 4); print(('{KEY} ' + 'y' * 20 + chr(10)) * 200)")

    assert KEY not in log
    assert not any(KEY[start : start + 16] in log for start in range(len(KEY) - 16))
    assert "[REDACTED:" in log


def test_what_outlives_its_time_is_ended_and_its_log_kept() -> None:
    status, log = log_of("import sys, time; print('begun', flush=True); time.sleep(600)", seconds=1)

    assert (status, log) == (None, "begun\n")


def test_what_keeps_the_pipe_open_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    """What is in a session of its own does not end with the command; here it is still at work."""
    keeper = ["sh", "-c", f"sleep 20; touch {tmp_path / 'ended'}"]
    status, log = log_of(f"import subprocess; print(subprocess.Popen({keeper}, start_new_session=True).pid)")

    assert status == 0
    os.killpg(int(log), signal.SIGKILL)
    assert not (tmp_path / "ended").exists()
