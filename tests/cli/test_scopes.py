"""Every tool of a store, over one in which scopes have answers of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer, Fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import Index, parse_index
from tests.builder import ask, fixture_of
from tests.cli.commands import run
from tests.store.branches import IDENTITY

A, B, C = "tests/test_a.py::test_a", "tests/test_b.py::test_b", "tests/test_c.py::test_c"
REQUEST = ask("What is it?")
KEY = fixture_of(REQUEST, Answer("")).key
pytestmark = pytest.mark.usefixtures("in_a_folder")


def made(text: str, scope: str, question: str = "What is it?") -> Fixture:
    meta: dict[str, Any] = {"scope": scope, "recorded_at": "2026-01-01T00:00:00Z"}
    return fixture_of(ask(question), Answer(text), meta=meta)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A has what is shared, B another answer with an error before it, C what A has."""
    store = Store.create(tmp_path / "store")
    for text, scope in (("one", A), ("two", B), ("one", C)):
        store.add(made(text, scope), scope=scope)
    failure = Exchange.failure(KEY, 1, {"status": 529, "headers": {}, "body": ""})
    store.add_exchange(failure, scope=B)
    store.commit()
    return store.root


def texts(root: Path) -> dict[str, str]:
    assert check_store(DirectorySource(root)).findings == []
    store = Store.open(root)
    return {scope: store.get(*KEY, scope).answers[0].text for scope in (A, B, C)}


def index_text(root: Path) -> str:
    return (root / "INDEX.toml").read_text()


EXPECTED = {A: "one", B: "two", C: "one"}


def test_verify_counts_them(root: Path) -> None:
    result = run("verify", "--store", root, "--json")

    report = json.loads(result.stdout)
    assert (report["ok"], report["fixtures"], report["scoped"], report["files_checked"]) == (True, 1, 3, 3)


def test_list_names_the_scope(root: Path) -> None:
    shown = run("list", "--store", root).stdout.splitlines()
    listed = json.loads(run("list", "--store", root, "--json", "--scope", "tests/test_b.py::*").stdout)

    for cell in ("  What is it?", f"  [{B}] What is it?", f"  [{C}] What is it?"):
        assert sum(line.endswith(cell) for line in shown) == 1
    assert [item["scope"] for item in listed] == [B]


def test_show_tells_who_gets_what(root: Path) -> None:
    shared = run("show", "--store", root, KEY.prompt_hash[:12]).stdout
    own = run("show", "--store", root, KEY.prompt_hash[:12], "--scope", B).stdout
    path = Store.open(root).path(*KEY, B)
    by_path = run("show", "--store", root, path).stdout

    assert f"given to      {C}" in shared
    assert "given to      all others" in shared
    assert f"another for   {B}: {path}" in shared
    assert own == by_path
    assert "two" in own


def test_prune_takes_rows_and_files_with_their_last_row(root: Path, tmp_path: Path) -> None:
    report = tmp_path / "used.json"
    scoped = [{"model": KEY.model, "prompt_hash": KEY.prompt_hash, "scope": B}]
    unused = [{**scoped[0], "scope": ""}, {**scoped[0], "scope": C}]
    report.write_text(json.dumps({"used": scoped, "unused": unused}))
    result = run("prune", "--store", root, "--unused-from", report, "--json")

    assert sorted(item["scope"] for item in json.loads(result.stdout)["removed"]) == ["", C]
    store = Store.open(root)
    assert store.get(*KEY, B).answers[0].text == "two"
    assert store.failures(*KEY, B)
    assert len(list((root / "fixtures").rglob("*.json"))) == 2
    run("prune", "--store", root, "--scope", "tests/*")
    assert list((root / "fixtures").rglob("*.json")) == []
    assert check_store(DirectorySource(root)).findings == []


def test_prune_leaves_a_file_that_another_scope_has(root: Path) -> None:
    assert run("prune", "--store", root, "--scope", C).exit_code == 0
    assert texts(root) == EXPECTED
    store = Store.open(root)
    store.pin(C, *KEY)
    store.commit()
    store.remove(*KEY)
    store.commit()

    assert Store.open(root).get(*KEY, C).answers[0].text == "one"


def test_index_finds_nothing_to_do(root: Path) -> None:
    before = index_text(root)

    assert run("index", "--store", root, "--check").exit_code == 0
    assert run("index", "--store", root).exit_code == 0
    assert index_text(root) == before


