"""``cortex-replay view``."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import urllib.request
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer
from cortex_replay.view import export
from tests.builder import StoreBuilder, ask
from tests.cli.commands import run, spoil
from tests.cli.programs import Shell, running
from tests.cli.repositories import Project
from tests.view.stores import RUN, SECRET, TEST, make_store
from tests.waiting import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "llm")


def document_in(page: Path, name: str) -> Any:
    """A document of a page in a file."""
    found = re.search(rf'id="data:{name}">([^<]*)<', page.read_text())
    assert found is not None
    return json.loads(gzip.decompress(b64decode(found[1])))


def asked(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        return json.load(answer)


def test_a_page_is_served_until_it_is_stopped(shell: Shell, store: Path, tmp_path: Path) -> None:
    (tmp_path / "cortex-replay.toml").write_text('max_age = "1h"\n')
    with running(shell, "view", "--store", str(store), "--no-open", BROWSER="false") as (facts, process):
        assert re.fullmatch(rf"http://127\.0\.0\.1:{facts['port']}/t-[0-9a-f]{{64}}/", facts["url"])
        assert facts["pid"] == process.pid
        page, found = asked(f"{facts['url']}data/page"), asked(f"{facts['url']}data/store")
    assert process.returncode == 0
    assert (page["title"], page["screens"]) == ("Recordings of llm", ["store", "conversation"])
    assert page["version"]
    assert len(found["calls"]) == 6
    assert found["max_age_days"] == pytest.approx(1 / 24)
    assert facts["talk"] == "6 recordings; Ctrl-C ends it\n"


READER = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(sys.argv[1], timeout=60).read().decode(), file=open("opened.html", "w"))
"""


def test_a_browser_is_opened_once_the_page_is_served(shell: Shell, store: Path, tmp_path: Path) -> None:
    """Also one that keeps its caller waiting until it has the page."""
    (tmp_path / "reader.py").write_text(READER)
    browser = f"{sys.executable} {tmp_path / 'reader.py'} %s"
    opened = tmp_path / "opened.html"
    with running(shell, "view", "--store", str(store), "--open", BROWSER=browser):
        wait_until(lambda: opened.exists() and opened.read_text() != "")

    assert "<title>Recordings of llm</title>" in opened.read_text()


def test_a_store_in_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    """An archive may hold one. The name stands in the head of the page."""
    store = make_store(Path(os.fsdecode(os.fsencode(tmp_path) + b"/st\xff\xe2\x80\xae<b>")))
    done = run("view", "--store", store, "--export", tmp_path / "page.html")

    assert done.exit_code == 0, done.exception
    head = (tmp_path / "page.html").read_text().partition("</head>")[0]
    assert "<title>Recordings of st\\udcff\\u202e&lt;b&gt;</title>" in head


