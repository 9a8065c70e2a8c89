"""vcrpy, as its documentation says to use it: a cassette that calls are recorded into and read from."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import vcr
from vcr.persisters.filesystem import CassetteNotFoundError, FilesystemPersister
from vcr.serializers import jsonserializer, yamlserializer

from benchmarks.vcrpy_peer import interaction
from tests.builder import ask

__all__ = ["VCRPY", "load", "record"]

VCRPY: Final = f"vcrpy {version('vcrpy')}"
_SERIALIZERS: Final[dict[str, Any]] = {".yaml": yamlserializer, ".json": jsonserializer}


def record(path: Path, answers: Iterable[tuple[str, str]]) -> None:
    """Record calls, as one test does whose cassette this is: it is saved at the end."""
    recorder = vcr.VCR(serializer=path.suffix[1:], record_mode="new_episodes")
    with recorder.use_cassette(str(path)) as cassette:
        for question, answer in answers:
            cassette.append(*interaction(ask(question), answer))


def load(path: Path) -> dict[bytes, bytes] | None:
    """By the bodies of requests, the answers in a cassette; ``None`` if it cannot be read.

    One that is not there has no answers: vcrpy records it anew.
    """
    try:
        requests, responses = FilesystemPersister.load_cassette(str(path), _SERIALIZERS[path.suffix])
        found = zip(requests, responses, strict=True)
        return {bytes(request.body or b""): response["body"]["string"] for request, response in found}
    except CassetteNotFoundError:
        return {}
    except Exception:  # noqa: BLE001 - whatever its parser, or its player, says of it
        return None
