"""``cortex-replay replay -- COMMAND``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Store
from tests.adapters.fake_provider import FakeProvider
from tests.cli.commands import run
from tests.cli.programs import ASK, TWICE, Shell


def test_the_ledger_for_programs(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    shell.record(TWICE, provider.url)
    summary = tmp_path / "summary.md"
    replayed = shell.replay(
        ASK + "ask('two')", "--json", "--report", "used.json", GITHUB_STEP_SUMMARY=str(summary)
    )

    report = replayed.report
    assert (report["hits"], report["misses"], report["live"], report["bypassed"]) == (1, [], 0, {})
    assert (len(report["used"]), len(report["unused"])) == (1, 1)
    assert report["tokens"]["replayed"] == 16
    assert (report["mode"], report["command_status"]) == ("replay", 0)
    assert json.loads((tmp_path / "used.json").read_text()) == report
    assert "| hits | 1 |" in summary.read_text()
    pruned = shell.run("prune", "--store", "llm", "--unused-from", "used.json")
    assert pruned.status == 0
    assert len(Store.open(tmp_path / "llm")) == 1


def test_a_swallowed_miss_is_explained_and_fails(shell: Shell, provider: FakeProvider) -> None:
    """Else a test passes that has lost its model."""
    shell.record(TWICE, provider.url)
    careless = ASK + "import contextlib\nwith contextlib.suppress(Exception): ask('three')"

    for options in ([], ["--fail-on", "miss"]):
        swallowed = shell.replay(careless, *options)
        assert swallowed.status == 3
        assert "| To record it: cortex-replay record --store llm -- " in swallowed.talk
        assert "error: something was asked that is not recorded: m " in swallowed.talk
        assert "--allow-miss" in swallowed.talk
    assert shell.replay(careless, "--allow-miss").status == 0
    assert shell.replay(ASK + "ask('three')").status == 1, "the command's own wins"
    assert shell.replay(ASK + "ask('one')", "--fail-on", "unused").status == 4
    assert shell.record(TWICE, provider.url, "--mode", "record", "--fail-on", "live").status == 4


def test_a_probe_without_an_answer_does_not_fail(shell: Shell, provider: FakeProvider) -> None:
    """A program lives without the list of models: no answer was due."""
    shell.record(TWICE, provider.url)
    probing = ASK + (
        "import contextlib, urllib.request\nask('one')\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "with contextlib.suppress(OSError): opener.open(os.environ['OPENAI_BASE_URL'] + '/models')"
    )
    replayed = shell.replay(probing, "--json")

    assert replayed.status == 0, replayed.talk
    assert [(miss["what"], miss["is_probe"]) for miss in replayed.report["misses"]] == [
        ("GET /v1/models", True)
    ]


def test_equal_misses_are_told_once(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    shell.record(TWICE, provider.url)
    careless = (
        ASK + "import contextlib\nfor _ in range(3):\n with contextlib.suppress(Exception): ask('three')"
    )
    summary = tmp_path / "summary.md"
    replayed = shell.replay(careless, GITHUB_STEP_SUMMARY=str(summary))

    for text in (replayed.talk, summary.read_text()):
        assert text.count("nothing is recorded for") == 1
        assert text.count("It was asked 3 times.") == 1
    assert "3 misses" in replayed.talk


def test_it_replays_whatever_mode_is_configured(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    replayed = shell.replay(ASK + "ask('one')", "--json", CORTEX_REPLAY_MODE="record")

    assert (replayed.report["mode"], replayed.report["live"]) == ("replay", 0)


def test_a_command_that_calls_nobody_fails(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    for options in ([], ["--fail-on", "miss"]):
        silent = shell.replay("print('fine')", *options)
        assert silent.status == 1
        assert "no call came to the gateway" in silent.talk


def test_a_call_around_the_gateway_is_refused_and_named(shell: Shell, provider: FakeProvider) -> None:
    shell.record(TWICE, provider.url)
    around = ASK + (
        "import contextlib, urllib.request\nask('one')\n"
        "for url in ('https://api.example.com/v1', 'http://plain.example.com/x'):\n"
        "    with contextlib.suppress(OSError): urllib.request.urlopen(url, timeout=5)\n"
    )
    replayed = shell.replay(around, "--json")

    assert replayed.status == 0
    assert replayed.report["bypassed"] == {"api.example.com:443": 1, "plain.example.com": 1}
    assert "refused 1 x api.example.com:443" in replayed.talk
    assert shell.replay(around, "--fail-on", "live").status == 4


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["replay"], "give the command behind --"),
        (["replay", "--"], "give the command behind --"),
        (["replay", "--pace", "fast", "--", "true"], "pace"),
        (["replay", "--allow-miss", "--fail-on", "miss", "--", "true"], "exclude each other"),
    ],
)
def test_wrong_usage(shell: Shell, tmp_path: Path, arguments: list[str], reason: str) -> None:
    Store.create(tmp_path)
    result = shell.run(*arguments)

    assert result.status == 2, result.talk
    assert reason in result.talk


def test_without_a_store_it_says_how_to_record_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("replay", "--store", "llm", "--", "npm", "test")

    assert result.exit_code == 5
    assert "nothing is recorded yet" in result.stderr
    assert "record it once: cortex-replay record --store llm -- npm test" in result.stderr
    assert list(tmp_path.iterdir()) == []
