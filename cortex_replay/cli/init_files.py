"""The files that ``init`` writes or adds to. All are looked at first, then all are written.

What is there stays: a line is added, or nothing is. Where a line cannot be added safely (a link, a spelling
that we do not know), the user is told what to add.
"""

from __future__ import annotations

import configparser
import errno
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from cortex_replay import disk
from cortex_replay.config.files import OWN_NAME, PYPROJECT
from cortex_replay.errors import StoreIo
from cortex_replay.store.git.attributes import MAX_LIST_BYTES, lines_to_add
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, escape

__all__ = [
    "Outcome",
    "Step",
    "add_lines",
    "found",
    "new_file",
    "read_text",
    "refuse_unsafe_store",
    "wire_hooks",
    "wire_pytest",
    "wire_store_setting",
]

Outcome = Literal["wrote", "added to", "found", "left alone"]
_PLAIN: Final = re.compile(r"[\w./ =+@-]+", re.ASCII)
"""What means itself in YAML, behind a word."""
_HOOK: Final = """\
{indent}    - id: cortex-replay-{name}
{indent}      name: cortex-replay {name}
{indent}      entry: {entry}
{indent}      language: system
{indent}      always_run: true
{indent}      pass_filenames: false
"""
_REPOS: Final = re.compile(r"^repos:[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*(?=([ ]*)- )", re.MULTILINE)
"""A list of repositories in the usual spelling, up to its first one."""
_MORE_SETTINGS: Final = b'# max_age = "90d"  # verify warns of recordings that are older\n'
_TOML_SECTION: Final = r"^\[{name}\][ \t]*\n"
_INI_FILES: Final = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is set up: what was found there, and what is to stand there."""

    path: Path
    outcome: Outcome
    data: bytes | None = None
    """What is to stand there; none where nothing changes, or where another hand writes it."""
    mode: int = 0o644
    note: str = ""
    """For what was left alone: what the user may do."""

    @property
    def writes(self) -> bool:
        return self.outcome in ("wrote", "added to")

    def write(self) -> None:
        """Put it in its place, with the folder that it stands in."""
        if self.writes and self.data is not None:
            disk.write_file(self.path, self.data, mode=self.mode, make_folder=True)


def found(path: Path) -> Step:
    """Something that is as it should be."""
    return Step(path, "found")


def refuse_unsafe_store(root: Path) -> None:
    """Look at everything that setting up a store writes to.

    Raises:
        StoreIo: A link, or something else that is no folder, is in the way; or files are, of a store that is
            to be made.
    """
    existing = root.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    _refuse_link_to(existing)
    if existing == root.absolute():
        if (root / INDEX_NAME).is_symlink():
            raise StoreIo(f"{escape(str(root / INDEX_NAME))} is a link; nothing was written")
        has_index = os.path.lexists(root / INDEX_NAME)
        if not has_index and (root / NESTED_FOLDER).is_dir() and any((root / NESTED_FOLDER).iterdir()):
            raise StoreIo(
                f"{escape(str(root / NESTED_FOLDER))} holds files that no index lists; nothing was written. "
                "If they are no recordings, put the store elsewhere: cortex-replay init --store tests/llm. "
                "If they are, list them first: cortex-replay index"
            )
        for name in (NESTED_FOLDER, STATE_FOLDER):
            if os.path.lexists(root / name):
                _refuse_links_below(root / name)


def new_file(path: Path, text: str) -> Step:
    """A file to be written where there is none."""
    if os.path.lexists(path):
        return Step(path, "left alone", note="it is there already")
    return Step(path, "wrote", text.encode())


def add_lines(path: Path, lines: Iterable[str]) -> Step:
    """A list with those lines at its end that are not in it yet.

    Raises:
        StoreIo: It is no plain file of a sensible size.
    """
    if not os.path.lexists(path):
        return Step(path, "wrote", lines_to_add(b"", lines))
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_LIST_BYTES:
        what = "a plain file" if not stat.S_ISREG(facts.st_mode) else f"smaller than {MAX_LIST_BYTES} bytes"
        raise StoreIo(f"{escape(str(path))} is not {what}, so no lines can be added; nothing was written")
    present, mode = _read(path)
    missing = lines_to_add(present, lines)
    return Step(path, "added to", present + missing, mode) if missing else found(path)


def wire_hooks(path: Path, store: str) -> Step:
    """The hooks for pre-commit, in its configuration: a new one, or before the first of its repositories.

    Args:
        path: Of the configuration.
        store: Its place below the top of the project, without control characters.
    """
    if not os.path.lexists(path):
        return Step(path, "wrote", f"repos:\n{_render_hooks(store, '  ')}".encode())
    advice = f"add to it:\nrepos:\n{_render_hooks(store, '  ')}"
    text, mode = read_text(path)
    if text is None:
        return Step(path, "left alone", note=advice)
    if re.search(r"^[ -]*id: cortex-replay-verify[ \t]*$", text, re.MULTILINE):
        return found(path)
    repos = _REPOS.search(text)
    if repos is None:
        return Step(path, "left alone", note=advice)
    added = text[: repos.end()] + _render_hooks(store, repos[1]) + text[repos.end() :]
    return Step(path, "added to", added.encode(), mode)


def wire_pytest(folder: Path, store: str, after: Step | None = None) -> Step:
    """Where pytest finds the store: a line in the file that it takes its options from.

    Args:
        folder: Where pytest's options stand, or would.
        store: The store's place below it.
        after: What is written before, perhaps to the same file.
    """
    for name in ("pytest.toml", ".pytest.toml"):
        if os.path.lexists(folder / name):
            return _wire_toml(folder / name, ("pytest",), "llm_store", store, after)
    for name, section in _INI_FILES[:2]:
        if os.path.lexists(folder / name):
            return _wire_ini(folder / name, section, store)
    text, _ = read_text(folder / PYPROJECT)
    tables = _parse_toml(text or "") or {}
    pytest_table = tables.get("tool", {}).get("pytest", {})
    in_ini = [(name, section) for name, section in _INI_FILES[2:] if _has_section(folder / name, section)]
    if "ini_options" in pytest_table or (text is not None and not pytest_table and not in_ini):
        return _wire_toml(folder / PYPROJECT, ("tool", "pytest", "ini_options"), "llm_store", store, after)
    if pytest_table:
        return _wire_toml(folder / PYPROJECT, ("tool", "pytest"), "llm_store", store, after)
    for name, section in in_ini:
        return _wire_ini(folder / name, section, store)
    return _wire_ini(folder / "pytest.ini", "pytest", store)


def wire_store_setting(folder: Path, store: str) -> Step:
    """Where every command finds the store without being told: the project's settings."""
    if store.startswith("~"):
        return Step(folder / OWN_NAME, "left alone", note="it cannot name a folder called ~; use --store")
    text, _ = read_text(folder / PYPROJECT)
    tables = _parse_toml(text or "") or {}
    if "cortex-replay" in tables.get("tool", {}):
        return _wire_toml(folder / PYPROJECT, ("tool", "cortex-replay"), "store", store)
    step = _wire_toml(folder / OWN_NAME, (), "store", store)
    return replace(step, data=step.data + _MORE_SETTINGS) if step.outcome == "wrote" and step.data else step


