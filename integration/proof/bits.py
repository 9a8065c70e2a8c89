"""One bit that is another one: on a disk, in a merge, or because somebody edited a file."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from integration.install import needed
from integration.mocks import AIMOCK_VERSION, aimock_package
from integration.proof.figures import Row, Scale, Tell
from integration.proof.git_peer import git, git_version
from integration.proof.vcr_cassettes import VCRPY, load, record
from tests.store.test_bitflips import FILES, FIXTURES, served, write_store
from tests.torture.plans import SCRATCH

__all__ = ["prove"]

_REFUSED: Final = "refused"
_SAME: Final = "served as recorded"
_MISSED: Final = "missed"
_WRONG: Final = "served wrong"
_CALLS: Final = [(f"What is the capital of country {n}?", f"It is city {n}.") for n in range(4)]
_AIMOCK: Final = Path(__file__).with_name("aimock_bits.mjs")


def prove(scale: Scale, tell: Tell) -> list[Row]:
    stride = scale.pick(397, 7, 1)
    fixtures = FIXTURES[: scale.pick(2, 4, len(FIXTURES))]
    kinds = [*fixtures, "INDEX.toml", "cassette.yaml", "cassette.json", "aimock", "git"]
    total, done = len(kinds), 0
    found: dict[str, Counter[str]] = {"fixtures": Counter()}
    for path in fixtures:
        found["fixtures"] += _flip_ours([path], path, stride)
        tell(done := done + 1, total)
    found["index"] = _flip_ours(FIXTURES, "INDEX.toml", stride)
    tell(done := done + 1, total)
    for name in ("cassette.yaml", "cassette.json"):
        found[name] = _flip_theirs(name, stride)
        tell(done := done + 1, total)
    found["aimock"] = _flip_aimock(stride)
    tell(done := done + 1, total)
    found["git"] = _flip_git(scale.pick(97, 7, 1))
    tell(done := done + 1, total)
    return [
        _row("fixtures", "cortex-replay", f"{len(fixtures)} fixtures", found["fixtures"]),
        _row("index", "cortex-replay", "the index of all fixtures", found["index"]),
        _row("vcrpy-yaml", VCRPY, "a cassette, as YAML", found["cassette.yaml"]),
        _row("vcrpy-json", VCRPY, "a cassette, as JSON", found["cassette.json"]),
        _row(
            "aimock",
            f"aimock {AIMOCK_VERSION}",
            "a file of fixtures, with `--validate-on-load`",
            found["aimock"],
        ),
        _row("git", git_version(), "the object of a file, for comparison", found["git"]),
    ]


def _row(name: str, who: str, what: str, found: Counter[str]) -> Row:
    return Row(
        name, who, what, found.total(), {one: found[one] for one in (_REFUSED, _SAME, _MISSED, _WRONG)}
    )


def _flipped(data: bytes, stride: int) -> Iterator[bytes]:
    for place in range(0, 8 * len(data), stride):
        byte, bit = divmod(place, 8)
        yield data[:byte] + bytes([data[byte] ^ (1 << bit)]) + data[byte + 1 :]


def _flip_ours(paths: list[str], changed: str, stride: int) -> Counter[str]:
    found: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        root = Path(folder)
        index = write_store(root, paths)
        whole = served(root)
        for data in _flipped(index if changed == "INDEX.toml" else FILES[changed], stride):
            (root / changed).write_bytes(data)
            answers = served(root)
            found[_REFUSED if answers is None else _SAME if answers == whole else _WRONG] += 1
    return found


def _flip_theirs(name: str, stride: int) -> Counter[str]:
    """A call gets what stands beside its own request; one that is not found is asked again."""
    found: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        path = Path(folder) / name
        record(path, _CALLS)
        data, whole = path.read_bytes(), load(path) or {}
        for changed in _flipped(data, stride):
            path.write_bytes(changed)
            there = load(path)
            if there is None:
                found[_REFUSED] += 1
            elif any(there.get(body, answer) != answer for body, answer in whole.items()):
                found[_WRONG] += 1
            else:
                found[_SAME if there.keys() >= whole.keys() else _MISSED] += 1
    return found


def _flip_aimock(stride: int) -> Counter[str]:
    """Its own functions, in one process: a server for each bit would take half a second."""
    fixtures = [
        {"match": {"userMessage": question}, "response": {"content": answer}} for question, answer in _CALLS
    ]
    with TemporaryDirectory(dir=SCRATCH) as folder:
        path = Path(folder) / "fixtures.json"
        path.write_text(json.dumps({"fixtures": fixtures}, indent=2))
        command: list[str | Path] = [
            needed("node", "run aimock"),
            _AIMOCK,
            aimock_package() / "index.js",
            path,
            str(stride),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Counter(json.loads(done.stdout))


def _flip_git(stride: int) -> Counter[str]:
    """A file that was committed, asked for with ``git show``."""
    found: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as name:
        folder = Path(name)
        git(folder, "init", "--quiet")
        whole = b"".join(f"{question} {answer}\n".encode() for question, answer in _CALLS)
        (folder / "file").write_bytes(whole)
        git(folder, "add", "file")
        git(folder, "commit", "--quiet", "--message", "one")
        object_id = git(folder, "rev-parse", "HEAD:file").stdout.decode().strip()
        path = folder / ".git/objects" / object_id[:2] / object_id[2:]
        path.chmod(0o600)
        for changed in _flipped(path.read_bytes(), stride):
            path.write_bytes(changed)
            shown = git(folder, "show", "HEAD:file")
            is_same = shown.stdout == whole
            found[_REFUSED if shown.returncode else _SAME if is_same else _WRONG] += 1
    return found
