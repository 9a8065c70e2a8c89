"""Requests put together from fixtures that are all at hand. **Nothing is checked**: that bytes are the listed
ones, and that a request hashes to its key, is for others to say (:mod:`.links` does both at once).

For who reads a whole store anyway, and for who takes files as they are: after an edit by hand, what continues
an edited request has the edit, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import Finding, InvalidRequest
from cortex_replay.store.fixture import Fixture, FixtureKey, RequestLink
from cortex_replay.store.trust import Untrusted
from cortex_replay.types import LlmRequest

__all__ = ["Assembly"]


class Assembly:
    """Fixtures by what others may continue. A class to put each request together once."""

    def __init__(self, read_part: Callable[[str], Mapping[str, JsonValue]]) -> None:
        """Begin without fixtures.

        Args:
            read_part: What the part with a hash has; raises :class:`Untrusted` if there is none.
        """
        self._read_part = read_part
        self._parents: dict[FixtureKey, tuple[str, str, Fixture]] = {}
        """By key, what others may continue: the shared one, else that of the first scope."""
        self._requests: dict[str, LlmRequest] = {}
        """By path, those that were put together."""
        self._parts: dict[str, Mapping[str, JsonValue]] = {}

    def add(self, path: str, fixture: Fixture, scope: str = "", key: FixtureKey | None = None) -> None:
        """Take a fixture.

        Args:
            path: Its file.
            fixture: As its file has it.
            scope: Whose it is, where it is not shared.
            key: What it is listed under, if its file may say something else.
        """
        known = self._parents.get(key or fixture.key)
        if known is None or (scope, path) < known[:2]:
            self._parents[key or fixture.key] = (scope, path, fixture)

    def request(self, path: str, fixture: Fixture) -> LlmRequest | None:
        """The whole request of a fixture, once all were taken; ``None`` if it has none.

        It holds the very messages of what it continues.

        Raises:
            Untrusted: What it continues is not there, or what it names.
        """
        steps: list[tuple[str, RequestLink]] = []
        request = self._start(path, fixture)
        while request is None and fixture.link is not None:
            steps.append((path, fixture.link))
            parent = self._parents.get(FixtureKey(fixture.key.model, fixture.link.continues or ""))
            if parent is None or len(steps) > len(self._parents):
                raise _refusal(path, "what its request continues is not recorded")
            _, path, fixture = parent
            request = self._start(path, fixture)
        if request is None and steps:
            raise _refusal(steps[-1][0], f"its request continues {path}, which has none")
        for at, link in reversed(steps):
            if request is not None:
                extended = copy(request)
                check.keep(extended, "messages", (*request.messages, *link.messages))
                request = self._requests[at] = extended
        return request

    def _start(self, path: str, fixture: Fixture) -> LlmRequest | None:
        """The request of a fixture that continues no other, or of one that was put together."""
        if path in self._requests or fixture.link is None or fixture.link.continues is not None:
            return self._requests.get(path, fixture.request)
        link = fixture.link
        shared = {name: self.part(path, name, digest) for name, digest in link.parts.items()}
        try:
            request = LlmRequest.from_dict({"model": fixture.key.model, **link.own, **shared})
        except InvalidRequest as error:
            raise _refusal(path, f"its request is none: {error.field}: {error.reason}") from None
        self._requests[path] = request
        return request

    def part(self, path: str, name: str, digest: str) -> JsonValue:
        """The value of a field that the request of a file names by the hash of a part.

        Raises:
            Untrusted: There is no such part, or it has another field.
        """
        if digest not in self._parts:
            self._parts[digest] = self._read_part(digest)
        if name not in self._parts[digest]:
            raise _refusal(path, f"its {name} is in a part {digest[:16]} that has none")
        return self._parts[digest][name]


def _refusal(path: str, reason: str) -> Untrusted:
    return Untrusted(Finding("link-broken", path, reason))