def _wire_toml(
    path: Path, section: tuple[str, ...], name: str, value: str, after: Step | None = None
) -> Step:
    line = f"{name} = {_toml_string(value)}\n"
    header = f"[{'.'.join(section)}]\n" if section else ""
    advice = f"add to it: {header.rstrip()} {line.rstrip()}".replace(":  ", ": ")
    if not os.path.lexists(path):
        return Step(path, "wrote", f"{header}{line}".encode())
    text, mode = read_text(path)
    if after is not None and after.path == path and after.data is not None:
        text = after.data.decode()
    before = _parse_toml(text) if text is not None else None
    if text is None or before is None:
        return Step(path, "left alone", note=advice)
    present = _table_of(before, section).get(name)
    if present is not None:
        return _judge(path, name, str(present), value)
    if not section:
        added = line + text
    elif match := re.search(_TOML_SECTION.format(name=re.escape(".".join(section))), text, re.MULTILINE):
        added = text[: match.end()] + line + text[match.end() :]
    else:
        added = f"{text.rstrip()}\n\n{header}{line}".lstrip()
    wired = _parse_toml(added)
    if wired is None or _without(wired, section, name) != _without(before, section, name):
        return Step(path, "left alone", note=advice)
    return Step(path, "added to", added.encode(), mode)


