"""The checks of the roads can fail: each is shown what it must find."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from integration.roads.newcomer import KEY, Newcomer, listen


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path, {"PATH": os.environ["PATH"]})


def test_a_live_call_is_found_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with listen(url):
        pass
    with (
        pytest.raises(AssertionError, match=f"a live call went to {url}"),
        listen(url),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        assert connection.recv(1) == b"", "nobody waits for an answer"


def test_a_step_that_ends_otherwise_names_its_command(newcomer: Newcomer) -> None:
    with pytest.raises(AssertionError, match=r"`sh -c 'echo why; exit 3'` ended with 3, not 0:\nwhy"):
        newcomer.run("sh -c 'echo why; exit 3'")
    newcomer.run("sh -c 'exit 3'", status=3)


def test_the_key_in_what_a_step_says(newcomer: Newcomer) -> None:
    with pytest.raises(AssertionError, match=KEY):
        newcomer.run(f"echo {KEY}")


def test_the_key_in_a_file(newcomer: Newcomer) -> None:
    newcomer.write("deep/down.json", "nothing")
    newcomer.refuse_secrets()
    newcomer.write("deep/down.json", f'"{KEY}"')
    with pytest.raises(AssertionError, match=r"down\.json"):
        newcomer.refuse_secrets()


def test_words(newcomer: Newcomer) -> None:
    step = newcomer.run("echo one two two")
    step.says("one", "two").hides("three").says_once("one")
    for check, word in ((step.says, "three"), (step.hides, "one"), (step.says_once, "two")):
        with pytest.raises(AssertionError, match="echo one two two"):
            check(word)
