"""``cortex-replay import``; what is taken over is tested in tests/cassettes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Store
from tests.cassettes.conftest import interaction, write
from tests.cli.commands import run

pytestmark = pytest.mark.usefixtures("in_a_folder")


def import_cassettes(*arguments: str | Path) -> Result:
    return run("import", *arguments)


def test_for_people(tmp_path: Path) -> None:
    """What is not converted is the result; counts are talk. Nothing in a cassette steers the terminal."""
    file = write(
        tmp_path / "a.yaml",
        interaction(),
        interaction(uri="https://example.com/\x1b[31m?key=secret-in-a-query"),
    )
    result = import_cassettes("--store", tmp_path / "store", file)

    assert result.exit_code == 4
    assert result.stdout.startswith(f"not converted: {file} #2: ")
    assert "\x1b" not in result.output
    assert "secret-in-a-query" not in result.output
    assert f"1 cassette with 2 interactions: took 1 answer into {tmp_path / 'store'}" in result.stderr
    assert "1 not converted, listed above" in result.stderr
    assert f"next, for pytest: cortex-replay init --store {tmp_path / 'store'}" in result.stderr
    assert "next" not in import_cassettes("--dry-run", file).stderr


def test_a_folder_of_tests(tmp_path: Path) -> None:
    """Its cassettes are found; other data of the tests is left alone, and a broken cassette is listed."""
    write(tmp_path / "tests/cassettes/test_a/test_one.yaml", interaction())
    (tmp_path / "tests/data").mkdir()
    (tmp_path / "tests/data/users.json").write_text('{"users": []}')
    (tmp_path / "tests/data/mine.yaml").write_text("a: 1\n")
    (tmp_path / "tests/cassettes/broken.yaml").write_text("a: 1\n")
    result = import_cassettes(tmp_path / "tests", "--store", "store", "--json")
    report = json.loads(result.stdout)

    assert (report["cassettes"], report["answers"]) == (1, 1)
    assert [Path(left["file"]).name for left in report["not_converted"]] == ["broken.yaml"]


def test_wrong_usage_writes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", interaction())

    assert import_cassettes().exit_code == 2
    assert import_cassettes(tmp_path / "nowhere").exit_code == 2
    assert import_cassettes(file, "--mode", "live").exit_code == 2
    for host in ("a", "=b", "a=", "http://a=b"):
        assert import_cassettes(file, "--host", host).exit_code == 2
    assert not (tmp_path / "INDEX.toml").exists()


def test_for_programs(tmp_path: Path) -> None:
    """A second time there is nothing to take."""
    file = write(tmp_path / "a.yaml", interaction())
    first, again = (import_cassettes("--store", "store", "--json", file) for _ in range(2))

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert (json.loads(first.stdout)["answers"], json.loads(again.stdout)["answers"]) == (1, 0)
    assert len(Store.open("store")) == 1
