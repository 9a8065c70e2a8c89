"""Everything that can go wrong, as one tree.

::

    LlmError                      exit 1
    ├── InvalidRequest            exit 2   a value that cannot be a request
    │   └── ConfigError                    a file, a variable or a flag that says what cannot be
    ├── Transport                          the connection, not the model
    ├── Timeout                            the request's whole budget is spent
    │   └── TurnTooLate                    it would be, before a limit of requests lets the call go out
    ├── Upstream                           the provider answered with an error
    ├── ResponseParse                      the provider's answer is not what it should be
    ├── NoFixture                 exit 3   nothing recorded under this key
    ├── FixtureIntegrityFailed    exit 5   the store is not what its index says
    ├── FixtureConflict                    another answer is recorded under this key
    ├── RecordingRefused                   a secret, or text above the store's clearance, would be stored
    ├── BudgetSpent                        another call might cross the run's budget
    └── StoreIo                            the store could not be read or written

Each class keeps its constructor's arguments in ``args``, so that an error survives pickling: test
runners send errors from worker processes to the one that prints them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "BudgetSpent",
    "ConfigError",
    "Finding",
    "FixtureConflict",
    "FixtureIntegrityFailed",
    "InvalidRequest",
    "LlmError",
    "NoFixture",
    "RecordingRefused",
    "ResponseParse",
    "StoreIo",
    "Timeout",
    "Transport",
    "TurnTooLate",
    "Upstream",
]

_SHOWN_FINDINGS = 20


class LlmError(Exception):
    """Base of every error that cortex-replay raises on purpose."""

    exit_code: ClassVar[int] = 1


class InvalidRequest(LlmError):
    """A request, or a part of one, that must not be hashed or sent; ``field`` says which part."""

    exit_code = 2

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"invalid request: {self.field}: {self.reason}"


class ConfigError(InvalidRequest):
    """A configuration that cannot be: a file, an environment variable, a flag, or what they lead to.

    ``field`` is the file and the setting in it, the variable or the flag. A value that a program passes to
    :class:`~cortex_replay.config.Settings` and its like is an :class:`InvalidRequest` as any other argument.
    """

    def __str__(self) -> str:
        return f"configuration: {self.field}: {self.reason}"


class Transport(LlmError):
    """The provider could not be reached, or the connection broke before the answer was whole."""

    def __str__(self) -> str:
        return f"transport: {super().__str__()}"


class Timeout(LlmError):
    """The call did not end within its request's ``timeout_ms``; ``server`` is who was to answer, if known."""

    def __init__(self, timeout_ms: int, server: str = "") -> None:
        super().__init__(timeout_ms, server)
        self.timeout_ms = timeout_ms
        self.server = server

    def __str__(self) -> str:
        awaited = f", waiting for {self.server}" if self.server else ""
        return f"timeout after {self.timeout_ms} ms{awaited}"


class TurnTooLate(Timeout):
    """The call was not made: a limit of requests per minute would have let it go out after its time."""

    def __init__(self, timeout_ms: int, wait_ms: int, per_minute: int) -> None:
        super().__init__(timeout_ms)
        self.args = (timeout_ms, wait_ms, per_minute)
        self.wait_ms = wait_ms
        self.per_minute = per_minute

    def __str__(self) -> str:
        return (
            f"timeout: with requests_per_minute = {self.per_minute}, this call would go out in "
            f"{self.wait_ms} ms, and its timeout is {self.timeout_ms} ms. Nothing was sent. "
            "Raise one of the two, or make fewer calls at once"
        )


class Upstream(LlmError):
    """The provider answered with an error status, or with an error in a successful one.

    ``error_type`` is the provider's own word for it, such as ``overloaded_error``.
    """

    def __init__(self, status: int, message: str = "", error_type: str | None = None) -> None:
        super().__init__(status, message, error_type)
        self.status = status
        self.message = message
        self.error_type = error_type

    def __str__(self) -> str:
        kind = f" {self.error_type}:" if self.error_type else ""
        return f"upstream: {self.status}{kind} {self.message}".rstrip()


class ResponseParse(LlmError):
    """The provider answered, but the answer is malformed or breaks the request's schema."""

    def __str__(self) -> str:
        return f"response parse: {super().__str__()}"


class NoFixture(LlmError):
    """Nothing is recorded under this key, or every recorded answer was given already.

    ``explanation`` says what is nearest, what differs and what to do, where somebody looked. It is a note of
    the exception, so that tracebacks show it; the text of the error is the reference's.
    """

    exit_code = 3

    def __init__(self, model: str, prompt_hash: str, exhausted: bool = False, explanation: str = "") -> None:
        super().__init__(model, prompt_hash, exhausted, explanation)
        self.model = model
        self.prompt_hash = prompt_hash
        self.exhausted = exhausted
        self.explanation = explanation
        if explanation:
            self.add_note(explanation)

    def __str__(self) -> str:
        text = f"no replay fixture for model={self.model} prompt_hash={self.prompt_hash}"
        return text + " (all its recorded answers were given)" if self.exhausted else text


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason not to trust a store."""

    code: str
    """A stable word for programs, such as ``mismatch``; `docs/store-format.md` lists them."""
    path: str
    """The file concerned, relative to the store's root."""
    reason: str
    """What is wrong, for a person. Never quotes the content of a fixture."""
    hint: str | None = None
    """What probably happened and what to do, when that can be told."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class FixtureIntegrityFailed(LlmError):
    """The store differs from what its index vouches for; ``issues`` holds every finding."""

    exit_code = 5

    def __init__(self, issues: Iterable[Finding]) -> None:
        self.issues = tuple(issues)
        super().__init__(self.issues)

    def __str__(self) -> str:
        shown = [str(issue) for issue in self.issues[:_SHOWN_FINDINGS]]
        hidden = len(self.issues) - len(shown)
        if hidden > 0:
            shown.append(f"and {hidden} more")
        if len(shown) == 1:
            return f"fixture integrity failed: {shown[0]}"
        return "\n  ".join([f"fixture integrity failed: {len(self.issues)} findings", *shown])


class FixtureConflict(LlmError):
    """Another answer is recorded under this key already, and nobody said to replace it."""

    def __init__(self, model: str, prompt_hash: str) -> None:
        super().__init__(model, prompt_hash)
        self.model = model
        self.prompt_hash = prompt_hash

    def __str__(self) -> str:
        return (
            f"fixture conflict: another answer is recorded for model={self.model} "
            f"prompt_hash={self.prompt_hash}; replace it, or keep it"
        )


class RecordingRefused(LlmError):
    """A secret would have been stored, or text that is labelled above the ``clearance`` of the store.

    ``places`` says where it stands; ``clearance`` is empty where it is a secret.
    """

    def __init__(self, places: Iterable[str], clearance: str = "") -> None:
        self.places = tuple(places)
        self.clearance = clearance
        super().__init__(self.places, clearance)

    def __str__(self) -> str:
        where = ", ".join(self.places)
        if not self.clearance:
            return f"recording refused: a secret would be stored in {where}"
        return (
            f"recording refused: text labelled above what this store may hold ({self.clearance}) stands in "
            f"{where}; to keep it all the same, set max_sensitivity in the store's configuration"
        )


class BudgetSpent(LlmError):
    """A call was not made, because it might have crossed what the run may spend."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(what, most)
        self.what = what
        self.most = most

    def __str__(self) -> str:
        return f"budget spent: another call might cross the {self.most} {self.what} that were allowed"


class StoreIo(LlmError):
    """The store's files could not be reached at all; says nothing about their content."""

    def __str__(self) -> str:
        return f"io: {super().__str__()}"
