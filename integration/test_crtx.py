"""Both ways with ``crtx-llm`` 0.1.1: what either side writes, the other opens and answers from."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import FixtureIntegrityFailed, LlmMessage, LlmRequest, ReplayAdapter, Store
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.export import export_crtx
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.repack import plan_repack
from cortex_replay.store.store import Verify
from integration.peer import Crtx, said_here
from integration.samples import plain_fixtures, unrecorded_requests
from tests.golden import SHORT_STORE
from tests.linked import plain_talk
from tests.signing import new_key, sign

COUNT = 300
BOTH_WAYS: tuple[Verify, ...] = ("full", "on-read")


@pytest.fixture(scope="module")
def fixtures() -> list[Fixture]:
    return plain_fixtures(COUNT, seed=1)


def requests_of(fixtures: Sequence[Fixture]) -> list[LlmRequest]:
    """What was recorded, and some that were not: their refusals are compared too."""
    return [f.request for f in fixtures if f.request is not None] + unrecorded_requests(20, seed=2)


def written_here(root: Path, fixtures: Sequence[Fixture]) -> Path:
    store = Store.create(root)
    for fixture in fixtures:
        store.add(fixture)
    store.commit()
    return root


def unsigned_folder(root: Path, fixtures: Sequence[Fixture]) -> Path:
    """Fixtures as people keep them for the crate: any names, half of them in its own smaller form."""
    root.mkdir()
    for number, fixture in enumerate(fixtures):
        data = render_fixture(fixture)
        if number % 2:
            whole = json.loads(data)
            theirs = {"request_match": whole["request_match"], "response": whole["response"]}
            data = json.dumps(theirs, ensure_ascii=False, indent=2).encode()
        (root / f"{number:03} naïve.json").write_bytes(data)
    (root / "schema.json").write_text("{}")
    (root / "README.txt").write_text("not a fixture\n")
    return root


def signed_there(program: str, root: Path, count: int) -> Path:
    done = subprocess.run([program, root], capture_output=True, text=True, check=True)
    assert done.stderr == f"signed {count} fixture(s)\n"
    return root


def assert_same_answers(crtx: Crtx, root: Path, fixtures: Sequence[Fixture]) -> None:
    requests = requests_of(fixtures)
    theirs = crtx.said(root, requests)
    assert theirs.fixture_count == len(fixtures), theirs.answers
    assert sum(answer.startswith('{"ok"') for answer in theirs.answers) == len(fixtures)
    for verify in BOTH_WAYS:
        assert said_here(ReplayAdapter(root, verify=verify), requests) == theirs


def test_the_samples_hold_what_they_promise(fixtures: list[Fixture]) -> None:
    """Dice that never fell on a hard case would make every other test an easy one."""
    requests = [f.request for f in fixtures if f.request is not None]
    schemas = [request.json_schema for request in requests]
    objects = [schema for schema in schemas if isinstance(schema, dict)]
    names = [required for schema in objects if isinstance(required := schema.get("required"), list)]

    assert len(requests) == len({fixture.key for fixture in fixtures}) == COUNT
    assert {str(message.role) for r in requests for message in r.messages} == {"user", "assistant", "tool"}
    assert any(not request.system for request in requests)
    assert any(not request.messages for request in requests)
    assert "1e+16" in json.dumps(schemas)
    assert any(required != sorted(map(str, required)) for required in names)
    assert len({f.key.prompt_hash for f in fixtures}) < COUNT  # one question to two models


def test_prompt_hashes_are_equal(crtx: Crtx) -> None:
    requests = requests_of(plain_fixtures(2000, seed=3))

    assert crtx.prompt_hashes(requests) == [request.prompt_hash() for request in requests]


def test_a_store_written_here_opens_there(crtx: Crtx, tmp_path: Path, fixtures: list[Fixture]) -> None:
    """In our own layout: the crate takes rows from sub-folders as they are."""
    root = written_here(tmp_path / "store", fixtures)

    assert_same_answers(crtx, root, fixtures)


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_signed_store_opens_there(
    crtx: Crtx, tmp_path: Path, fixtures: list[Fixture], is_flat: bool
) -> None:
    """It ignores the head of the index, and what stands beside it."""
    root = written_here(tmp_path / "store", fixtures[:50])
    if is_flat:
        export_crtx(Store.open(root), tmp_path / "flat")
        root = tmp_path / "flat"
    sign(root, new_key("crtx"))
    assert "store_id = " in (root / "INDEX.toml").read_text()
    assert (root / "INDEX.toml.sig").is_file()

    assert_same_answers(crtx, root, fixtures[:50])


def test_a_store_that_has_lived_opens_there(crtx: Crtx, tmp_path: Path, fixtures: list[Fixture]) -> None:
    """Several commits, answers replaced and removed, something staged and never committed."""
    root = written_here(tmp_path / "store", fixtures[:200])
    store = Store.open(root)
    newer = {fixture.key: fixture for fixture in fixtures[:200]}
    for old, other in zip(fixtures[:50], fixtures[200:250], strict=True):
        newer[old.key] = Fixture(old.key, other.answers, old.request)
        store.replace(newer[old.key])
    store.commit()
    for gone in fixtures[50:100]:
        store.remove(*gone.key)
        del newer[gone.key]
    store.commit()
    store.add(fixtures[299])

    assert_same_answers(crtx, root, list(newer.values()))


def test_conversations_that_are_stored_once_open_there(
    crtx: Crtx, tmp_path: Path, fixtures: list[Fixture]
) -> None:
    """In both forms, and so does an export. It ignores what was asked, and the rows of parts."""
    begun = [fixture for fixture in fixtures[:50] if fixture.request is not None and fixture.request.messages]
    turns: list[Fixture] = []
    for number, fixture in enumerate(begun):
        request = fixture.request
        assert request is not None
        system = f"{request.system} {'You are brief. ' * 200 * (number % 2)}".strip()
        for count in range(4):
            messages = (*request.messages, *[LlmMessage("user", f"Go on, {n}.") for n in range(count)])
            asked = replace(request, system=system, messages=messages)
            key = FixtureKey(asked.model, asked.prompt_hash())
            turns.append(replace(fixture, key=key, request=asked))
    turns = list({fixture.key: fixture for fixture in turns}.values())
    root = written_here(tmp_path / "store", turns)
    text = (root / "INDEX.toml").read_text()
    assert text.count("continues = ") > 2 * len(begun)
    assert text.count("[[part]]") > 5

    assert_same_answers(crtx, root, turns)
    export_crtx(Store.open(root), tmp_path / "export")
    plan_repack(DirectorySource(root), is_whole=True).apply(DirectorySource(root))
    assert "continues = " not in (root / "INDEX.toml").read_text()
    assert_same_answers(crtx, root, turns)
    export_crtx(Store.open(root), tmp_path / "export of whole files")
    assert_same_answers(crtx, tmp_path / "export", turns)
    exports = [tmp_path / name for name in ("export", "export of whole files")]
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in exports)
    assert first == second


def test_a_store_from_when_conversations_began_to_be_stored_once_opens_there(crtx: Crtx) -> None:
    assert_same_answers(crtx, SHORT_STORE, [fixture for fixture, _ in plain_talk()])


def test_exchanges_between_the_rows_do_not_matter_there(
    crtx: Crtx, tmp_path: Path, fixtures: list[Fixture]
) -> None:
    """In the grid the rows of both tables are mixed, as their keys say."""
    root = written_here(tmp_path / "store", fixtures[:50])
    store = Store.open(root)
    for number in range(50):
        document = {
            "request": {"upstream": "x", "method": "GET", "path": f"/{number}", "query": [], "body": None},
            "wire": {"status": 200, "headers": [], "stream": False, "body": ""},
        }
        store.add_exchange(parse_exchange(json.dumps(document).encode()))
    store.commit()
    tables = re.findall(r"^\[\[(.+)\]\]$", (root / "INDEX.toml").read_text(), re.MULTILINE)
    assert tables != sorted(tables)
    assert tables != sorted(tables, reverse=True)

    assert_same_answers(crtx, root, fixtures[:50])


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_calls_of_tools_between_the_rows_do_not_matter_there(
    crtx: Crtx, sign_fixtures: str, tmp_path: Path, fixtures: list[Fixture], layout: str
) -> None:
    """Their files stand two folders deeper than those of other exchanges."""
    few = fixtures[:50]
    if layout == "nested":
        root = written_here(tmp_path / "store", few)
    else:
        root = signed_there(sign_fixtures, unsigned_folder(tmp_path / "flat", few), len(few))
    store = Store.open(root)
    for number in range(50):
        question = question_of("files", "tools/call", {"name": f"Tool {number}", "arguments": {"n": number}})
        document = {"request": question, "wire": {"messages": [{"at_ms": 0, "result": {"n": number}}]}}
        store.add_exchange(parse_exchange(json.dumps(document).encode()))
    store.commit()

    assert Store.open(root).layout == layout
    assert len(list(root.glob("**/exchanges/mcp/files/tools-call-tool-*.json"))) == 50
    assert_same_answers(crtx, root, few)


def test_an_exported_store_opens_there(crtx: Crtx, tmp_path: Path, fixtures: list[Fixture]) -> None:
    command = [sys.executable, "-m", "cortex_replay", "export"]
    if subprocess.run([*command, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("this version has no `cortex-replay export`")
    root = written_here(tmp_path / "store", fixtures)
    flat = tmp_path / "flat"

    written = [*command, "--crtx", str(flat), "--store", str(root), "--json"]
    report = json.loads(subprocess.run(written, capture_output=True, check=True).stdout)

    unseen = {omission["kind"] for omission in report["left_out"]}
    assert not unseen & {"request", "normalised", "failure", "exchange"}, "it asked for each of them"
    assert_same_answers(crtx, flat, fixtures)
    assert len(list(flat.glob("*.json"))) == COUNT
    assert not [path for path in flat.iterdir() if path.is_dir()]


def test_a_folder_signed_there_opens_here(
    crtx: Crtx, sign_fixtures: str, tmp_path: Path, fixtures: list[Fixture]
) -> None:
    root = signed_there(sign_fixtures, unsigned_folder(tmp_path / "flat", fixtures), COUNT)

    assert Store.open(root).layout == "flat"
    assert_same_answers(crtx, root, fixtures)


def test_a_folder_signed_there_and_added_to_here_opens_there(
    crtx: Crtx, sign_fixtures: str, tmp_path: Path, fixtures: list[Fixture]
) -> None:
    """And again after the crate has signed what was added."""
    *before, new = fixtures
    root = signed_there(sign_fixtures, unsigned_folder(tmp_path / "flat", before), COUNT - 1)
    store = Store.open(root)
    store.add(new)
    store.commit()

    assert Store.open(root).layout == "flat"
    assert_same_answers(crtx, root, fixtures)
    signed_there(sign_fixtures, root, COUNT)
    assert_same_answers(crtx, root, fixtures)


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_both_refuse_a_flipped_bit(
    crtx: Crtx, sign_fixtures: str, tmp_path: Path, fixtures: list[Fixture], layout: str
) -> None:
    few = fixtures[:20]
    make: dict[str, Callable[[], Path]] = {
        "nested": lambda: written_here(tmp_path / "store", few),
        "flat": lambda: signed_there(sign_fixtures, unsigned_folder(tmp_path / "flat", few), len(few)),
    }
    root = make[layout]()
    requests = requests_of(few)
    sound = crtx.said(root, requests)
    dice = random.Random(4)
    for row in dice.sample(Store.open(root).list(), 10):
        file = root / row.path
        data = file.read_bytes()
        place = dice.randrange(len(data))
        file.write_bytes(data[:place] + bytes([data[place] ^ 1 << dice.randrange(8)]) + data[place + 1 :])

        theirs = crtx.said(root, requests)
        assert theirs.fixture_count is None
        assert "hash mismatch" in theirs.answers[0]
        with pytest.raises(FixtureIntegrityFailed) as refused:
            Store.open(root)
        assert [(issue.code, issue.path) for issue in refused.value.issues] == [("mismatch", row.path)]

        file.write_bytes(data)
    assert crtx.said(root, requests) == sound == said_here(ReplayAdapter(root), requests)


def test_answers_of_scopes_do_not_matter_there(crtx: Crtx, tmp_path: Path, fixtures: list[Fixture]) -> None:
    """It gives the shared ones, in either layout: the table of the others is none of its own."""
    root = written_here(tmp_path / "store", fixtures[:50])
    flat = tmp_path / "flat"
    crtx_export(root, flat)
    for place in (root, flat):
        store = Store.open(place)
        for number, (one, other) in enumerate(zip(fixtures[:50], fixtures[50:100], strict=True)):
            scope = f"tests/test_{number}.py::test"
            own = Fixture(one.key, other.answers, one.request, {"scope": scope})
            store.add(own, scope=scope)
            store.pin("tests/test_pinned.py::test", *one.key)
        store.commit()

        assert len(store.scopes) == 51
        assert_same_answers(crtx, place, fixtures[:50])


def crtx_export(root: Path, target: Path) -> None:
    command = [sys.executable, "-m", "cortex_replay", "export", "--store", str(root), "--crtx", str(target)]
    subprocess.run(command, check=True, capture_output=True)
