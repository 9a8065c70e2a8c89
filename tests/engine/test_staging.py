"""A fixture is rendered once on its way to the disk, and what was rendered is checked and stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cortex_replay import Fixture, FixtureIntegrityFailed, RecordingAdapter, Store
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import fixture_json
from cortex_replay.store.fixture_json import RenderedFixture, render_document
from cortex_replay.testing import ScriptedAdapter
from tests.builder import ask

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What has been rendered so far."""
    rendered: list[bytes] = []

    def count(document: dict[str, object]) -> bytes:
        rendered.append(render_document(document))
        return rendered[-1]

    monkeypatch.setattr(fixture_json, "render_document", count)
    return rendered


def stored_bytes(store: Store, question: str = "q") -> bytes:
    store.commit()
    return store.content(*store.key(ask(question)))


@pytest.mark.parametrize("mode", ["once", "record"])
@pytest.mark.parametrize("answer", ["a", f"It is {SECRET}."])
def test_recording_an_answer_renders_its_fixture_once(
    tmp_path: Path, renders: list[bytes], mode: str, answer: str
) -> None:
    """Also one with a secret: that is cut out before anything is rendered."""

    async def main() -> None:
        inner = ScriptedAdapter(lambda _: answer)
        async with RecordingAdapter(inner, tmp_path, mode, redactor=Redactor([SECRET])) as recorder:  # type: ignore[arg-type]
            await recorder.complete(ask("q"))

    asyncio.run(main())

    assert renders == [stored_bytes(Store.open(tmp_path))]


def test_only_what_the_door_itself_cuts_out_is_rendered_again(tmp_path: Path, renders: list[bytes]) -> None:
    """What is stored is the second form, and the fixture that is handed back is what it says."""
    store = Store.create(tmp_path)

    staged = RedactingStager(store, Redactor([SECRET])).stage(
        Fixture.of(ask("q"), f"It is {SECRET}."), overwrite=False
    )

    first, second = renders
    assert SECRET.encode() in first
    assert SECRET.encode() not in second
    assert stored_bytes(store) == second
    assert fixture_json.parse_fixture(second) == staged


@pytest.mark.parametrize("data", [b"{}\n", RenderedFixture.of(Fixture.of(ask("another"), "a")).data])
def test_bytes_that_would_not_be_trusted_are_not_staged(tmp_path: Path, data: bytes) -> None:
    """Whoever rendered them: they are read by the rules of trust first."""
    store = Store.create(tmp_path)

    with pytest.raises(FixtureIntegrityFailed):
        store.add(RenderedFixture(Fixture.of(ask("q"), "a"), data))

    assert store.commit().added == []
