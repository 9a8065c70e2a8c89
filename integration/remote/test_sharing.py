"""A team moves over to a bucket of a real server, step by step as docs/sharing.md says, and back again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from integration.remote.team import Machine
from tests.servers.s3 import S3Server


@pytest.fixture
def author(any_server: S3Server, tmp_path: Path) -> Machine:
    """Who has recorded, with everything in git."""
    if any_server.name == "s3s-fs":
        pytest.skip("it breaks conditional puts, and is refused: see test_servers.py")
    url = f"s3://{any_server.new_bucket()}/agents"
    machine = Machine(tmp_path / "author", url, any_server.variables, keep="git")
    machine.begin()
    return machine


def files(machine: Machine) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (machine.store / "fixtures").rglob("*.json")}


def do(machine: Machine, *arguments: str) -> str:
    done = machine.cortex(*arguments)
    assert done.code == 0, done.said
    return done.said


def test_a_team_moves_over_and_back(author: Machine, tmp_path: Path) -> None:
    recorded = files(author)
    assert author.cortex("verify", "--remote").code == 5
    do(author, "push")
    do(author, "verify", "--remote")
    do(author, "keep", "remote")
    assert files(author) == {}
    author.git("add", "-A")
    do(author, "verify", "--staged")
    author.git("commit", "-qm", "Keep recordings in the bucket")

    colleague = author.clone(tmp_path / "colleague")
    tested = colleague.test()
    assert (tested.code, f"{len(author.questions)} passed" in tested.said) == (0, True), tested.said
    assert colleague.serve().code == 0
    do(colleague, "verify")

    traveller = author.clone(tmp_path / "traveller")
    do(traveller, "pull")
    offline = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ENDPOINT": "http://127.0.0.1:9"}
    traveller.variables = {**traveller.variables, **offline}
    assert traveller.test().code == 0
    do(traveller, "verify")
    assert traveller.serve().code == 0

    do(author, "keep", "git")
    assert files(author) == recorded


def test_what_no_commit_names_is_deleted_and_nothing_else(author: Machine) -> None:
    do(author, "push")
    do(author, "prune", "--path", f"*{min(files(author))}")
    author.git("commit", "-qam", "Without one of them")

    assert json.loads(author.cortex("gc", "--remote", "--json").said)["young"] == 1
    told = json.loads(author.cortex("gc", "--remote", "--older-than", "0h", "--apply", "--json").said)

    assert (len(told["deleted"]), told["kept"]) == (1, len(author.questions) - 1)
    do(author, "verify", "--remote")


def test_who_has_no_keys_is_told_what_is_missing_and_why(author: Machine, tmp_path: Path) -> None:
    do(author, "keep", "remote")
    fork = author.clone(tmp_path / "fork")
    fork.variables = {
        name: value
        for name, value in fork.variables.items()
        if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }

    done = fork.cortex("pull")

    if done.code:  # gofakes3 and moto let everyone read
        assert done.code == 5, done.said
        assert author.url in done.said
        assert "credentials" in done.said
    else:
        assert fork.test().code == 0


def test_wrong_bytes_in_the_bucket_are_never_replayed(author: Machine, tmp_path: Path) -> None:
    from cortex_replay.remote.bucket import Bucket  # noqa: PLC0415 - with the environment of the server

    do(author, "keep", "remote")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in author.variables.items():
            patch.setenv(name, value)
        bucket = Bucket.open(author.url, None, os.environ)
        names = [entry.name for entry in bucket.list("b3")]
        for name in names:
            there = bucket.get(name)
            assert there is not None
            bucket.delete([name])
            assert bucket.put_new(name, there.data.replace(b"Yes", b"No!"))
    victim = author.clone(tmp_path / "victim")

    assert victim.cortex("verify").code == 5
    assert victim.cortex("pull").code == 5
    tested = victim.test()
    assert (tested.code, f"{len(author.questions)} failed" in tested.said) == (1, True), tested.said
    assert victim.entries() == [] or not victim.wrong_entries()
