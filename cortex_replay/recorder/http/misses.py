"""What a client is told when nothing was recorded for its call."""

from __future__ import annotations

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import FixtureKey, Store
from cortex_replay.store.nearest import differences, nearest_fixture
from cortex_replay.types import LlmRequest

__all__ = [
    "MISS_STATUS",
    "explained_exhaustion",
    "explained_miss",
    "explained_opaque_miss",
    "explained_other_way",
]

MISS_STATUS = 424
"""A status that no SDK tries again, and that no provider uses for something else."""
_MOST_DIFFERENCES = 6


def explained_miss(
    store: Store, request: LlmRequest, key: FixtureKey, how_to_record: str, redactor: Redactor
) -> str:
    """The key, the nearest recording, what differs, and the command that records it."""
    lines = [f"cortex-replay: nothing is recorded for {key.model} {key.prompt_hash[:16]}."]
    asked = store.normalised(request)[0]
    nearest = nearest_fixture(store, asked)
    if nearest is None:
        lines.append("Nothing else is recorded, either." if len(store) == 0 else "No recording is like it.")
    else:
        lines.append(f"Nearest: {nearest.path}. It differs in:")
        # Redacted as a whole: no rule knows a secret by a piece of it.
        found = list(
            differences(_without_secrets(nearest.request, redactor), _without_secrets(asked, redactor))
        )
        shown = found[:_MOST_DIFFERENCES]
        lines += [f"  {difference}" for difference in shown]
        left = len(found) - len(shown)
        lines += [f"  and {left} more"] if left > 0 else []
    lines.append(f"To record it: {how_to_record}")
    return "\n".join(lines)


def _without_secrets(request: LlmRequest, redactor: Redactor) -> LlmRequest:
    plain, hits = redactor.json(request.to_dict())
    if not hits or not isinstance(plain, dict):
        return request
    return LlmRequest.from_dict({"model": request.model, **plain})


def explained_exhaustion(key: FixtureKey, how_to_record: str) -> str:
    """All answers of a key are given."""
    what = f"every answer that is recorded for {key.model} {key.prompt_hash[:16]} was given already."
    return f"cortex-replay: {what}\nTo record another: {how_to_record}"


def explained_other_way(key: FixtureKey, how_to_record: str) -> str:
    """A request for several answers at once, asked in another way than it was recorded in."""
    what = f"{key.model} {key.prompt_hash[:16]} asks for several answers at once, and was recorded"
    return f"cortex-replay: {what} streamed or not, or over another API.\nTo record it: {how_to_record}"


def explained_opaque_miss(request: dict[str, JsonValue], key: str, how_to_record: str) -> str:
    """A call that is recorded as it is, and was not."""
    what = f"{request['method']} {request['path']} of {request['upstream']}"
    return f"cortex-replay: nothing is recorded for {what} ({key[:16]}).\nTo record it: {how_to_record}"
