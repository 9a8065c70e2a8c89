"""Marks that no repository can forge: only what carries one was left here by this user.

A state folder can come with a repository, from a stranger. So whatever a later run acts on (the journal, the
folder of a run that died, each answer in it) carries a keyed hash of what it says. The key is the user's, on
this machine, and stands outside of every repository.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from cortex_replay.disk import PRIVATE, PRIVATE_FOLDER, Folder
from cortex_replay.hashing import keyed_hex
from cortex_replay.redact.logs import logger_of

__all__ = ["STATE_NAME", "Marker", "known_marker", "state_home", "user_marker"]

logger = logger_of(__name__)

STATE_NAME: Final = "cortex-replay"
"""The folder of this program among those of a user's state."""
_KEY: Final = "mark.key"
_KEY_BYTES: Final = 32
_MARK_LENGTH: Final = 32
_PASSING: Final = (errno.EMFILE, errno.ENFILE)
"""Errors that say nothing about whether a key can be kept."""
_MARKERS: dict[str, Marker] = {}


class Marker:
    """Makes and knows the marks of one user."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mark(self, *parts: str) -> str:
        """The mark of these parts, the first of which says what they are for."""
        return keyed_hex(self._key, "\0".join(parts).encode(errors="surrogateescape"))[:_MARK_LENGTH]

    def knows(self, mark: str, *parts: str) -> bool:
        """Whether this user made ``mark`` for these parts."""
        return mark.isascii() and hmac.compare_digest(mark, self.mark(*parts))


def user_marker() -> Marker:
    """The marker of this user, whose key is made where there is none yet.

    Where none can be kept, it is one that this process alone knows: then nobody takes over what a run
    leaves that dies.
    """
    place = state_home()
    found = _MARKERS.get(f"{place}")
    if found is not None:
        return found
    try:
        if place is None:
            raise OSError(errno.ENOENT, "there is no home folder")
        key = _make_key(place)
    except OSError as error:
        if error.errno in _PASSING:
            raise
        logger.warning(
            "no key can be kept in %s (%s): if this run dies, no later run takes over what it recorded. "
            "XDG_STATE_HOME names another folder",
            place / STATE_NAME if place else "the home folder",
            error.strerror or error,
        )
        key = secrets.token_bytes(_KEY_BYTES)
    return _MARKERS.setdefault(f"{place}", Marker(key))


def known_marker() -> Marker | None:
    """The marker of this user, if there is one; a reader makes none."""
    place = state_home()
    found = _MARKERS.get(f"{place}")
    if found is not None or place is None:
        return found
    try:
        with Folder.at((place / STATE_NAME).resolve()) as folder:
            return _MARKERS.setdefault(f"{place}", Marker(_read_key(folder)))
    except OSError:
        return None


def state_home() -> Path | None:
    """Where programs keep the state of this user; ``None`` if there is no such place."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    if named.is_absolute():  # as its specification has it, another one does not count
        return named
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ".local" / "state" if home.is_absolute() else None


def _make_key(place: Path) -> bytes:
    with Folder.make_at(place) as above, above.make_folder(STATE_NAME, PRIVATE_FOLDER) as folder:
        try:
            return _read_key(folder)
        except FileNotFoundError:
            pass
        with folder.lock("lock"):
            if folder.status(_KEY) is None:
                folder.replace(_KEY, secrets.token_bytes(_KEY_BYTES), f"{_KEY}.tmp", mode=PRIVATE)
            return _read_key(folder)


def _read_key(folder: Folder) -> bytes:
    if not folder.is_ours:
        raise OSError(errno.EPERM, "it belongs to another user", folder.path)
    key = folder.read(_KEY, _KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise OSError(errno.EINVAL, f"{_KEY} is not as it was written", folder.path)
    return key
