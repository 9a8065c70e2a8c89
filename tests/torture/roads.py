"""The roads on which a store comes to be; also a program to be traced, that goes one of them.

``python roads.py FOLDER ROAD`` makes a store in ``FOLDER/store``, and says what may be found there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cortex_replay import Store, blake3_hex
from cortex_replay.disk import Folder
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.export import export_crtx
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.git.attributes import ATTRIBUTES, ATTRIBUTES_NAME
from cortex_replay.store.reindex import apply_reindex, plan_reindex
from tests.torture.plans import BASE, fixture

NO_STORE: Final = "none"
"""What is said in place of hashes where there is no store."""
ONE: Final = fixture("a one", "1")
OWN_LINES: Final = b"*.png binary"
"""What a project tells git, in a file without a last line end."""
ALL_LINES: Final = OWN_LINES + b"\n" + "".join(f"{line}\n" for line in ATTRIBUTES).encode()


class Road(NamedTuple):
    """How a store is made, from what, and what is in it then."""

    prepare: Callable[[Path], None]
    make: Callable[[Path], None]
    found: tuple[tuple[str, ...], ...]
    """The answers that may be found on the way, by their hashes; the last ones at the end."""


def _nothing(_: Path) -> None:
    """The folder itself is to be made, too."""


def _with_attributes(root: Path) -> None:
    with Folder.at(root.parent) as above, above.make_folder(root.name) as folder:
        folder.create(ATTRIBUTES_NAME, OWN_LINES, durable=True)
        folder.sync()


def _with_files(root: Path) -> None:
    _with_attributes(root)
    with Folder.at(root) as folder, folder.below("fixtures/model-a", make=True) as below:
        below.create("one.json", render_fixture(ONE), durable=True)
        below.sync()


def _beside_a_store(root: Path) -> None:
    store = Store.create(root.parent.parent / "other")
    for question, text in BASE.items():
        store.add(fixture(question, text))
    store.commit()


def _create(root: Path) -> None:
    Store.create(root)


def _record(root: Path) -> None:
    store = Store.open_or_create(root)
    store.add(ONE)
    store.commit()


def _index(root: Path) -> None:
    source = DirectorySource(root)
    apply_reindex(source, plan_reindex(source))


def _export(root: Path) -> None:
    export_crtx(Store.open(root.parent.parent / "other"), root)


_HASH: Final = blake3_hex(render_fixture(ONE))
_ALL: Final = tuple(
    sorted(blake3_hex(render_fixture(fixture(question, text))) for question, text in BASE.items())
)
ROADS: Final = {
    "create": Road(_nothing, _create, ((),)),
    "create among others' files": Road(_with_attributes, _create, ((),)),
    "record": Road(_with_attributes, _record, ((), (_HASH,))),
    "index": Road(_with_files, _index, ((_HASH,),)),
    "export": Road(_beside_a_store, _export, (_ALL,)),
}


def _say(root: Path, *words: str) -> None:
    os.write(1, " ".join([root.name, *words]).encode())


def main(folder: Path, name: str) -> None:
    root = folder / "store"
    road = ROADS[name]
    road.prepare(root)
    _say(root, "look")
    for digests in ((NO_STORE,), *road.found):
        _say(root, "trying", *digests)
    road.make(root)
    _say(root, "committed", *road.found[-1])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