def test_the_same_page_is_one_file(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    done = run("view", "--store", store, "--export", target)
    page = target.read_text()

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(f"wrote {target}, ")
    assert page.startswith("<!doctype html>")
    assert '<html lang="en" data-file>' in page
    assert len(re.findall(r'id="data:(?:calls|raw)/[0-9a-f]{32}"', page)) == 12
    assert SECRET not in page
    assert run("view", "--store", store, "--export", "-").stdout_bytes.startswith(b"<!doctype html>")
    facts = json.loads(run("view", "--store", store, "--export", target, "--json").stdout)
    assert facts == {"file": str(target), "bytes": target.stat().st_size}


def test_a_run_or_a_test_is_enough(store: Path, tmp_path: Path) -> None:
    sizes = []
    for chosen in ([], ["--run", RUN], ["--run", TEST]):
        assert run("view", "--store", store, *chosen, "--export", tmp_path / "page.html").exit_code == 0
        sizes.append((tmp_path / "page.html").read_text().count('id="data:calls/'))

    assert sizes == [6, 3, 1]
    unknown = run("view", "--store", store, "--run", "nothing", "--export", tmp_path / "none.html")
    assert unknown.exit_code == 3
    assert "no run and no test is called 'nothing'" in unknown.stderr
    assert not (tmp_path / "none.html").exists()


def test_a_page_that_becomes_too_large_is_not_written(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 100_000)
    target = tmp_path / "page.html"
    done = run("view", "--store", store, "--export", target)

    assert done.exit_code == 2
    assert re.search(r"more than 0\.1 MB: \d+ of 18 documents fill that\. Choose less", done.stderr)
    assert not target.exists()
    assert run("view", "--store", store, "--export", target, "--all").exit_code == 0
    assert target.stat().st_size > 100_000


def test_a_report_is_shown_and_says_what_is_unused(store: Path, tmp_path: Path) -> None:
    ledger = {"hits": 1, "used": [], "unused": [], "misses": []}
    (tmp_path / "report.json").write_text(json.dumps(ledger))
    target = tmp_path / "page.html"
    done = run("view", "--store", store, "--report", tmp_path / "report.json", "--export", target)

    assert done.exit_code == 0, done.stderr
    assert 'id="data:report"' in target.read_text()


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"hits": "many"}'])
def test_a_report_that_is_none_is_refused(store: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    target = tmp_path / "page.html"
    done = run("view", "--store", store, "--report", tmp_path / "report.json", "--export", target)

    assert done.exit_code == 2
    assert "report" in done.stderr
    assert not target.exists()


def test_what_is_broken_is_said_and_the_rest_is_shown(builder: StoreBuilder, tmp_path: Path) -> None:
    spoil(builder)
    done = run("view", "--store", builder.root, "--export", tmp_path / "page.html")

    assert done.exit_code == 0
    assert "1 file not shown: not what INDEX.toml vouches for" in done.stderr
    assert (tmp_path / "page.html").read_text().count('id="data:calls/') == len(builder.files) - 1


def test_what_changed_is_shown_first(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.record(ask("Say hello."), Answer("Hello."))
    project.commit()
    project.record(ask("Say hello."), Answer("Good day."))
    target = tmp_path / "page.html"
    done = run("view", "--store", tmp_path / "llm", "--base", "HEAD", "--export", target)
    page, change = (document_in(target, name) for name in ("page", "change"))

    assert done.exit_code == 0, done.stderr
    assert page["screens"] == ["change", "store", "conversation"]
    assert (change["base"], change["head"], change["counts"]["words"]) == ("HEAD", "the working tree", 1)
    both = run("view", "--store", tmp_path / "llm", "--base", "HEAD", "--head", "HEAD", "--export", target)
    assert both.exit_code == 0
    assert document_in(target, "change")["items"] == []


def test_a_commit_that_git_does_not_know(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.record(ask("Say hello."), Answer("Hello."))
    project.commit()
    done = run("view", "--store", tmp_path / "llm", "--base", "nothing", "--export", tmp_path / "page.html")

    assert done.exit_code == 1
    assert "nothing" in done.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--head", "main"], "--head goes with --base"),
        (["--all"], "--all goes with --export"),
        (["--export", "p.html", "--port", "80"], "--open and --port are for a page that is served"),
        (["--export", "-", "--json"], "--json has no place there"),
        (["--report", "nothing.json"], "does not exist"),
    ],
)
def test_wrong_usage(store: Path, arguments: list[str], reason: str) -> None:
    done = run("view", "--store", store, *arguments)

    assert done.exit_code == 2
    assert reason in " ".join(done.stderr.split())


def test_an_index_that_is_broken_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "INDEX.toml").write_text("nonsense\n")
    done = run("view", "--store", tmp_path, "--export", tmp_path / "page.html")

    assert done.exit_code == 5
    assert not (tmp_path / "page.html").exists()


def test_a_link_is_not_followed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "page.html").symlink_to("mine.txt")
    done = run("view", "--store", store, "--export", tmp_path / "page.html")

    assert done.exit_code == 1
    assert (tmp_path / "mine.txt").read_text() == "mine"
