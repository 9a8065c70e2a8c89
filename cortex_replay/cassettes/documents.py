"""YAML and JSON of unknown origin, found and read into plain values.

YAML is read event by event. There are texts, bytes, numbers, booleans, nulls, lists and objects with texts
for keys, and nothing else: no tag makes an object of a class, no alias makes more of a document than a
document may have, and no depth ends the process.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cortex_replay.disk import absolute_path
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.strict_json import JsonError, loads

__all__ = ["MAX_BYTES", "CassetteError", "cassettes_in", "read_document"]

MAX_BYTES: Final = 64 * 2**20
"""Of a file, and of what its aliases stand for."""
_MAX_DEPTH: Final = 64
_MAX_EVENTS: Final = 1_000_000
_STANDARD: Final = "tag:yaml.org,2002:"
_NULLS: Final = frozenset(["", "~", "null", "Null", "NULL"])
_BOOLS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,400}\.[0-9]{0,400}(?:[eE][-+][0-9]{1,4})?")
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_START: Final = re.compile(rb"(?m)^(?:interactions:|- request:)|^\s*\{\s*\"(?:interactions|version)\"")


class CassetteError(ValueError):
    """A file, or an interaction, that cannot be read; the message says why, without quoting it."""


def _is_cassette(path: Path) -> bool:
    """Whether a file whose name says nothing begins as a cassette does."""
    try:
        with path.open("rb") as file:
            return _START.search(file.read(512)) is not None
    except OSError:
        return False


def cassettes_in(path: Path) -> Iterator[Path]:
    """The file itself; or whatever begins as a cassette does in a folder, and every YAML and JSON file of a
    folder for cassettes: there, one that cannot be read is to be told of.

    Hidden folders and stores are left out.
    """
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        if INDEX_NAME in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        is_theirs = "cassette" in str(absolute_path(Path(folder))).lower()
        for name in sorted(files):
            file = Path(folder, name)
            if (is_theirs and file.suffix.lower() in _SUFFIXES) or (file.is_file() and _is_cassette(file)):
                yield file


def read_document(path: Path) -> Any:
    """The one value in a file.

    Raises:
        CassetteError: It is too large, malformed, more than data, or elsewhere.
    """
    if path.is_symlink():  # of a stranger's, perhaps: what it leads to is not for this store
        raise CassetteError("it is a link; name the file itself")
    if not path.is_file():
        raise CassetteError("it is not a file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CassetteError(f"it cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise CassetteError(f"it has more than {MAX_BYTES >> 20} MiB")
    if path.suffix.lower() != ".json" and data.lstrip()[:1] != b"{":
        return _yaml(data)
    try:
        return loads(data)
    except JsonError as error:
        if path.suffix.lower() != ".json":
            return _yaml(data)  # YAML may begin so, too
        raise CassetteError(f"it is not JSON: {error}") from None


def _yaml(data: bytes) -> Any:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - only imports need it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(yaml)
    try:
        for event in yaml.parse(data, Loader=loader):
            builder.take(event)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        raise CassetteError(f"it is not YAML: {problem or 'it has odd characters'}{line}") from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, CassetteError):
            raise
        raise CassetteError("it is not YAML that can be read") from None
    return builder.value


class _Builder:
    """Puts one value together from the events of a document."""

    def __init__(self, yaml: Any) -> None:
        self.value: Any = None
        self._yaml = yaml
        self._open: list[_Container] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._events = 0
        self._documents = 0
        self._unfolded = 0

    def take(self, event: Any) -> None:
        yaml = self._yaml
        self._events += 1
        if self._events > _MAX_EVENTS:
            raise CassetteError(f"it has more than {_MAX_EVENTS} parts")
        if isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event), len(event.value) + 1, event.anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event, "map")
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event, "seq")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done = self._open.pop()
            self._put(done.value, done.weight, done.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._unfold(event.anchor)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise CassetteError("it holds several documents")

    def _begin(self, value: Any, event: Any, kind: str) -> None:
        if event.tag not in (None, "!", f"{_STANDARD}{kind}"):
            raise CassetteError(_about_tag(event))
        if len(self._open) >= _MAX_DEPTH:
            raise CassetteError(f"it is nested more than {_MAX_DEPTH} deep")
        self._open.append(_Container(value, event.anchor))

    def _unfold(self, anchor: str) -> None:
        if anchor not in self._anchors:
            raise CassetteError("an alias stands for nothing, or for itself")
        value, weight = self._anchors[anchor]
        self._unfolded += weight
        if self._unfolded > MAX_BYTES:
            raise CassetteError(f"its aliases stand for more than {MAX_BYTES >> 20} MiB")
        self._put(value, weight, None)

    def _put(self, value: Any, weight: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, weight
        if self._open:
            self._open[-1].add(value, weight)
        else:
            self.value = value


class _Container:
    """A list or an object that is not complete yet."""

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.weight = 1
        """What it would take to write it without aliases."""
        self._key: Any = None
        self._has_key = False

    def add(self, value: Any, weight: int) -> None:
        self.weight += weight
        if isinstance(self.value, list):
            self.value.append(value)
        elif self._has_key:
            self.value[self._key] = value
            self._has_key = False
        else:
            if not isinstance(value, str | int | float | bool) and value is not None:
                raise CassetteError("an object has a key that is no text")
            self._key = value if isinstance(value, str) else str(value)
            if self._key in self.value:
                raise CassetteError("an object has one key twice")
            self._has_key = True


def _about_tag(event: Any) -> str:
    tag: str = event.tag
    line = event.start_mark.line + 1
    if tag.startswith(f"{_STANDARD}python/"):
        return (
            f"line {line} wants a Python object ({tag.removeprefix(_STANDARD)[:80]!r}), which is never made"
        )
    return f"line {line} has a tag that is not data ({tag[:80]!r})"


def _scalar(event: Any) -> Any:
    text: str = event.value
    tag = event.tag
    if tag in (None, "!"):
        return _plain(text) if tag is None and event.implicit[0] else text
    kind = tag.removeprefix(_STANDARD)
    if kind in ("str", "timestamp"):
        return text
    if kind == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (ValueError, binascii.Error):
            raise CassetteError(f"line {event.start_mark.line + 1} has bytes that are not base64") from None
    if kind in ("null", "bool", "int", "float"):
        return _plain(text)
    raise CassetteError(_about_tag(event))


def _plain(text: str) -> Any:
    """A scalar without quotes, as those who write cassettes mean it."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
