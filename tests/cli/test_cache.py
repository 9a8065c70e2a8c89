"""``cortex-replay cache`` as a person or a program sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from cortex_replay.cli.main import main
from cortex_replay.store import Fixture, Store
from cortex_replay.types import TokenUsage
from tests.cli.commands import run
from tests.history.recordings import RUN, Recording, record

RULES = "Refunds take five days. " * 100
CATALOGUE = "Umbrella, 12 EUR. " * 400
EARLIER = "20261115T063024Z-0000"


def shop(at: float, time: str, read: int, written: int, **more: object) -> Recording:
    return Recording(
        at,
        {"policy": f"It is {time}.\n{RULES}", "catalogue": CATALOGUE},
        usage=TokenUsage(3010, 5, read, written),
        markers=[("system", 2)],
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in which the first block changes once, and the provider drops something early."""
    monkeypatch.chdir(tmp_path)
    record(
        tmp_path,
        shop(-90000, "08:00", 0, 3000, run=EARLIER, meta={"scope": "tests/test_shop.py::test_old"}),
        shop(0, "09:15", 0, 3000),
        shop(7.4, "09:15", 3000, 0, turns=["And now?"]),
        shop(75, "09:16", 0, 3000, turns=["And then?"]),
        shop(80, "09:16", 0, 3000, turns=["\x1b[2JWell?"], meta={"cache": {"reason": "evicted\x1b[31m"}}),
    )
    return tmp_path


def test_the_latest_run_call_by_call(root: Path) -> None:
    result = run("cache")

    assert result.exit_code == 0, result.output
    lines = result.stdout.split("\n")
    assert lines[0] == f"run {RUN}: 4 calls in 1:20"
    rows = [line.split() for line in lines if line.lstrip()[:1].isdigit()]
    assert rows[0] == [
        "1",
        "0:00",
        "3,010",
        "0",
        "3,000",
        "3,760",
        "0",
        "3,000",
        "3,760",
        "claude-haiku-5-5",
    ]
    assert rows[1] == ["2", "0:07", "3,010", "3,000", "0", "310", "3,000", "0", "310", "claude-haiku-5-5"]
    assert rows[3][-2:] == ["!", "claude-haiku-5-5"]
    assert "the provider says: evicted\\x1b[31m" in result.stdout
    assert "\x1b[31m" not in result.stdout


def test_the_end_says_what_was_paid_again_and_what_it_costs(root: Path) -> None:
    shown = run("cache").stdout

    assert "What was paid again, and why" in shown
    assert "block 'policy' changed, and the difference looks like a time (call 3)" in shown
    assert "What 4 calls cost, in input tokens" in shown
    costs = dict(
        line.strip().rsplit("  ", 1)[0].rsplit(maxsplit=1) if "%" in line else line.strip().rsplit(maxsplit=1)
        for line in shown.partition("What 4 calls cost")[2].split("\n")[1:6]
    )
    assert costs["as the provider reported it"] == "11,590"  # three writes of 3,000 and a read, 10 fresh each
    assert costs["simulated"] == "8,140"
    assert costs["with no marker"] == "12,040"
    assert costs["with an hour instead of five minutes"] == "12,640"


def test_runs_and_tests_are_chosen_by_name(root: Path) -> None:
    assert run("cache", "20261115").stdout.startswith(f"run {EARLIER}: 1 call in 0:00")
    assert run("cache", "tests/*").stdout.startswith(f"run {EARLIER}: 1 call")
    assert run("cache", "all").stdout.startswith("2 runs: 5 calls in 25:01:20")


