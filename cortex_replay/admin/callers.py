"""Who calls, and what they may do."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cortex_replay.config import Grant, Settings, token_for
from cortex_replay.config.checks import did_you_mean
from cortex_replay.errors import ConfigError, InvalidRequest

__all__ = ["Caller", "Callers"]

_SHORTEST_TOKEN: Final = 16
"""A shorter one can be guessed by somebody with time."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who calls. Does not hold the token."""

    name: str
    grants: frozenset[Grant] = frozenset()
    max_calls: int | None = None
    max_tokens: int | None = None


class Callers:
    """The callers of a configuration, by token and by name.

    Only hashes of tokens are kept: of equal length, and nothing to find in a dump.

    Args:
        settings: Who there is.
        environment: ``os.environ``, or what stands for it.

    Raises:
        ConfigError: A token cannot be read, is too short, or belongs to two callers.
    """

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self._by_name: dict[str, Caller] = {}
        self._by_digest: dict[bytes, Caller] = {}
        for name, given in settings.callers.items():
            caller = Caller(name, frozenset(given.grants), given.max_calls, given.max_tokens)
            self._by_name[name] = caller
            token = token_for(given, environment)
            if token is not None:
                self._add(_digest(token), len(token), caller)

    def _add(self, digest: bytes, length: int, caller: Caller) -> None:
        where = f"callers.{caller.name}"
        if length < _SHORTEST_TOKEN:
            raise ConfigError(where, f"its token has less than {_SHORTEST_TOKEN} characters")
        if digest in self._by_digest:
            other = self._by_digest[digest].name
            raise ConfigError(where, f"its token is that of {other}; each caller needs one of its own")
        self._by_digest[digest] = caller

    def by_token(self, token: str | bytes) -> Caller | None:
        """The caller with this token. Takes as long for a wrong one as for the right one."""
        digest = _digest(token)
        found = None
        for known, caller in self._by_digest.items():
            if hmac.compare_digest(known, digest):
                found = caller  # and on, to the last one
        return found

    def by_authorization(self, header: str | bytes) -> Caller | None:
        """The caller whose token an ``Authorization: Bearer …`` header brings."""
        value = header.encode("utf-8", "surrogatepass") if isinstance(header, str) else header
        scheme, _, token = value.strip().partition(b" ")
        return self.by_token(token.strip()) if scheme.lower() == b"bearer" else None

    def by_name(self, name: str) -> Caller:
        """The caller of this name, for a transport that only one caller can reach.

        Raises:
            InvalidRequest: There is none.
        """
        if name not in self._by_name:
            hint = did_you_mean(name, self._by_name)
            raise InvalidRequest("caller", f"there is no such caller{hint}")
        return self._by_name[name]

    @property
    def without_token(self) -> list[str]:
        """The names of callers that nobody can come in as, except by name."""
        with_token = {caller.name for caller in self._by_digest.values()}
        return [name for name in self._by_name if name not in with_token]

    def __len__(self) -> int:
        return len(self._by_name)


def _digest(token: str | bytes) -> bytes:
    data = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else token
    return hashlib.sha256(data).digest()
