"""``cortex-replay rekey``."""

from __future__ import annotations

import json
from pathlib import Path

from cortex_replay import Answer, Store
from cortex_replay.store.fixture_json import render_fixture
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    first_file,
    key_of,
    run,
)


def test_rekey_gives_edited_requests_their_key(builder: StoreBuilder) -> None:
    """A request that was changed by hand answers to what it says now."""
    path = first_file(builder)
    edited = path.read_bytes().replace(b"What is one?", b"What is uno?")
    rows = builder.fixtures
    builder.files.clear()
    builder.fixtures = rows[1:]
    key = builder.fixtures[0]
    builder.add_bytes(
        edited, type(fixture_of(ask("x"), Answer("")).key)(str(rows[0].model), str(rows[0].prompt_hash))
    )
    path.unlink()
    builder.write()
    assert builder.codes() == ["request-mismatch"]
    dry = run("rekey", "--dry-run", "--store", builder.root)
    assert dry.exit_code == 0
    assert builder.codes() == ["request-mismatch"]
    real = run("rekey", "--store", builder.root)

    assert dry.stdout == real.stdout
    assert "1 fixture got another key, 1 keep theirs" in real.stderr
    assert builder.findings() == []
    assert Store.open(builder.root).get(*key_of("What is uno?")).answers[0].text == "One."
    assert key in builder.fixtures


def test_rekey_takes_a_request_that_was_edited_in_place_only_when_told(builder: StoreBuilder) -> None:
    """The way out of every hint that leads here."""
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"What is one?", b"What is uno?"))
    assert run("rekey", "--store", builder.root).exit_code == 5
    refused = run("index", "--store", builder.root, "--accept-changed")
    assert refused.exit_code == 5
    assert "rekey --accept-changed" in refused.stdout
    assert run("rekey", "--accept-changed", "--store", builder.root).exit_code == 0
    assert builder.findings() == []
    assert Store.open(builder.root).get(*key_of("What is uno?")).answers[0].text == "One."


def test_rekey_of_a_sound_store_changes_nothing(builder: StoreBuilder) -> None:
    """And says how many keep theirs; what has no request is listed."""
    before = builder.index_text()
    result = json.loads(run("rekey", "--json", "--store", builder.root).stdout)

    assert (result["moving"], result["unchanged"]) == ([], 2)
    assert builder.index_text() == before
    golden = Path(__file__).parents[1] / "vectors/replay_fixtures"
    listed = json.loads(run("rekey", "--json", "--dry-run", "--store", golden).stdout)
    assert len(listed["without_request"]) == 13


def test_rekey_refuses_two_answers_under_one_key(builder: StoreBuilder) -> None:
    """Nothing is lost."""
    row = builder.fixtures[0]
    assert row.prompt_hash is not None
    other = fixture_of(ask("What is two?"), Answer("Deux."))
    builder.add_bytes(
        render_fixture(other).replace(other.key.prompt_hash.encode(), b"0" * 64),
        type(other.key)("test-model", "0" * 64),
    )
    builder.write()
    before = builder.index_text()
    result = run("rekey", "--store", builder.root)

    assert result.exit_code == 1
    assert "collision" in result.stdout
    assert builder.index_text() == before
    (builder.root / "fixtures/x.json").write_bytes(b"{")
    assert run("rekey", "--store", builder.root).exit_code == 5


def test_wrong_usage(builder: StoreBuilder) -> None:
    assert run("rekey", builder.root).exit_code == 2