def _wire_ini(path: Path, section: str, value: str) -> Step:
    line = f"llm_store = {value}\n"
    advice = f"add to it, below [{section}]: {line.rstrip()}"
    is_new = not os.path.lexists(path)
    text, mode = ("", 0o644) if is_new else read_text(path)
    before = _parse_ini(text) if text is not None else None
    if text is None or before is None:
        return Step(path, "left alone", note=advice)
    present = before.get(section, {}).get("llm_store")
    if present is not None:
        return _judge(path, "llm_store", present, value)
    match = re.search(rf"^\[{re.escape(section)}\][ \t]*\n", text, re.MULTILINE)
    if match is not None:
        added = text[: match.end()] + line + text[match.end() :]
    else:
        added = f"{text.rstrip()}\n\n[{section}]\n{line}".lstrip()
    after = _parse_ini(added) or {}
    rest = dict(after.get(section, {}))
    if rest.pop("llm_store", None) != value or {**after, section: rest} != {section: {}, **before}:
        return Step(path, "left alone", note=advice)
    return Step(path, "wrote" if is_new else "added to", added.encode(), mode)


def _judge(path: Path, name: str, present: str, wanted: str) -> Step:
    """A setting that is there already stays, whatever it says."""
    if os.path.normpath(present) == os.path.normpath(wanted):
        return found(path)
    return Step(path, "left alone", note=f"{name} names another store there: {present}, not {wanted}")


def _table_of(tables: dict[str, Any], section: tuple[str, ...]) -> dict[str, Any]:
    for name in section:
        tables = tables.get(name, {})
    return tables


def _without(tables: dict[str, Any], section: tuple[str, ...], name: str) -> dict[str, Any]:
    """The tables without one value, and with the section that it is in, whether it was there or not."""
    if not section:
        return {key: value for key, value in tables.items() if key != name}
    return tables | {section[0]: _without(tables.get(section[0], {}), section[1:], name)}


def _parse_toml(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _parse_ini(text: str) -> dict[str, dict[str, str]] | None:
    parser = configparser.RawConfigParser(default_section="\0", strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return {name: dict(parser[name]) for name in parser.sections()}


def _has_section(path: Path, section: str) -> bool:
    text, _ = read_text(path)
    return section in (_parse_ini(text or "") or {})


def _toml_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(path: Path) -> tuple[bytes, int]:
    with disk.Folder.reach(path.parent) as folder:
        return folder.read(path.name, MAX_LIST_BYTES), stat.S_IMODE(path.lstat().st_mode)


def read_text(path: Path) -> tuple[str | None, int]:
    """The text of a plain file of a sensible size, and its mode; none where it is no such file."""
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_LIST_BYTES:
            return None, 0
        data, mode = _read(path)
        text = data.decode()
    except (OSError, UnicodeDecodeError):
        return None, 0
    return (None, 0) if "\r" in text else (text, mode)


def _render_hooks(store: str, indent: str) -> str:
    """One repository with our hooks; pre-commit reads YAML and then splits ``entry`` like a shell."""
    store = f"./{store}" if store.startswith("-") else store
    hooks = "".join(
        _HOOK.format(
            indent=indent, name=name, entry=_yaml(f"cortex-replay {name}{flags} --store {shlex.quote(store)}")
        )
        for name, flags in (("verify", " --staged"), ("scan", ""))
    )
    return f"{indent}- repo: local\n{indent}  hooks:\n{hooks}"


def _yaml(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def _refuse_link_to(folder: Path) -> None:
    try:
        disk.Folder.reach(folder).close()
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
        raise StoreIo(
            f"{escape(str(folder))} is no folder, or one behind a link; nothing was written"
        ) from None


def _refuse_links_below(folder: Path) -> None:
    """Also those in folders below: where a fixture goes depends on its name."""
    _refuse_link_to(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (path := Path(place, name)).is_symlink():
                raise StoreIo(f"{escape(str(path))} is a link; nothing was written")
