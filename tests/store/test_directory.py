"""The file system at its worst: links, pipes, devices, sizes, races, and platforms."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cortex_replay import FixtureIntegrityFailed, Store, disk
from cortex_replay.errors import Finding
from cortex_replay.store.directory import _FIRST_READ, DirectorySource
from cortex_replay.store.trust import MAX_FIXTURE_BYTES
from tests.builder import StoreBuilder, ask
from tests.sampling import IS_TORTURE
from tests.waiting import LONGEST_S

IS_ROOT = os.geteuid() == 0


def make(kind: str, path: Path) -> None:
    """Put something that is no plain file at ``path``."""
    match kind:
        case "link inside":
            path.symlink_to(next(path.parent.rglob("*.json")))
        case "link outside":
            path.symlink_to("/etc/hostname")
        case "dangling link":
            path.symlink_to("nowhere.json")
        case "link loop":
            path.symlink_to(path.name)
        case "link to a folder":
            path.symlink_to(path.parent)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "socket":
            # A socket's path is short, so it is bound from its own folder.
            here = Path.cwd()
            os.chdir(path.parent)
            try:
                socket.socket(socket.AF_UNIX).bind(path.name)
            finally:
                os.chdir(here)
        case "device":
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero


KINDS = [
    "link inside",
    "link outside",
    "dangling link",
    "link loop",
    "link to a folder",
    "folder",
    "pipe",
    "socket",
]
KINDS += ["device"] if IS_ROOT else []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["listed", "unlisted", "index"])
def test_what_is_no_plain_file_is_refused_without_waiting(
    builder: StoreBuilder, kind: str, place: str
) -> None:
    """In the place of a listed file, beside them, or as the index itself; a pipe does not hang."""
    first = next(iter(builder.files))
    path = {
        "listed": builder.root / first,
        "unlisted": (builder.root / first).with_name("x.json"),
        "index": builder.root / "INDEX.toml",
    }[place]
    path.unlink(missing_ok=True)
    try:
        make(kind, path)
    except PermissionError:
        pytest.skip("devices cannot be made here")
    done = threading.Event()
    outcome: list[object] = []

    def check() -> None:
        outcome.append(builder.findings())
        done.set()

    threading.Thread(target=check, daemon=True).start()

    assert done.wait(LONGEST_S), "the check hangs"
    (findings,) = outcome
    assert isinstance(findings, list)
    assert ["index-unreadable" if place == "index" else "not-a-file"] == [
        finding.code for finding in findings
    ]
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(builder.root, verify="on-read")


def test_a_folder_that_is_a_link_is_refused(builder: StoreBuilder) -> None:
    """At any depth, the fixtures folder itself included."""
    folder = builder.root / "fixtures"
    folder.rename(builder.root / "elsewhere")
    folder.symlink_to("elsewhere")

    assert "not-a-file" in builder.codes()


def test_the_root_itself_may_be_a_link(builder: StoreBuilder, tmp_path: Path) -> None:
    """As in the reference: the user names it."""
    (tmp_path / "link").symlink_to(builder.root)

    assert len(Store.open(tmp_path / "link")) == 2


def test_a_pipe_that_takes_the_place_of_a_file_after_opening(builder: StoreBuilder) -> None:
    """Is refused on read, without waiting for a writer."""
    store = Store.open(builder.root, verify="on-read")
    path = builder.root / next(iter(builder.files))
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(FixtureIntegrityFailed, match="not a plain file"):
        store.get(*store.key(ask("What is one?")))


def test_a_name_that_is_not_utf8(builder: StoreBuilder) -> None:
    """Cannot be listed, so it must not be there."""
    name = os.fsencode(builder.root / "fixtures") + b"/\xff.json"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    (finding,) = builder.findings()

    assert finding.code == "unlisted"
    assert finding.path.isprintable()


def test_a_huge_file_is_refused_before_it_is_read(builder: StoreBuilder) -> None:
    """A sparse terabyte costs nothing; an index beyond its cap likewise."""
    path = builder.root / next(iter(builder.files))
    with path.open("wb") as file:
        file.truncate(2**40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert builder.codes() == ["too-large"]

    builder.write()
    with (builder.root / "INDEX.toml").open("r+b") as file:
        file.truncate(2**40)
    assert builder.codes() == ["index-unreadable"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_a_file_that_grows_while_it_is_read(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is read to its cap and no further."""
    source = DirectorySource(builder.root)
    (builder.root / "big").write_bytes(b"x" * 1000)
    small = os.stat_result((stat.S_IFREG, 0, 0, 0, 0, 0, 10, 0, 0, 0))
    monkeypatch.setattr(os, "fstat", lambda _: small)
    data = source.read("big", 100)

    assert isinstance(data, bytes)
    assert len(data) == 101


