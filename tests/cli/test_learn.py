"""``cortex-replay learn -- COMMAND``; ``integration/test_agents.py`` learns from real agents."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from cortex_replay import Answer, Fixture, LlmMessage, LlmRequest, Store
from cortex_replay.bindings import PlaceRule
from cortex_replay.cli.rule_keeping import plan_keeping
from cortex_replay.config import key_rules_for
from tests.cli.commands import run
from tests.cli.programs import ASK

PID = PlaceRule(bind="pid", before="PGID: ", learned="call 2, message 1 (user), 2026-11-16")
AGENT = (
    ASK
    + """
import datetime, pathlib
print(ask(f"You are in {os.getcwd()}, home {os.environ['HOME']}, today {datetime.date.today()}."))
pathlib.Path("written").write_text("x")
print(ask(f"TASK\\nPGID: {os.getpid()}\\nWall time: {os.getpid() / 1000:.4f} seconds"))
pathlib.Path("ended").write_text("x")
"""
)
CALM = AGENT.replace("TASK", "Go on.")
CHANGED = f"import signal, sys; sys.excepthook = lambda *_: signal.pause()\n{AGENT.replace('TASK', 'Stop.')}"
"""It would not end by itself."""
SILENT = "pass"


def asked(text: str) -> LlmRequest:
    return LlmRequest("m", "", [LlmMessage("user", text)])


def recording(text: str, answer: str, **meta: Any) -> Fixture:
    return Fixture.of(asked(text), Answer(answer), meta=meta)


FIRST = recording(
    "You are in ⟦cwd⟧, home ⟦home⟧, today ⟦date⟧.",
    "Look into ⟦cwd⟧.",
    bindings=["cwd", "date", "home"],
    call=1,
)
SECOND = recording("Go on.\nPGID: 48113\nWall time: 0.0100 seconds", "Kill 48113.", call=2)


@pytest.fixture
def store(in_a_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a store of two calls."""
    monkeypatch.setenv("HOME", str(tmp_path / "home-of-mia"))
    made = Store.create(tmp_path / "llm")
    for fixture in (FIRST, SECOND):
        made.add(fixture)
    made.commit()
    return tmp_path / "llm"


def learn(*options: str, agent: str = CALM) -> Result:
    return run("learn", "--store", "llm", *options, "--", sys.executable, "-I", "-c", agent)


def files_of(folder: Path) -> dict[str, bytes]:
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("written", "ended"))
    return {str(path): path.read_bytes() for path in kept if ".cortex" not in str(path)}