def test_index_knows_whose_a_file_is_that_is_not_listed(root: Path) -> None:
    index = parse_index(index_text(root))
    rest = [row for row in index.scoped if row.scope != B]
    (root / "INDEX.toml").write_text(render_index(Index(index.fixtures, index.exchanges, index.header, rest)))
    path = next(row.path for row in index.scoped if row.scope == B and row.is_fixture)
    result = run("index", "--store", root)

    assert f"new       {path}" in result.stdout
    found = next(row for row in parse_index(index_text(root)).scoped if row.path == path)
    assert (found.scope, found.is_fixture) == (B, True)


def test_index_follows_a_file_that_was_moved(root: Path) -> None:
    """For every row that names it."""
    path = Store.open(root).path(*KEY)
    (root / path).rename(root / "fixtures/moved.json")
    result = run("index", "--store", root)

    assert result.stdout.count("-> fixtures/moved.json") == 2
    assert texts(root) == EXPECTED


def test_rekey_moves_the_answers_of_scopes(root: Path) -> None:
    (root / "cortex-replay.toml").write_text(
        "[normalisers.it]\npattern = 'What is it'\nplaceholder = '<question>'\n"
    )
    result = run("rekey", "--store", root)
    assert result.exit_code == 0, result.output
    assert check_store(DirectorySource(root)).findings == []
    store = Store.open(root)
    key = store.key(REQUEST)

    assert key != KEY
    assert {scope: store.get(*key, scope).answers[0].text for scope in EXPECTED} == EXPECTED
    assert list(store.failures(*key, B)) == [1]
    assert len(list((root / "fixtures").rglob("*.json"))) == 3


def test_export_says_what_it_leaves_out(root: Path, tmp_path: Path) -> None:
    result = run("export", "--store", root, "--crtx", tmp_path / "flat", "--json")
    kinds = {one["kind"]: one["count"] for one in json.loads(result.stdout)["left_out"]}
    assert kinds["scoped"] == 2


def test_scan_looks_at_each_file_once(root: Path) -> None:
    assert run("scan", "--store", root).exit_code == 0


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout


def record(root: Path, scope: str, text: str) -> None:
    store = Store.open(root)
    store.replace(made(text, scope), scope=scope)
    store.commit()
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", f"{scope} says {text}")


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q", ".")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "main")
    return root


def test_branches_that_record_different_tests_merge(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "theirs")
    record(repository, B, "of theirs")
    git(repository, "checkout", "-q", "-b", "ours", "main")
    record(repository, C, "of ours")
    git(repository, "merge", "-q", "--no-edit", "theirs")

    assert texts(repository) == {A: "one", B: "of theirs", C: "of ours"}


def test_a_file_that_one_branch_drops_and_another_gives_to_a_scope_comes_back(repository: Path) -> None:
    """Git merges that without a conflict."""
    git(repository, "checkout", "-q", "-b", "theirs")
    store = Store.open(repository)
    store.pin("tests/test_d.py::test_d", *KEY)
    store.commit()
    git(repository, "commit", "-q", "-a", "-m", "pinned")
    git(repository, "checkout", "-q", "-b", "ours", "main")
    record(repository, C, "of ours")
    record(repository, A, "of ours")
    git(repository, "merge", "-q", "--no-edit", "theirs")

    assert [finding.code for finding in check_store(DirectorySource(repository)).findings] == ["missing"]
    result = run("resolve", "--store", repository)
    assert (result.exit_code, result.stdout.startswith("restored  fixtures/")) == (0, True), result.output
    assert Store.open(repository).get(*KEY, "tests/test_d.py::test_d").answers[0].text == "one"
    assert texts(repository) == {A: "of ours", B: "two", C: "of ours"}


def test_a_conflict_is_one_of_a_scope(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "theirs")
    record(repository, B, "of theirs")
    git(repository, "checkout", "-q", "-b", "ours", "main")
    record(repository, B, "of ours")
    subprocess.run(["git", *IDENTITY, "merge", "-q", "--no-edit", "theirs"], cwd=repository, check=False)
    result = run("resolve", "--store", repository, "--theirs")

    assert f"of {B} has two answers" in result.stdout
    assert texts(repository) == EXPECTED | {B: "of theirs"}


def test_a_review_tells_scopes_apart(repository: Path) -> None:
    record(repository, B, "another")
    store = Store.open(repository)
    store.pin("tests/test_d.py::test_d", *KEY)
    store.commit()
    shown = run("verify", "--store", repository, "--base", "HEAD~1")

    assert f"of {B}" in shown.stdout
    assert 'was "two"' in shown.stdout
    assert 'now "another"' in shown.stdout
    assert "1 scope given what others recorded" in shown.stderr
