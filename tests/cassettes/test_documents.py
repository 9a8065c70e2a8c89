"""Documents of unknown origin: only data comes out of them, and soon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cortex_replay.cassettes import documents
from cortex_replay.cassettes.documents import CassetteError, read_document

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
HOSTILE = {
    "a python object": ("a: !!python/object/apply:os.system ['touch pwned']", "wants a Python object"),
    "a python name": ("a: !!python/name:os.system", "wants a Python object"),
    "a python text": ("a: !!python/unicode hello", "wants a Python object"),
    "a file": ("- !!python/object/new:_io.BytesIO {state: [x]}", "wants a Python object"),
    "another tag": ("a: !secret x", "not data"),
    "aliases upon aliases": (BOMB, "aliases stand for more"),
    "one long text, again and again": (
        f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 5000}]",
        "aliases stand for more",
    ),
    "itself": ("a: &a [*a]", "an alias stands for nothing"),
    "no anchor": ("a: *b", "it is not YAML|an alias stands"),
    "lists in lists": ("[" * 100_000, "nested more|not YAML"),
    "lists in lists, in lines": ("- " * 100_000, "nested more|not YAML"),
    "objects in objects": ("".join(f"{' ' * i}a:\n" for i in range(3000)), "nested more|not YAML"),
    "very many parts": ("[" + "[]," * 3000 + "]", "parts"),
    "two documents": ("a: 1\n---\nb: 2\n", "several documents"),
    "a key twice": ("a: 1\na: 2\n", "one key twice"),
    "a list for a key": ("? [a]\n: b\n", "no text"),
    "not YAML": ("a: [1, 2", "it is not YAML.* in line"),
    "control characters": ("a: \x00\x01", "it is not YAML"),
    "bytes that are none": ("a: !!binary '%%%'", "not base64"),
}


@pytest.mark.parametrize(("text", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_more_than_data_is_refused_at_once(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(documents, "_MAX_EVENTS", 5900)  # to read a million takes seconds
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(CassetteError, match=reason) as caught:
        read_document(file)

    assert len(str(caught.value)) < 200
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    with file.open("wb") as written:
        written.truncate(documents.MAX_BYTES + 1)
    with pytest.raises(CassetteError, match="more than 64 MiB"):
        read_document(file)


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"a": NaN}'), ("a.json", "[" * 10_000), ("a.json", "a: 1")]
)
def test_json_is_read_as_strictly(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CassetteError, match="it is not JSON"):
        read_document(tmp_path / name)


def test_an_error_quotes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: sk-very-secret: b: [\n")
    with pytest.raises(CassetteError) as caught:
        read_document(tmp_path / "a.yaml")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {
            "a": [
                1,
                -2,
                0.5,
                1e-05,
                1e300,
                True,
                False,
                None,
                "",
                "~",
                "null",
                "yes",
                "1",
                "1.5",
                "1e5",
                "0x1",
                "1:2",
            ]
        },
        {
            "text": "a\nb\r\nc\ttab  é 🙂 \u2028 'quoted' \"twice\" # : - \x85",
            "bytes": b"\x00\xff\x1f\x8b",
            "date": "2023-06-01",
        },
        {"long": "word " * 200, "blank": "\n\n a\n\n", "deep": [[[{"a": {"b": [{}]}}]]], "big": 2**62},
        [],
    ],
)
@pytest.mark.parametrize("dumper", [yaml.Dumper, yaml.CDumper])
def test_what_vcrpy_writes_is_read_as_it_was(value: Any, dumper: Any, tmp_path: Path) -> None:
    """The dumpers that it uses; and aliases, which they make of a value that stands twice."""
    shared = [value, value]
    (tmp_path / "a.yaml").write_text(yaml.dump(shared, Dumper=dumper), "utf-8")

    assert read_document(tmp_path / "a.yaml") == shared


def test_json_in_a_file_of_any_name(tmp_path: Path) -> None:
    for name in ("a.json", "a.yaml", "a"):
        (tmp_path / name).write_text(json.dumps({"a": [1, "x"]}, indent=4))
        assert read_document(tmp_path / name) == {"a": [1, "x"]}
