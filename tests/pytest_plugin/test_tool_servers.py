"""MCP servers that subprocesses of a test start behind the shim."""

from __future__ import annotations

import json
import sys

import pytest

from cortex_replay.run.mcp.stdio.shim import shim_command
from cortex_replay.shim import VARIABLE
from tests.pytest_plugin.conftest import run_in_process
from tests.run.mcp.stdio.servers import server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="recording needs Linux or macOS")

COUNTER = "for n, message in enumerate(hear()): say({'id': message['id'], 'result': {'n': n}})"
TESTS = """
import os, subprocess
import pytest

def poll(times, environment):
    message = '{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "poll"}}\\n'
    said = "".join(message % number for number in range(times))
    done = subprocess.run(SHIM, input=said, text=True, capture_output=True, env=environment)
    return done.stdout.replace(" ", "").splitlines()

@pytest.mark.llm_replay(allow_no_calls=True)
@pytest.mark.parametrize("environment", [{}, None], ids=["hidden", "inherited"])
def test_poll(environment):
    said = poll(2, environment)
    assert ['"n":0' in said[0], '"n":1' in said[1]] == [True, True], said

def test_without_a_mark():
    assert VARIABLE not in os.environ
"""


def test_a_test_has_its_servers_recorded_and_replayed_in_its_own_scope(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    for mode, command in (("once", server(COUNTER)), ("replay", ["/nothing/there"])):
        shim = json.dumps(shim_command("tools", command))
        project.makepyfile(f"SHIM = {shim}\nVARIABLE = {VARIABLE!r}\n{TESTS}")
        done = run_in_process(project, f"--llm-mode={mode}")
        done.assert_outcomes(passed=3)
