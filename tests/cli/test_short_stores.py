"""A conversation is stored once, or its requests stand in every file whole: who looks sees the same."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import Fixture, LlmRequest, NoFixture, ReplayAdapter, Store
from cortex_replay.history.calls import read_calls
from cortex_replay.misses.nearest import nearest_fixture
from cortex_replay.store.fixture_json import is_short
from cortex_replay.store.reader import Verify
from tests.cli.commands import run
from tests.linked import MODEL, OTHER, make_short, talk, turns, write_whole

LAST = turns()[-1].prompt_hash()
FIRST = turns()[0].prompt_hash()
Both = tuple[Path, Path]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """A store, and its copy in the short form."""
    folder = tmp_path_factory.mktemp("forms")
    whole = write_whole(folder / "whole")
    return whole, make_short(whole, folder / "short")


def without_names(text: str, root: Path) -> str:
    """What is printed, without what the name of a file says of its content, and how large it is."""
    text = text.replace(str(root), "ROOT")
    text = re.sub(r"([0-9a-f]{16})-[0-9a-f]{8}\.json", r"\1.json", text)
    text = re.sub(
        r"^blake3 .*\n|^(continues|system|tools) +(in the part )?[0-9a-f]{64}.*\n",
        "",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r'"blake3": "[0-9a-f]+"|"removed_bytes": \d+', "", text)
    return re.sub(r"\([\d,]+ bytes\)", "", text)


READING = {
    "list": ("list",),
    "list --json": ("list", "--json"),
    "show": ("show", LAST),
    "show --json": ("show", LAST, "--json"),
    "show of a scope": ("show", LAST, "--scope", OTHER),
    "show what begins": ("show", FIRST),
    "story": ("show", "latest"),
    "story --json": ("show", "all", "--json"),
    "explain": ("explain", LAST),
    "explain --json": ("explain", LAST, "--json"),
    "cache": ("cache", "--as", "anthropic"),
    "cache --json": ("cache", "--as", "openai", "--json"),
    "verify": ("verify",),
    "scan": ("scan",),
    "index": ("index", "--check"),
    "rekey": ("rekey", "--dry-run", "--json"),
    "prune": ("prune", "--model", "*", "--dry-run", "--json"),
    "prune by age": ("prune", "--older-than", "1h", "--dry-run"),
    "refresh": ("refresh", "--provider", "echo", "--check", "--fail-on", "words", "--jobs", "1", "--json"),
}


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_a_command_prints_the_same_for_both_forms(command: tuple[str, ...], both: Both) -> None:
    results = [run(*command, "--store", root) for root in both]
    seen = [
        (result.exit_code, without_names(result.stdout, root), without_names(result.stderr, root))
        for result, root in zip(results, both, strict=True)
    ]

    assert seen[0] == seen[1]
    assert results[0].exit_code == (4 if command[0] == "refresh" else 0), results[0].output


def test_show_says_what_it_continues_and_gives_the_file_only_when_told(both: Both) -> None:
    _, short = both
    parent = turns()[-2].prompt_hash()

    shown = run("show", LAST, "--store", short).stdout
    assert re.search(
        rf"^continues +{parent} in fixtures/{MODEL}/.*, with 2 new messages$", shown, re.MULTILINE
    )
    assert "Turn 1, about numbers" in shown
    assert "tools         in the part " in run("show", FIRST, "--store", short).stdout
    raw = run("show", LAST, "--store", short, "--json", "--raw").stdout
    assert raw.encode() == Store.open(short).content(MODEL, LAST)
    assert json.loads(raw)["request"]["continues"] == parent


def test_an_export_of_both_forms_has_the_same_bytes(both: Both, tmp_path: Path) -> None:
    folders = [tmp_path / root.name for root in both]
    for root, folder in zip(both, folders, strict=True):
        assert run("export", "--crtx", folder, "--store", root).exit_code == 0

    exports = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert exports[0] == exports[1]
    assert not any(is_short(data) for name, data in exports[1].items() if name != "INDEX.toml")


Edit = Callable[[LlmRequest], LlmRequest]


def _edit_message(number: int) -> Edit:
    def edit(request: LlmRequest) -> LlmRequest:
        messages = list(request.messages)
        messages[number] = replace(messages[number], content=f"{messages[number].content} Be quick.")
        return replace(request, messages=tuple(messages))

    return edit


EDITS: dict[str, Edit] = {
    "first message": _edit_message(0),
    "a message in the middle": _edit_message(2),
    "last message": _edit_message(-1),
    "system": lambda request: replace(request, system=f"{request.system} Be quick."),
    "tools": lambda request: replace(request, tools=request.tools[:-1]),
    "a message less": lambda request: replace(request, messages=request.messages[:-1]),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("verify", ["full", "on-read"])
def test_a_miss_is_explained_alike(edit: Edit, verify: Verify, both: Both) -> None:
    """With what was nearest, and each difference, wherever in the conversation it is."""
    told = []
    for root in both:
        with pytest.raises(NoFixture) as caught:
            ReplayAdapter(root, verify).sync.complete(edit(turns()[-1]))
        told.append(without_names(caught.value.explanation, root))

    assert told[0] == told[1]
    assert "Nearest: fixtures/" in told[0]


@pytest.mark.parametrize("verify", ["full", "on-read"])
def test_misses_look_through_the_same_requests(verify: Verify, both: Both) -> None:
    """To the byte: which of thousands is nearest depends on it."""
    whole, short = (dict(Store.open(root, verify=verify).scan_requests()) for root in both)

    assert whole == short
    assert None not in whole.values()


def test_the_nearest_recording_is_told_by_the_whole_conversation(tmp_path: Path) -> None:
    """Others have the same last message, and little else."""
    asked = _edit_message(0)(turns()[-1])
    last = asked.messages[-1]
    alike = [LlmRequest(MODEL, f"You are number {number}.", [last], max_tokens=64) for number in range(12)]
    fixtures = [*talk(), *((Fixture.of(request, "No."), "") for request in alike)]
    whole = write_whole(tmp_path / "whole", fixtures)

    for root in (whole, make_short(whole, tmp_path / "short")):
        found = nearest_fixture(Store.open(root), asked)
        assert found is not None
        assert found.request == turns()[-1]


def test_what_cannot_be_put_together_is_left_out_of_a_look(both: Both, tmp_path: Path) -> None:
    """A look at unchecked files never fails: a file that is gone, one in another layout, a circle."""
    root = shutil.copytree(both[1], tmp_path / "store")
    opened = Store.open(root, verify="on-read")
    paths = [root / opened.path(MODEL, request.prompt_hash()) for request in turns()]
    before = dict(opened.scan_requests())
    paths[0].write_bytes(json.dumps(json.loads(paths[0].read_bytes())).encode())
    assert dict(opened.scan_requests()) == before
    paths[0].write_bytes(paths[0].read_bytes().replace(b'"max_tokens"', b'"most_tokens"'))
    lost = [key for key, asked in opened.scan_requests() if asked is None]
    assert len(lost) == 5  # four turns and the fork
    circle = json.loads(paths[1].read_bytes())
    circle["request"]["continues"] = LAST
    paths[1].write_text(json.dumps(circle))
    assert sum(asked is None for _, asked in opened.scan_requests()) == 5
    paths[1].unlink()
    assert sum(asked is None for _, asked in opened.scan_requests()) == 5


def test_a_secret_in_a_conversation_is_found_once_in_the_file_that_has_it(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "Ab1_" * 23 + "AA"
    whole = write_whole(tmp_path / "whole", [(Fixture.of(one, "."), "") for one in turns(3, f"is {secret}")])
    short = make_short(whole, tmp_path / "short")

    found = [json.loads(run("scan", "--json", "--store", root).stdout)["secrets"] for root in (whole, short)]
    first = Store.open(short).path(MODEL, turns(1, f"is {secret}")[0].prompt_hash())

    assert len({one["path"] for one in found[0]}) == 3
    assert len([one for one in found[1] if one["path"] == first]) == 1
    assert len(found[1]) < len(found[0])


def test_the_history_of_both_forms_is_the_same(both: Both) -> None:
    """And a message that two requests have is one value."""
    whole, short = (read_calls(Store.open(root)).calls for root in both)

    assert [call.request for call in whole] == [call.request for call in short]
    numbers = [call.request for call in short if "numbers" in call.request.messages[0].content]
    assert all(request.messages[0] is numbers[0].messages[0] for request in numbers)
