"""``cortex-replay scan``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest
from click.testing import Result

from cortex_replay.store.fixture import Answer, TimedChunk
from cortex_replay.types import StreamChunk
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import at_a_terminal, run
from tests.redact.kinds import ALNUM, some

GITHUB = "gh" + "p_" + some(Random(5), ALNUM, 36)
VALUE = "value-known-by-name"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "_PAT")):
            monkeypatch.delenv(name)


@pytest.fixture
def spoiled(builder: StoreBuilder) -> StoreBuilder:
    """A store with a token in one answer, and in the pieces of another's stream."""
    builder.add("Which token?", f"It is {GITHUB}.")
    text = f"So: {GITHUB}"
    chunks = (text[:8], text[8:30], text[30:])
    stream = tuple(TimedChunk(i, StreamChunk(piece)) for i, piece in enumerate(chunks))
    builder.add_fixture(fixture_of(ask("Streamed?"), Answer(text, stream=stream)))
    builder.write()
    return builder


def scan(*arguments: str | Path) -> Result:
    return run("scan", *arguments)


def test_scan_is_quiet_when_all_is_well(builder: StoreBuilder) -> None:
    """Nothing on stdout, nothing on stderr, exit 0."""
    result = scan(builder.root)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_scan_prints_file_place_and_rule_and_never_the_secret(spoiled: StoreBuilder) -> None:
    """The answer and the stream; exit 1; what to do is said on stderr."""
    result = scan(spoiled.root)
    paths = [row.path for row in spoiled.fixtures[2:]]

    assert result.exit_code == 1
    assert f"{paths[0]}: response.text [github]" in result.stdout
    assert f"{paths[1]}: response.text [github]" in result.stdout
    assert f"{paths[1]}: stream[].delta, joined [github]" in result.stdout
    assert "3 secrets in 2 files" in result.stderr
    assert GITHUB not in result.output


def test_scan_for_programs(spoiled: StoreBuilder, builder: StoreBuilder) -> None:
    """The whole result as one JSON object."""
    result = scan("--json", "--store", spoiled.root)
    report = json.loads(result.stdout)

    assert result.exit_code == 1
    assert not report["ok"]
    assert (report["files_scanned"], report["known_values"]) == (4, 0)
    assert {secret["rule"] for secret in report["secrets"]} == {"github"}
    assert set(report["secrets"][0]) == {"path", "place", "rule"}
    assert GITHUB not in result.output


def test_scan_knows_the_keys_of_this_shell(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names of variables; in any encoding."""
    builder.add("In hex?", VALUE.encode().hex())
    builder.write()
    assert scan(builder.root).exit_code == 0

    monkeypatch.setenv("SOME_SERVICE_API_KEY", VALUE)
    result = scan(builder.root)
    assert result.exit_code == 1
    assert "response.text [known-value]" in result.stdout
    assert VALUE not in result.output


def test_exchanges_are_scanned_too(builder: StoreBuilder) -> None:
    """They hold bodies that nobody parsed."""
    wire = {"status": 401, "headers": {}, "body": f"no such key: {GITHUB}"}
    request: dict[str, object] = {
        "upstream": "x",
        "method": "GET",
        "path": "/v1/models",
        "query": [],
        "body": None,
    }
    path = builder.add_exchange(json.dumps({"request": request, "wire": wire}).encode(), "a.json")
    builder.write()
    result = scan(builder.root)

    assert result.exit_code == 1
    assert f"{path}: wire.body [github]" in result.stdout


def test_a_store_that_is_not_what_its_index_says_is_not_scanned(spoiled: StoreBuilder) -> None:
    """Changed, unlisted, missing, malformed: exit 5, as everywhere."""
    path = spoiled.root / spoiled.fixtures[0].path
    before = path.read_bytes()
    path.write_bytes(before.replace(b"One.", b"Two!"))
    assert scan(spoiled.root).exit_code == 5

    path.write_bytes(before)
    (spoiled.root / "fixtures/x.json").write_bytes(b"{}")
    assert scan(spoiled.root).exit_code == 5

    (spoiled.root / "fixtures/x.json").unlink()
    path.unlink()
    assert scan(spoiled.root).exit_code == 5


def test_a_file_that_is_no_json_is_a_finding(tmp_path: Path) -> None:
    """Listed with its right hash, and still not to be read."""
    builder = StoreBuilder(tmp_path)
    builder.add_bytes(b"{", fixture_of(ask("q"), Answer("")).key)
    builder.write()
    result = scan(tmp_path)

    assert result.exit_code == 5
    assert "[json-malformed]" in result.stderr


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    """Exit 1, and wrong usage 2."""
    assert scan(tmp_path / "nowhere").exit_code == 1
    assert scan("a", "--store", "b").exit_code == 2


def test_places_are_printed_with_control_characters_spelled_out(builder: StoreBuilder) -> None:
    """A name in a recording must not steer the terminal."""
    answer = Answer("", parsed_json={"\x1b[2J": GITHUB})
    builder.add_fixture(fixture_of(ask("q"), answer))
    builder.write()
    result = scan(builder.root)

    assert result.exit_code == 1
    assert "\x1b[2J" not in result.stdout
    assert "response.parsed_json.?[2J [github]" in result.stdout


def test_a_person_is_told_that_all_is_well(builder: StoreBuilder) -> None:
    """At a terminal only."""
    assert "ok: no secret found in 2 files" in at_a_terminal("scan", builder.root)
