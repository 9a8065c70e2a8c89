"""Whatever this package writes, renames or removes passes `cortex_replay/disk.py`: one door, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "cortex_replay"
MODULES: Final = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "disk.py")

OF_OS: Final = frozenset(
    """open mkdir makedirs mknod mkfifo remove unlink rmdir removedirs rename renames replace link symlink
    chmod lchmod fchmod chown lchown fchown truncate ftruncate utime write pwrite writev pwritev sendfile
    posix_fallocate copy_file_range setxattr removexattr chflags""".split()  # noqa: SIM905
)
OF_PATHS: Final = frozenset(
    ["write_text", "write_bytes", "mkdir", "rmdir", "touch", "symlink_to", "hardlink_to", "chmod", "lchmod"]
)
BY_ARGUMENTS: Final = {"unlink": 0, "rename": 1, "replace": 1}
"""How many arguments these take where they are a path's; those of a text or an open folder take others."""
MODULES_THAT_WRITE: Final = frozenset(
    {"tempfile", "shutil", "sqlite3", "dbm", "shelve", "zipfile", "tarfile"}
)
ALLOWED: Final = {
    # Reading, with flags that follow no link and wait for no pipe.
    ("config/files.py", "os.open"): "reads a configuration",
    # Into files that the door has opened.
    ("engine/claims.py", "os.ftruncate"): "a claim of ours, opened by Folder.open_private",
    ("engine/claims.py", "os.pwrite"): "a claim of ours, opened by Folder.open_private",
    # No file at all.
    ("cli/output.py", "os.open"): "the null device",
    ("admin/stdio.py", "os.write"): "standard output",
    ("run/mcp/stdio/frames.py", "os.write"): "a pipe: to a client, or to a server",
}


def is_writing_mode(node: ast.Call, position: int, *, of_path: bool = False) -> bool:
    """Whether a call of ``open`` may change a file; one whose mode nobody can read may."""
    given = [word.value for word in node.keywords if word.arg == "mode"]
    mode = given[0] if given else node.args[position] if len(node.args) > position else None
    match mode:
        case None:
            return False
        case ast.Constant(value=str(text)):
            return set(text) <= set("rwaxbtU+") and bool(set(text) & set("wax+"))
        case ast.Name(id=name) if of_path and not given:  # many things have an `open` of their own
            return name in ("mode", "how", "flags")
    return not of_path or bool(given)


def writes_in(source: str) -> Iterator[str]:
    """Every call that may write, rename or remove, however the module got hold of it."""
    nodes = list(ast.walk(ast.parse(source)))
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    yield from sorted(name for name in names.values() if name.partition(".")[0] in MODULES_THAT_WRITE)
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute):
            name = dotted(node, names)
            module, _, function = name.rpartition(".")
            if module in ("os", "posix") and function in OF_OS:  # also where it is only handed on
                yield name
        if isinstance(node, ast.Call):
            yield from writing_call(node, names)


def writing_call(node: ast.Call, names: dict[str, str]) -> Iterator[str]:
    match node.func:
        case ast.Name(id="open") if is_writing_mode(node, 1):
            yield "open"
        case ast.Attribute(value=ast.Name(id="io" | "codecs" | "builtins"), attr="open"):
            yield "io.open"
        case ast.Attribute(attr="open") if is_writing_mode(node, 0, of_path=True):
            yield "Path.open"
        case ast.Attribute(attr=attr) if attr in OF_PATHS:
            yield attr
        case ast.Attribute(attr=attr, value=value) if BY_ARGUMENTS.get(attr) == len(node.args):
            if not is_module(value, names) and not is_store(value):
                yield f"Path.{attr}"
        case ast.Name(id="getattr") | ast.Name(id="__import__"):
            if any(isinstance(arg, ast.Name) and names.get(arg.id) == "os" for arg in node.args) and not (
                isinstance(node.args[1], ast.Constant) and str(node.args[1].value).startswith("O_")
            ):
                yield "getattr(os)"


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, names)}.{node.attr}"
    return ""


def is_module(node: ast.expr, names: dict[str, str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def is_store(node: ast.expr) -> bool:
    """``Store.replace`` stages a fixture."""
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return last.lstrip("_") == "store"


@pytest.fixture(scope="module")
def found() -> set[tuple[str, str]]:
    """Each module, and how it writes."""
    modules = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in MODULES}
    return {(name, call) for name, source in modules.items() for call in writes_in(source)}


def test_no_module_writes_by_itself(found: set[tuple[str, str]]) -> None:
    """But through `cortex_replay/disk.py`."""
    assert len(MODULES) > 100
    assert found - ALLOWED.keys() == set()


def test_the_list_of_exceptions_is_not_longer_than_it_must_be(found: set[tuple[str, str]]) -> None:
    assert ALLOWED.keys() - found == set()


@pytest.mark.parametrize(
    "source",
    [
        "open('a', 'w')",
        "open('a', mode='ab')",
        "open('a', how)",
        "import io\nio.open('a', 'w')",
        "import os\nos.open('a', os.O_RDWR)",
        "import os as system\nsystem.unlink('a')",
        "from os import rename as r\nr('a', 'b')",
        "import os\nlist(map(os.remove, names))",
        "import os\ngetattr(os, 'un' + 'link')('a')",
        "from pathlib import Path\nPath('a').write_text('x')",
        "path.write_bytes(b'')",
        "(path / 'x').open('w')",
        "path.open(mode='r+')",
        "path.unlink()",
        "folder.unlink(missing_ok=True)",
        "path.open(mode)",
        "path.replace(other)",
        "path.rename(other)",
        "path.touch()",
        "path.symlink_to('x')",
        "path.parent.mkdir(parents=True)",
        "path.chmod(0o600)",
        "import shutil\nshutil.rmtree('a')",
        "from shutil import copy as c",
        "from tempfile import TemporaryDirectory",
        "import tempfile as t",
        "def f():\n    import os\n    os.truncate('a', 0)",
    ],
)
def test_the_check_sees_a_planted_write(source: str) -> None:
    assert list(writes_in(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "path.read_text()",
        "path.open('rb')",
        "open('a')",
        "'a'.replace('b', 'c')",
        "from dataclasses import replace\nreplace(value, x=1)",
        "folder.unlink('a')",
        "folder.rename('a', other, 'b')",
        "self._store.replace(fixture)",
        "Store.open(root, verify='on-read')",
        "import os\nos.fsync(1)",
        "import os\ngetattr(os, 'O_NOFOLLOW', 0)",
    ],
)
def test_the_check_lets_reading_pass(source: str) -> None:
    assert list(writes_in(source)) == []
