"""Where the blocks of a system text end once it was changed on its way to the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from cortex_replay import LlmRequest, Store
from cortex_replay.bindings import Surroundings
from cortex_replay.cli.main import main
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.block_ends import move_ends
from cortex_replay.engine.core import RunCore
from cortex_replay.prompt import PromptBlock, to_request
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.prompt.markers import marks_of
from cortex_replay.redact.redactor import Redactor
from cortex_replay.testing import EchoAdapter

Change = Callable[[str], str]


def moved(blocks: list[str], change: Change) -> list[str] | None:
    """What stands between the ends that were found."""
    text = "\n\n".join(blocks)
    ends: list[int] = []
    for block in blocks:
        ends.append((ends[-1] + 2 if ends else 0) + len(block))
    changed = change(text)
    found = move_ends(text, ends, changed, change)
    if found is None:
        return None
    starts = [0, *(end + 2 for end in found[:-1])]
    assert found[-1] == len(changed)
    assert all(changed[end : end + 2] == "\n\n" for end in found[:-1])
    return [changed[start:end] for start, end in zip(starts, found, strict=True)]


words = st.text(st.sampled_from("ab1 \n\n"), min_size=1)


@given(st.lists(words, min_size=1, max_size=4))
def test_each_block_ends_where_what_became_of_it_ends(blocks: list[str]) -> None:
    def change(text: str) -> str:
        return re.sub("[0-9]+", "<number>", text).replace("a", "")

    found = moved(blocks, change)

    if all(map(change, blocks)):
        assert found == [change(block) for block in blocks]
    else:
        assert found is None or len(found) == 1, "a block that is gone leaves none to be told apart"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("one\n\ntwo", "three"),
        lambda text: re.sub(r"\s+", " ", text),
        lambda text: text[: len(text) // 2],
        lambda text: f"{len(text)}",
        lambda text: re.sub("[^a-z\n]", "", text) if "\ue000" in text else text.upper(),
    ],
    ids=["across blocks", "all white space", "cut", "another text", "the seam makes a difference"],
)
def test_where_it_cannot_be_told_nothing_is_said(change: Change) -> None:
    assert moved(["one", "two", "four"], change) is None


def test_a_text_that_holds_the_seam_itself_is_cut_too() -> None:
    assert moved(["a\ue000", "b1"], lambda text: text.replace("1", "<n>")) == ["a\ue000", "b<n>"]
    seams = "".join(map(chr, range(0xE000, 0xE010)))
    assert moved([seams, "b1"], lambda text: text.replace("1", "<n>")) is None


SECRET = "sk-ant-api03-" + "x7Kq9ZbT4mWv2LpR8sYd" * 4
RULES = """
[normalisers.ticket]
pattern = "TICKET-[0-9]+"
placeholder = "<ticket>"
"""


def noted(root: Path, request: LlmRequest, cwd: Path) -> tuple[dict[str, Any], str]:
    """The notes of a recording, and the system text as it is stored."""
    store = Store.open_or_create(root)
    run = RunCore(store, "record", Redactor, surroundings=Surroundings.of({}, str(cwd)))

    async def record() -> None:
        async with ScopeAdapter(run.open_scope(), EchoAdapter()) as adapter:
            await adapter.complete(request)

    asyncio.run(record())
    run.commit()
    (stored,) = Store.open(root).list()
    fixture = Store.open(root).get(stored.model, stored.prompt_hash)
    assert fixture.request is not None
    cache: Any = (fixture.meta or {})["cache"]
    return cache, fixture.request.system


def test_rules_redaction_and_bindings_move_the_ends_of_blocks(tmp_path: Path) -> None:
    (tmp_path / "cortex-replay.toml").write_text(RULES)
    texts = [
        "Work on TICKET-12345.\n\nSoon.",
        f"The folder is {tmp_path / 'home'}/src, today.",
        f"The key is {SECRET}.",
        "Be kind.",
    ]
    blocks = [PromptBlock.cached_long(f"block {i}", text) for i, text in enumerate(texts[:-1])]
    blocks.append(PromptBlock.plain("last", texts[-1]))
    request = to_request(blocks, wire="anthropic-messages", model="m", messages="q")

    cache, system = noted(tmp_path / "store", request, tmp_path / "home")

    ends = [block["end"] for block in cache["blocks"]]
    starts = [0, *(end + 2 for end in ends[:-1])]
    stored = [system[start:end] for start, end in zip(starts, ends, strict=True)]
    assert stored[0] == "Work on <ticket>.\n\nSoon."
    assert stored[1] == "The folder is ⟦cwd⟧/src, today."
    assert stored[2].startswith("The key is ")
    assert SECRET not in system
    assert stored[3] == "Be kind."
    assert [block["label"] for block in cache["blocks"]] == ["block 0", "block 1", "block 2", "last"]
    assert cache["markers"] == [{"at": "system", "number": 3, "ttl": "1h"}]


def test_a_block_whose_end_is_lost_takes_its_marker_along(tmp_path: Path) -> None:
    """The end of the last one is that of the text."""
    (tmp_path / "cortex-replay.toml").write_text(
        '[normalisers.all]\npattern = "(?s)one.*two"\nplaceholder = "<both>"\n'
    )
    blocks = [
        PromptBlock.cached_long("a", "one"),
        PromptBlock.cached_short("b", "two"),
        PromptBlock.cached_long("c", "three"),
    ]
    request = to_request(blocks, wire="anthropic-messages", model="m", messages="q")

    cache, system = noted(tmp_path / "store", request, tmp_path)

    assert system == "<both>\n\nthree"
    assert cache == {"markers": [{"at": "system", "number": 1, "ttl": "1h"}]}


def test_rules_that_come_later_move_them_too(tmp_path: Path) -> None:
    blocks = [PromptBlock.cached_long("a", "Ticket TICKET-12345."), PromptBlock.plain("b", "Be kind.")]
    request = to_request(blocks, wire="anthropic-messages", model="m", messages="q")
    root = tmp_path / "store"
    before, _ = noted(root, request, tmp_path)
    (tmp_path / "cortex-replay.toml").write_text(RULES)

    assert CliRunner().invoke(main, ["rekey", "--store", str(root)]).exit_code == 0

    (stored,) = Store.open(root).list()
    fixture = Store.open(root).get(stored.model, stored.prompt_hash)
    assert fixture.request is not None
    assert fixture.request.system == "Ticket <ticket>.\n\nBe kind."
    assert [block["end"] for block in before["blocks"]] == [20, 30]
    assert (fixture.meta or {})["cache"] == before | {
        "blocks": [{"end": 16, "label": "a"}, {"end": 26, "label": "b"}]
    }


def test_notes_that_do_not_fit_their_text_mark_only_its_end() -> None:
    markers: Any = [{"at": "system", "number": n, "ttl": "1h"} for n in (1, 2)]
    notes: Any = {"cache": {"markers": markers, "blocks": [{"end": 3}, {"end": 9}]}}

    assert [m.index for m in marks_of(restore_breakpoints(LlmRequest("m", "one\n\ntwo!"), notes))] == [0, 1]
    other = restore_breakpoints(LlmRequest("m", "another text"), notes)
    assert [(m.index, m.name) for m in marks_of(other)] == [(0, "system text")]