def test_what_does_not_exist_is_said(root: Path) -> None:
    result = run("cache", "nonsense\x1b[2J")

    assert result.exit_code == 3
    assert "no run and no test is called" in result.stderr
    assert EARLIER in result.stderr
    assert "\x1b[2J" not in result.stderr
    result = run("cache", "x", "--json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert json.loads(result.stderr)["error"] == "NoFixture"


def test_nothing_is_recorded(tmp_path: Path) -> None:
    Store.create(tmp_path)

    result = run("cache", "--store", tmp_path)
    assert result.exit_code == 3
    assert "nothing is recorded here" in result.stderr
    assert run("cache", "--store", tmp_path / "nothing").exit_code == 1


def test_recordings_without_requests_say_so(tmp_path: Path) -> None:
    fixture = shop(0, "09:15", 0, 3000).fixture(1)
    store = Store.create(tmp_path)
    store.add(Fixture(fixture.key, fixture.answers))
    store.commit()

    result = run("cache", "--store", tmp_path)
    assert result.exit_code == 3
    assert "no recording holds its request" in result.stderr


def test_a_store_that_is_not_what_its_index_says(root: Path) -> None:
    path = next(root.glob("fixtures/**/*.json"))
    path.write_bytes(path.read_bytes().replace(b"Yes.", b"No!!"))

    result = run("cache")
    assert result.exit_code == 5
    assert result.stdout == ""


def test_a_program_gets_everything(root: Path) -> None:
    value = json.loads(run("cache", "--json", "--calls", "0").stdout)

    assert value["runs"] == [RUN]
    assert value["recorded_runs"] == [{"run": EARLIER, "calls": 1}, {"run": RUN, "calls": 4}]
    assert [call["differs"] for call in value["calls"]] == [False, False, False, True]
    assert value["losses"][0]["block"] == "block 'policy'"
    assert value["costs"]["given"]["amount"] == "8140"


def test_many_calls_stay_readable(root: Path) -> None:
    shown = run("cache", "all", "--calls", "2").stdout

    assert "3 calls not shown here (--calls 5 shows all)" in shown
    rows = [line for line in shown.split("\n") if "claude-haiku-5-5" in line]
    assert [row.split()[0] for row in rows] == ["4", "5"]  # what tells most: a loss, and a difference
    assert "claude" not in run("cache", "all", "--calls", "0").stdout


def test_prices_make_it_money(root: Path) -> None:
    prices = '[prices."claude-haiku-5-5"]\ninput = 3\noutput = 15\ncached = 0.3\n'
    (root / "cortex-replay.toml").write_text(f'store = "."\ncurrency = "USD"\n{prices}')

    shown = run("cache").stdout
    assert "What 4 calls cost, in USD" in shown
    assert "You set no price for" in shown
    assert "0.0114" in shown


def test_where_a_provider_caches_by_itself_markers_are_no_matter(tmp_path: Path) -> None:
    origin = {"provider": "openai", "wire": "openai-chat"}
    record(
        tmp_path,
        *(
            Recording(
                9 * i, {"rules": CATALOGUE}, [str(i)], TokenUsage(2000, 5, read), model="gpt-4o", meta=origin
            )
            for i, read in enumerate((0, 1920))
        ),
    )

    shown = run("cache", "--store", tmp_path).stdout
    assert "What 2 calls cost" in shown
    assert "marker" not in shown


def test_labels_of_a_stranger_steer_no_terminal(tmp_path: Path) -> None:
    """They come from whoever recorded."""
    label = "\x1b[2J::error::x\u202e" + "y" * 5000
    record(
        tmp_path,
        *(
            Recording(
                9 * i,
                {label: f"It is 09:1{i}.", "rules": CATALOGUE},
                usage=TokenUsage(2000, 5, 0, 1990),
                markers=[("system", 2)],
            )
            for i in range(2)
        ),
    )

    result = run("cache", "--store", tmp_path)
    assert result.exit_code == 0, result.output
    assert "changed" in result.stdout
    assert not {"\x1b", "\u202e"} & set(result.stdout)
    assert max(map(len, result.stdout.split("\n"))) < 250
    assert json.loads(run("cache", "--store", tmp_path, "--json").stdout)["losses"]


def test_whose_rules_to_follow(root: Path) -> None:
    assert run("cache", "--as", "anthropic").exit_code == 0
    assert run("cache", "--as", "nobody").exit_code == 2


def test_a_shell_completes_runs_and_tests(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = ShellComplete(main, {}, "cortex-replay", "_CORTEX_REPLAY_COMPLETE")

    assert [item.value for item in complete.get_completions(["cache"], "2026")] == [RUN, EARLIER]
    assert [item.value for item in complete.get_completions(["cache"], "tests/")] == [
        "tests/test_shop.py::test_old"
    ]
    assert "latest" in [item.value for item in complete.get_completions(["cache"], "")]
    monkeypatch.setattr("cortex_replay.cli.cache._MOST_COMPLETED", 1)
    assert [item.value for item in complete.get_completions(["cache"], "")] == ["latest", "all"]


def test_the_guide_shows_a_real_report(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs/cache.md").read_text()
    questions = ["Where is my parcel?", "Do you have umbrellas?", "Can I send it back?", "Is it waterproof?"]
    reason = {"cache": {"reason": "not found on this machine"}}
    record(
        tmp_path,
        shop(0, "09:15", 0, 3000, turns=[questions[0]]),
        shop(12, "09:15", 3000, 0, turns=[questions[1]]),
        shop(67, "09:16", 0, 3000, turns=[questions[2]]),
        shop(75, "09:16", 0, 3000, turns=[questions[3]], meta=reason),
        shop(131, "09:17", 0, 3000, turns=["What does it cost?"]),
    )

    assert f"$ cortex-replay cache\n{run('cache', '--store', tmp_path).stdout}```" in guide
    names = json.loads(run("cache", "--store", tmp_path, "--json").stdout)
    for name in (*names, *names["calls"][0], *names["losses"][0], *names["costs"]):
        assert f"`{name}`" in guide, name
