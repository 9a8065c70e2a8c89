"""Directories that the reference opened or refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import LlmError, LlmRequest, ReplayAdapter, Store, blake3_hex
from tests.golden import REPLAY_FIXTURES, SHORT_STORE, read_vectors
from tests.linked import plain_talk

LINES = read_vectors("replay_broken.jsonl")

# The reference opens these; cortex-replay refuses them on purpose. docs/differences.md says why.
STRICTER = {
    "toml_extra_keys_ok": "another table, and a row with a value that is no string",
    "fixture_deep_127": "a hash that is not 64 lower-case hex digits",
    "fixture_as_arrays_ok": "structs written as arrays",
    "fixture_as_arrays_full_ok": "structs written as arrays",
    "fixture_uppercase_prompt_hash_never_matches": "a hash that is not lower-case",
    "fixture_not_utf8_in_ignored_field": "bytes that are not UTF-8",
}


def build(line: dict[str, Any], base: Path) -> Path:
    """The directory that a line describes."""
    root = base / "fx"
    for file in line["files"]:
        path = base / file["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "text" in file:
            text = file["text"].replace("{ROOT}", str(root)).replace("{BASE}", str(base))
            path.write_bytes(text.encode())
        elif "b64" in file:
            path.write_bytes(base64.b64decode(file["b64"]))
        elif "symlink" in file:
            path.symlink_to(file["symlink"])
        else:
            path.mkdir(exist_ok=True)
    return root


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["name"])
def test_what_the_reference_refuses_is_refused_and_what_it_opens_is_opened(
    line: dict[str, Any], tmp_path: Path
) -> None:
    """But for the listed cases, in which cortex-replay is stricter; the answers are the same."""
    root = build(line, tmp_path)
    expected = line["expect"]
    if not expected["ok"] or line["name"] in STRICTER:
        with pytest.raises(LlmError) as caught:
            ReplayAdapter(root)
        variant = expected.get("variant", "FixtureIntegrityFailed")
        assert {"Io": "StoreIo"}.get(variant, variant) == type(caught.value).__name__
        return
    adapter = ReplayAdapter(root)

    assert expected["fixture_count"] == adapter.fixture_count
    for probe in expected["probes"]:
        check_answer(adapter, LlmRequest(**probe["request"]), probe)


def check_answer(adapter: ReplayAdapter, request: LlmRequest, expected: dict[str, Any]) -> None:
    if "err" in expected:
        with pytest.raises(LlmError) as caught:
            adapter.sync.complete(request)
        assert expected["err"]["variant"] == type(caught.value).__name__
        assert expected["err"]["display"] == str(caught.value)
        return
    response = adapter.sync.complete(request)
    usage = response.usage and response.usage.to_dict()
    actual = {
        "text": response.text,
        "parsed_json": response.parsed_json,
        "model": response.model,
        "usage": usage,
        "raw_hash": response.raw_hash,
    }
    assert expected["ok"] == actual


@pytest.mark.parametrize("line", read_vectors("replay_vectors.jsonl"), ids=lambda line: line["name"])
def test_replay_answers_as_the_reference(line: dict[str, Any]) -> None:
    """From a store that the crate's own signer signed; a schema that is present and null cannot be said."""
    if line["json_schema_mode"] == "some_null":
        return
    adapter = ReplayAdapter(REPLAY_FIXTURES)
    request = LlmRequest(**line["request"])
    check_answer(adapter, request, line["expect"])
    if "ok" in line["expect"]:
        chunks = list(adapter.sync.stream(request))
        assert line["stream"] == [
            {"delta": chunk.delta, "finish_reason": chunk.finish_reason} for chunk in chunks
        ]
        assert chunks[-1].response == adapter.sync.complete(request)
    else:
        with pytest.raises(LlmError) as caught:
            list(adapter.sync.stream(request))
        assert line["stream"] == [{"error": str(caught.value)}]


@pytest.mark.parametrize(("levels", "is_opened"), [(127, True), (128, False)])
def test_the_limit_of_nesting_with_a_valid_hash(tmp_path: Path, levels: int, is_opened: bool) -> None:
    """127 nested containers are fine, the 128th is refused; the vectors for this have no valid hash."""
    inner = "[" * (levels - 2) + "]" * (levels - 2)
    match = f'{{"model": "m", "prompt_hash": "{"0" * 64}"}}'
    data = f'{{"request_match": {match}, "response": {{"text": "t", "parsed_json": {inner}}}}}'.encode()
    (tmp_path / "a.json").write_bytes(data)
    (tmp_path / "INDEX.toml").write_text(f'[[fixture]]\npath = "a.json"\nblake3 = "{blake3_hex(data)}"\n')

    if is_opened:
        assert ReplayAdapter(tmp_path).fixture_count == 1
    else:
        with pytest.raises(LlmError, match="nested deeper than 127 levels"):
            ReplayAdapter(tmp_path)


def test_a_conversation_that_is_stored_once_is_read_as_it_was(tmp_path: Path) -> None:
    """The reference opens this store, too (integration/test_crtx.py). Later versions must write it so."""
    adapter = ReplayAdapter(SHORT_STORE)
    store = Store.create(tmp_path)
    for fixture, _ in plain_talk():
        assert fixture.request is not None
        assert adapter.sync.complete(fixture.request).text == fixture.answers[0].text
        store.add(fixture)
    store.commit()

    for path in (path for path in SHORT_STORE.rglob("*") if path.is_file()):
        assert (tmp_path / path.relative_to(SHORT_STORE)).read_bytes() == path.read_bytes()