def test_short_reads_do_not_refuse_a_good_store(
    builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that gives a few bytes at a time is slow, not broken."""
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, count: read(descriptor, min(count, 7)))

    assert builder.findings() == []


def test_a_file_larger_than_one_read(tmp_path: Path) -> None:
    """Comes whole."""
    builder = StoreBuilder(tmp_path)
    builder.add("q", "x" * 200_000)
    builder.write()

    assert len(builder.open().get(*ask_key("q")).answers[0].text) == 200_000


@pytest.mark.parametrize("size", [_FIRST_READ - 1, _FIRST_READ, _FIRST_READ + 1])
def test_a_file_that_is_as_large_as_the_first_read(builder: StoreBuilder, size: int) -> None:
    """Also for who looks at many files and checks no hash: each of them comes whole."""
    row = builder.fixtures[0]
    (builder.root / row.path).write_bytes(b"x" * size)

    [(_, data)] = DirectorySource(builder.root).read_many([row], MAX_FIXTURE_BYTES)

    assert data == b"x" * size


def test_a_file_that_cannot_be_read_keeps_none_of_the_others_back(builder: StoreBuilder) -> None:
    """Whichever of many it is."""
    rows = builder.fixtures
    (builder.root / rows[0].path).unlink()
    source = DirectorySource(builder.root)

    for order in (rows, rows[::-1]):
        read = dict(source.read_many(order, MAX_FIXTURE_BYTES))
        assert [read[row] == builder.files[row.path] for row in rows] == [False, True]


def ask_key(question: str) -> tuple[str, str]:
    request = ask(question)
    return request.model, request.prompt_hash()


@pytest.mark.skipif(IS_ROOT, reason="root reads everything")
def test_a_file_without_permission(builder: StoreBuilder) -> None:
    """Is named with the reason of the system."""
    (builder.root / next(iter(builder.files))).chmod(0)

    assert builder.codes() == ["unreadable"]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(builder: StoreBuilder) -> None:
    """After a good check, a bad one, and many reads."""
    store = Store.open(builder.root, verify="on-read")
    before = open_descriptors()
    store.get(*store.key(ask("What is one?")))
    builder.findings()
    (builder.root / next(iter(builder.files))).unlink()
    (builder.root / "fixtures/sub").symlink_to("nowhere")
    builder.findings()

    assert before == open_descriptors()


def test_out_of_descriptors(builder: StoreBuilder) -> None:
    """A finding that names the limit, and no crash."""
    script = (
        "import os, resource, sys\n"
        "from cortex_replay.store.directory import DirectorySource\n"
        "from cortex_replay.store.check import check_store\n"
        "from pathlib import Path\n"
        "for limit in range(3, 12):\n"
        "    if os.fork() == 0:\n"
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 64))\n"
        "        found = check_store(DirectorySource(Path(sys.argv[1]))).findings\n"
        "        print([one.reason for one in found], flush=True)\n"
        "        os._exit(0)\n"
        "    assert os.wait()[1] == 0, limit\n"
    )
    command = [sys.executable, "-c", script, str(builder.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    outcomes = done.stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert len(outcomes) == 9
    assert "Too many open files" in outcomes[0]
    assert outcomes[-1] == "[]"


def test_swapping_files_while_reading_never_serves_foreign_bytes(builder: StoreBuilder) -> None:
    """Check and use are one read: a swapper in between wins nothing."""
    path = builder.root / next(iter(builder.files))
    good = path.read_bytes()
    foreign = good.replace(b"One.", b"Bad!")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for data in (foreign, good):
                temporary = path.with_suffix(".tmp")
                temporary.write_bytes(data)
                temporary.replace(path)

    thread = threading.Thread(target=swap)
    thread.start()
    served = refused = 0
    try:
        tries = 0
        while tries < (3000 if IS_TORTURE else 200) or not (served and refused):
            tries += 1
            store = Store.open(builder.root, verify="on-read")
            try:
                text = store.get(*ask_key("What is one?")).answers[0].text
            except FixtureIntegrityFailed:
                refused += 1
            else:
                assert text == "One."
                served += 1
    finally:
        stop.set()
        thread.join()


def test_reading_without_dir_fd_gives_the_same(
    builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The road for Windows, taken here: sound stores open, links are refused."""
    monkeypatch.setattr(disk, "_HAS_HANDLES", False)
    assert builder.findings() == []

    path = builder.root / next(iter(builder.files))
    path.rename(builder.root / "moved")
    path.symlink_to(builder.root / "moved")
    assert builder.codes() == ["not-a-file"]
    folder = builder.root / "fixtures"
    folder.rename(builder.root / "elsewhere")
    folder.symlink_to("elsewhere")
    read = DirectorySource(builder.root).read("fixtures/x.json", MAX_FIXTURE_BYTES)
    assert isinstance(read, Finding)
    assert read.code == "not-a-file"


def test_nothing_is_written_by_reading(builder: StoreBuilder) -> None:
    """Opening and verifying leave the folder as it was, also when it cannot be written."""
    before = {path: path.stat().st_mtime_ns for path in builder.root.rglob("*")}
    Store.open(builder.root)
    Store.open(builder.root, verify="on-read")
    builder.findings()

    assert before == {path: path.stat().st_mtime_ns for path in builder.root.rglob("*")}


def test_folders_nested_without_end_are_refused(builder: StoreBuilder) -> None:
    """Deeper than anyone needs, and no recursion error."""
    folder = builder.root / "fixtures"
    for _ in range(70):
        folder /= "d"
    folder.mkdir(parents=True)

    assert builder.codes() == ["not-a-file"]
