"""One bucket, or a part of one: whole objects by name, put on conditions.

Only what every engine can promise is used: get, put where there is nothing yet, put over a version that was
seen, list, delete. :class:`Bucket` speaks to clouds through ``obstore``; :class:`FolderBucket` is a folder of
this machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cortex_replay.config.remote import file_path, remote_url
from cortex_replay.errors import StoreIo
from cortex_replay.printable import UNPRINTABLE
from cortex_replay.remote import access, waiting
from cortex_replay.remote.access import Access, access_to
from cortex_replay.remote.folder import FolderObjects
from cortex_replay.remote.objects import (
    MAX_OBJECT_BYTES,
    BucketDenied,
    BucketError,
    Entry,
    ObjectTooLarge,
    Stamped,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = [
    "MAX_OBJECT_BYTES",
    "Bucket",
    "BucketDenied",
    "BucketError",
    "Entry",
    "FolderBucket",
    "ObjectTooLarge",
    "Stamped",
]

_T = TypeVar("_T")

_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,60})</Code>|\"reason\": ?\"([A-Za-z0-9.]{1,60})\"")
_STATUS: Final = re.compile(r"status code: (\d{3}[A-Za-z ]{0,40})")
_DENIED: Final = re.compile(r"status code: 40[13]\b|169\.254\.169\.254|metadata\.google\.internal")
"""Also where the machine has no role."""
_CAUSE: Final = re.compile(
    r'(?:error: |ConnectError\(\s*)"([^"\n]{1,200})"|'
    r"kind: (Timeout|ConnectionRefused|ConnectionReset|Connect\b|Decode|Body)"
)
_SKEWED: Final = ("RequestTimeTooSkewed", "RequestExpired")
_QUERY: Final = re.compile(r"\?[^\s,)\"']+")
_LONGEST_REASON: Final = 300
_MOST_ENTRIES: Final = 10_000_000
"""Where a listing ends that has no end."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where objects are.

    Its methods raise :class:`BucketError` where the bucket cannot be asked.
    """

    objects: ObjectStore
    url: str
    """As a user writes it, for messages; no secret stands in it."""
    access: Access | None = None
    public: ObjectStore | None = None
    """The same without credentials, for what may be read without them."""

    @staticmethod
    def open(url: str, region: str | None = None, environment: Mapping[str, str] = os.environ) -> Bucket:
        """Open a bucket by its URL. Nothing is asked yet.

        Raises:
            InvalidRequest: The URL names none.
            StoreIo: What it takes is not there: ``obstore``, or the name of an account.
        """
        url = remote_url(url, "url")
        path = file_path(url)
        if path is not None:
            return FolderBucket(path, url)
        try:
            from obstore.store import from_url  # noqa: PLC0415 - a store without a remote needs no engine
        except ImportError:
            raise StoreIo('a remote needs obstore; run: pip install "cortex-replay[remote]"') from None
        found = access_to(url.partition(":")[0], region, environment)
        common: dict[str, Any] = {"client_options": {**_CLIENT, **found.client}, "retry_config": _RETRIES}
        with _errors(url, found):
            objects = from_url(url, **common, **found.options)
            public = None if found.source is None else from_url(url, **common, **found.anonymous)
        return Bucket(objects, url, found, public)

    def get(self, name: str) -> Stamped | None:
        """An object, if it is there."""
        return waiting.run(self.fetch(name))

    def put_new(self, name: str, data: bytes) -> bool:
        """Put an object where there is none; whether there was none."""
        return waiting.run(self.create(name, data))

    def put_over(self, name: str, data: bytes, version: str) -> bool:
        """Put an object over a version of it; whether it still had that version."""
        return waiting.run(self.update(name, data, version))

    def size(self, name: str) -> int | None:
        """How large an object is; ``None`` where there is none."""
        return waiting.run(self.measure(name))

    def list(self, prefix: str) -> Iterator[Entry]:
        """The objects below a prefix."""
        yield from waiting.run(self.entries(prefix))

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; one that is not there is fine."""
        waiting.run(self.remove([*names]))

    async def fetch(self, name: str) -> Stamped | None:
        """As :meth:`get`."""
        return await self._read(lambda objects: self._fetch(objects, name))

    async def measure(self, name: str) -> int | None:
        """As :meth:`size`."""
        obstore = _engine()

        async def head(objects: ObjectStore) -> int:
            return int((await obstore.head_async(objects, name))["size"])

        return await self._read(head)

    async def entries(self, prefix: str) -> Sequence[Entry]:
        """As :meth:`list`."""
        obstore = _engine()

        async def look(objects: ObjectStore) -> Sequence[Entry]:
            found: list[Entry] = []
            async for batch in obstore.list(objects, prefix):
                found += [Entry(one["path"], one["size"], one["last_modified"]) for one in batch]
                if len(found) > _MOST_ENTRIES:
                    raise BucketError(f"{self.url} lists more than {_MOST_ENTRIES:,} objects")
            return found

        return await self._read(look) or []

    async def create(self, name: str, data: bytes) -> bool:
        """As :meth:`put_new`."""
        obstore = _engine()
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415

        with _errors(self.url, self.access):
            try:
                await obstore.put_async(self.objects, name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    async def update(self, name: str, data: bytes, version: str) -> bool:
        """As :meth:`put_over`."""
        obstore = _engine()
        from obstore.exceptions import PreconditionError  # noqa: PLC0415

        with _errors(self.url, self.access):
            try:
                await obstore.put_async(
                    self.objects, name, data, mode={"e_tag": version}, use_multipart=False
                )
            except (PreconditionError, FileNotFoundError) as error:
                _refuse_no_bucket(error)
                return False
        return True

    async def remove(self, names: Sequence[str]) -> None:
        """As :meth:`delete`."""
        obstore = _engine()

        with _errors(self.url, self.access):
            try:
                await obstore.delete_async(self.objects, names)
            except FileNotFoundError as error:
                _refuse_no_bucket(error)
                for name in names if len(names) > 1 else ():
                    await self.remove([name])

    async def _fetch(self, objects: ObjectStore, name: str) -> Stamped:
        obstore = _engine()

        found = await obstore.get_async(objects, name)
        size = found.meta["size"]
        if size > MAX_OBJECT_BYTES:
            raise ObjectTooLarge(f"an object has {size:,} bytes; at most {MAX_OBJECT_BYTES:,} are read")
        await waiting.make_room(size)
        # The first piece has all of it, or more than there is room for: a server may lie about the size.
        data = bytes(await anext(aiter(found.stream(min_chunk_size=size + 1)), b""))
        if len(data) > size:
            raise ObjectTooLarge(f"an object has more than the {size:,} bytes that its server tells of")
        return Stamped(data, found.meta["e_tag"] or "")

    async def _read(self, ask: Callable[[ObjectStore], Awaitable[_T]]) -> _T | None:
        """Ask with the credentials that there are, and without any if these are refused."""
        with _errors(self.url, self.access):
            try:
                try:
                    return await ask(self.objects)
                except Exception as refused:
                    if self.public is None or not _is_denied(refused):
                        raise
                    try:
                        return await ask(self.public)
                    except Exception as error:  # noqa: BLE001 - one of the two is raised
                        raise (refused if _is_denied(error) else error) from None
            except FileNotFoundError as error:
                _refuse_no_bucket(error)
                return None


class FolderBucket(Bucket):
    """A folder of this machine: ``file://``."""

    __slots__ = ("_folder",)

    _folder: FolderObjects

    def __init__(self, path: Path, url: str) -> None:
        no_store: Any = None
        super().__init__(no_store, url)
        object.__setattr__(self, "_folder", FolderObjects(path, url))

    async def fetch(self, name: str) -> Stamped | None:
        return self._folder.fetch(name)

    async def measure(self, name: str) -> int | None:
        return self._folder.measure(name)

    async def entries(self, prefix: str) -> Sequence[Entry]:
        return self._folder.entries(prefix)

    async def create(self, name: str, data: bytes) -> bool:
        return self._folder.put(name, data, None)

    async def update(self, name: str, data: bytes, version: str) -> bool:
        return self._folder.put(name, data, version)

    async def remove(self, names: Sequence[str]) -> None:
        self._folder.remove(names)


def _engine() -> ModuleType:
    """The engine, in the process that used it first: in a fork of that one it would never answer."""
    import obstore  # noqa: PLC0415 - a store without a remote needs none

    if _USERS.setdefault("first", os.getpid()) != os.getpid():
        raise BucketError(
            "this process was forked from one that had asked a bucket before, and cannot ask one; fetch what "
            "it needs first (cortex-replay pull), or start it afresh: "
            'multiprocessing.set_start_method("spawn")'
        )
    return obstore


_USERS: Final[dict[str, int]] = {}


class _NoBucket(Exception):
    """What is not there is the bucket."""


def _refuse_no_bucket(error: Exception) -> None:
    if _NO_BUCKET.search(str(error)):
        raise _NoBucket from None


@contextmanager
def _errors(url: str, found: Access | None) -> Iterator[None]:
    """Say what went wrong in a sentence. What the engine says is pages long, and may hold a signature."""
    try:
        yield
    except StoreIo:
        raise
    except _NoBucket:
        raise _no_bucket(url) from None
    except Exception as error:
        from obstore.exceptions import BaseError, NotSupportedError  # noqa: PLC0415

        if not isinstance(error, BaseError | OSError | ValueError | NotImplementedError):
            raise
        if _NO_BUCKET.search(str(error)):
            raise _no_bucket(url) from None
        text = _reason_of(error)
        if _is_denied(error):
            who = "" if found is None else f"; {found}"
            raise BucketDenied(f"{url} refuses ({text}){who}") from None
        if isinstance(error, NotSupportedError | NotImplementedError):
            raise BucketError(f"{url} cannot do this: its engine has no conditional puts") from None
        raise BucketError(f"{url} cannot be asked: {text}") from None


def _no_bucket(url: str) -> BucketError:
    return BucketError(f"{url} does not exist: there is no such bucket")


def _is_denied(error: Exception) -> bool:
    """Whether who asked may not. The engine has a class for it, and does not use it for lists."""
    return _DENIED.search(str(error)) is not None


def _reason_of(error: Exception) -> str:
    """The few words of an error that help."""
    from cortex_replay.redact.process import process_redactor  # noqa: PLC0415 - few things go wrong

    told = str(error)
    if code := _CODE.search(told):
        name = code[1] or code[2]
        return f"{name}: the clock of this machine is wrong" if name in _SKEWED else name
    status = _STATUS.search(told)
    if status is not None:
        # The answer to a HEAD has no body, in which the reason would stand.
        guess = ", as it does to wrong credentials and to a wrong clock" if "403" in status[1] else ""
        return f"it answered {status[1].strip()}{guess}"
    causes = dict.fromkeys(_WORDS.get(one[1] or one[2], one[1] or one[2]) for one in _CAUSE.finditer(told))
    text = ", ".join(causes) or _QUERY.sub("", told.partition("\n")[0]).partition("error: ")[2] or "it failed"
    text = UNPRINTABLE.sub(" ", process_redactor().text(text)[0])
    return text[:_LONGEST_REASON]


_WORDS: Final = {
    "Connect": "no connection",
    "Timeout": "it does not answer in time",
    "ConnectionRefused": "the connection was refused",
    "ConnectionReset": "the connection broke",
    "Decode": "the answer broke off",
    "Body": "the answer broke off",
}
_CLIENT: Final[Mapping[str, Any]] = {
    "connect_timeout": timedelta(seconds=access.CONNECT_SECONDS),
    "read_timeout": timedelta(seconds=access.READ_SECONDS),
    "timeout": timedelta(seconds=access.REQUEST_SECONDS),
}
_RETRIES: Final[Any] = {
    "max_retries": access.RETRIES,
    "retry_timeout": timedelta(seconds=access.RETRY_SECONDS),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
