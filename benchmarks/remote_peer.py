"""The peer of [remote], a program: gets or puts objects with ``obstore`` alone, many at a time.

    python remote_peer.py get|put BUCKET FOLDER

It checks nothing and keeps nothing. FOLDER has the files to put, or those whose objects to get, each under
the name of its object.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import obstore
from obstore.store import S3Store

AT_ONCE = 64
"""More is no faster on one machine."""


async def do_all(names: list[str], do: Callable[[str], Awaitable[object]]) -> None:
    waiting = iter(names)

    async def work() -> None:
        for name in waiting:
            await do(name)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def main() -> None:
    what, bucket, folder = sys.argv[1:]
    store = S3Store(bucket, client_options={"allow_http": True})
    root = Path(folder)
    names = [path.relative_to(root).as_posix() for path in root.glob("b3/*/*")]

    async def get(name: str) -> None:
        found = await obstore.get_async(store, name)
        await found.bytes_async()

    async def put(name: str) -> None:
        await obstore.put_async(store, name, (root / name).read_bytes(), mode="create")

    asyncio.run(do_all(names, get if what == "get" else put))
    # A thread of obstore may still be on its way out of Python; an ordinary end would then abort.
    os._exit(0)


if __name__ == "__main__":
    main()
