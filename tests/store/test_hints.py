"""A refusal tells what probably happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.fixture import Answer
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.hints import for_shard
from tests.builder import StoreBuilder, ask, fixture_of


def hint(builder: StoreBuilder) -> str:
    (finding,) = builder.findings()
    return finding.hint or ""


def first_file(builder: StoreBuilder) -> Path:
    return builder.root / next(iter(builder.files))


def test_only_the_line_ends_differ(builder: StoreBuilder) -> None:
    """A checkout with autocrlf."""
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    assert "CRLF" in hint(builder)
    assert ".gitattributes" in hint(builder)


def test_an_lfs_pointer(builder: StoreBuilder) -> None:
    """The file was never fetched."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    first_file(builder).write_bytes(pointer)
    assert "git lfs pull" in hint(builder)

    builder.write()
    builder.write_index(pointer)
    assert "git lfs pull" in hint(builder)


@pytest.mark.parametrize("where", ["index", "file"])
def test_a_merge_conflict(builder: StoreBuilder, where: str) -> None:
    """As git leaves it; tests/store/index/test_grid.py makes a real one."""
    path = builder.root / "INDEX.toml" if where == "index" else first_file(builder)
    path.write_text(f"<<<<<<< HEAD\n{path.read_text()}=======\n>>>>>>> other\n")

    assert "run: cortex-replay resolve" in hint(builder)


def test_an_index_from_before_a_re_record_in_place(builder: StoreBuilder) -> None:
    """The file is a whole fixture of the same key."""
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"One.", b"Uno."))

    assert "before a re-record" in hint(builder)


def test_an_index_from_before_a_re_record_under_a_new_name(builder: StoreBuilder) -> None:
    """The old file is gone and a new one of the same key is there: both say it."""
    first_file(builder).unlink()
    rows = list(builder.fixtures)
    builder.files.pop(rows[0].path)
    builder.add_fixture(fixture_of(ask("What is one?"), Answer("Uno.")))
    builder.fixtures = rows
    builder.write()
    findings = builder.findings()

    assert [finding.code for finding in findings] == ["missing", "unlisted"]
    assert all("before a re-record" in (finding.hint or "") for finding in findings)


def test_swapped_files(builder: StoreBuilder) -> None:
    """Whole fixtures under each other's names."""
    one, two = (builder.root / path for path in builder.files)
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)

    assert all("another key" in (finding.hint or "") for finding in builder.findings())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: b"\xef\xbb\xbf" + data, "byte order mark"),
        (lambda data: data.replace(b"\n", b"\r\n"), "CRLF"),
        (lambda data: data + b"[table]\n", "version control"),
        (lambda data: data + b"\xff", "version control"),
    ],
)
def test_an_index_outside_the_grammar(builder: StoreBuilder, change: object, word: str) -> None:
    """The likeliest causes are named."""
    builder.write_index(change((builder.root / "INDEX.toml").read_bytes()))  # type: ignore[operator]

    assert word in hint(builder)


def test_a_missing_exchange_is_no_re_record(builder: StoreBuilder) -> None:
    """Nor is an unlisted file that is no fixture its new answer."""
    builder.add_exchange(b"{}", "e.json", key="0" * 64)
    builder.write()
    (builder.root / "fixtures/exchanges/e.json").unlink()
    (builder.root / "fixtures/junk.json").write_bytes(b"{}")

    assert not any("re-record" in (finding.hint or "") for finding in builder.findings())


def test_no_finding_quotes_what_a_fixture_says(builder: StoreBuilder) -> None:
    """A report may land in a public log."""
    path = first_file(builder)
    for secret in (
        b'"text": "hunter2"',
        b'"text": hunter2',
        b'"hunter2": 1, "text": 5',
        b'"text": "\\ud800hunter2"',
    ):
        path.write_bytes(path.read_bytes().replace(b'"text": "One."', secret))
        for finding in builder.findings():
            assert "hunter2" not in f"{finding}{finding.hint}"


def test_a_file_that_was_listed_with_other_line_ends(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    fixture = fixture_of(ask("q"), Answer("a"))
    builder.add_bytes(render_fixture(fixture).replace(b"\n", b"\r\n"), fixture.key)
    builder.write()
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))

    assert "it was listed with CRLF and now has LF" in hint(builder)


def test_a_shard_with_other_bytes() -> None:
    data = b"[[fixture]]\n"

    assert "git lfs pull" in for_shard(blake3_hex(data), b"version https://git-lfs.github.com/spec/v1\n")
    assert "CRLF" in for_shard(blake3_hex(data), data.replace(b"\n", b"\r\n"))
    assert "CRLF" not in for_shard(blake3_hex(data), b"other\n")