def test_rules_are_printed_then_written_and_the_command_replays(store: Path, tmp_path: Path) -> None:
    """With every byte of the configuration before them as it was."""
    (tmp_path / "cortex-replay.toml").write_bytes(b'store = "llm" # here')
    before = files_of(tmp_path)
    dry = learn("--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert "2 rules from 2 calls; 1 call needed none" in dry.stderr
    assert files_of(tmp_path) == before

    done = learn("--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [(rule["bind"], rule["before"]) for rule in facts["rules"]] == [
        ("pid", "PGID: "),
        ("duration", "Wall time: "),
    ]
    written = (tmp_path / "cortex-replay.toml").read_bytes()
    assert written.startswith(
        b'store = "llm" # here\n\n[[bindings.rules]]\nbind = "pid"\nbefore = "PGID: "\n'
    )
    learned = tomllib.loads(written.decode())["bindings"]["rules"]
    assert learned[0]["learned"].startswith("call 2, message 1 (user), 20")
    assert dry.stdout.splitlines()[-3:-1] == [
        'before = "Wall time: "',
        f'learned = "{learned[1]["learned"]}"',
    ]
    after = files_of(tmp_path)
    replayed = run("replay", "--store", "llm", "--fail-on", "miss", "--", sys.executable, "-I", "-c", CALM)
    assert replayed.exit_code == 0, replayed.stderr
    assert "2 hits, 0 misses" in replayed.stderr
    assert "got another key, 2 keep theirs" in run("rekey", "--store", "llm").stderr
    assert files_of(tmp_path) == after


def test_a_change_stops_the_command_and_nothing_is_written(store: Path, tmp_path: Path) -> None:
    before = files_of(tmp_path)
    done = learn(agent=CHANGED)

    assert done.exit_code == 3
    assert "call 2 is not what was recorded, and not by noise; the command was stopped" in done.stderr
    assert "message 1 (user): 'Go on' → 'Stop'" in done.stderr
    assert files_of(tmp_path) == before
    assert (tmp_path / "written").exists()
    assert not (tmp_path / "ended").exists()
    facts = json.loads(learn("--json", agent=CHANGED).stdout)
    assert facts["departure"]["call"] == 2
    assert facts["departure"]["changes"][0]["what"] == "message 1 (user): 'Go on' → 'Stop'"


@pytest.mark.parametrize("answer", ["Kill 51999.", "Let 51999 live."], ids=["same", "another"])
def test_a_rule_that_would_make_two_recordings_one_is_refused(
    store: Path, tmp_path: Path, answer: str
) -> None:
    """Also where their answers are the same: they are two calls. Both are named."""
    other = recording("Go on.\nPGID: 51999\nWall time: 0.0300 seconds", answer, call=7)
    opened = Store.open(store)
    path = opened.add(other)
    opened.commit()
    before = files_of(tmp_path)
    done = learn()

    assert done.exit_code == 1
    assert path in done.stderr
    assert opened.path(*SECOND.key) in done.stderr
    assert "one key" in done.stderr
    assert files_of(tmp_path) == before


def test_one_call_that_was_recorded_twice_becomes_one(store: Path) -> None:
    """As by ``record --again``: the same place, and the same answer."""
    opened = Store.open(store)
    opened.add(recording("Go on.\nPGID: 51999\nWall time: 0.0300 seconds", "Kill 51999.", call=2))
    opened.commit()
    done = learn()

    assert done.exit_code == 0, done.stderr
    assert len(Store.open(store)) == 2


def test_elsewhere_the_command_runs_in_a_copy(store: Path, tmp_path: Path) -> None:
    done = learn("--elsewhere", "--dry-run")

    assert done.exit_code == 0, done.stderr
    assert "2 rules from 2 calls" in done.stderr
    place = Path(done.stderr.split("elsewhere: ")[1].split(",")[0])
    assert not place.exists()
    assert not (tmp_path / "written").exists()


def test_what_makes_no_sense_is_said(store: Path) -> None:
    assert learn(agent=SILENT).exit_code == 1
    assert "go with --elsewhere" in learn("--keep").stderr
    assert run("learn").exit_code == 2
    done = run("learn", "--store", "llm", "--", "no-such-program")
    assert (done.exit_code, "cannot be run" in done.stderr) == (127, True)


def test_a_crash_between_the_two_writes_is_mended_by_rekey(store: Path, tmp_path: Path) -> None:
    """The rules are there, and the recordings do not follow them yet."""
    keeping = plan_keeping(store, [PID])
    keeping.file.write_bytes(keeping.content)
    missed = run("replay", "--store", "llm", "--", sys.executable, "-I", "-c", CALM)
    assert "1 hit, 1 miss" in missed.stderr
    assert run("rekey", "--store", "llm").exit_code == 0

    text = "Go on.\nPGID: ⟦pid#1⟧\nWall time: 0.0100 seconds"
    fixture = Store.open(store).get("m", asked(text).prompt_hash())
    assert fixture.answers[0].text == "Kill ⟦pid#1⟧."
    assert (fixture.meta or {})["bindings"] == ["pid"]


@pytest.mark.parametrize(
    ("files", "name", "prefix"),
    [
        ({}, "cortex-replay.toml", ""),
        ({"pyproject.toml": '[project]\nname = "a"\n'}, "pyproject.toml", "tool.cortex-replay."),
        ({"cortex-replay.toml": 'store = "llm"\n'}, "cortex-replay.toml", ""),
        ({"llm/cortex-replay.toml": "", "pyproject.toml": ""}, "llm/cortex-replay.toml", ""),
    ],
)
def test_rules_go_to_the_configuration_of_the_store(
    store: Path, tmp_path: Path, files: dict[str, str], name: str, prefix: str
) -> None:
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    keeping = plan_keeping(store, [PID])

    assert (keeping.file, keeping.prefix) == (tmp_path / name, prefix)
    keeping.write()
    assert (tmp_path / name).read_text().startswith(files.get(name, ""))
    assert PID in key_rules_for(store).bindings.rules


def test_a_configuration_behind_a_link_is_left_alone(store: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text("")
    (tmp_path / "cortex-replay.toml").symlink_to("elsewhere.toml")
    with pytest.raises(Exception, match="link"):
        plan_keeping(store, [PID])

    assert (tmp_path / "elsewhere.toml").read_text() == ""
