"""What a command prints steers no terminal and no CI runner, and holds no secret."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from cortex_replay import Answer, Finding, Fixture, LlmRequest, NoFixture, Store, StoreIo
from cortex_replay.cli import output
from cortex_replay.cli.main import main
from cortex_replay.pytest_plugin.terminal import shown as shown_by_plugin
from cortex_replay.redact.logs import logger_of
from tests.gateway.upstream import REAL_KEY
from tests.pytest_plugin.conftest import Run, provider, run  # noqa: F401 - fixtures
from tests.redact.kinds import ALNUM, some

PROGRAM = Path(sys.executable).with_name("cortex-replay")
KEY = "the-key-of-this-shell-" + some(Random(1), ALNUM, 12)
PATTERN = "gh" + "p_" + some(Random(2), ALNUM, 36)
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OUR_STYLE = re.compile("\x1b\\[(?:0|1|2|22|31)m")
EVIL = "a\x1b]0;title\x07b\x1b[2J\x9b31mc\u202ed\x7fe\rf\u2028g"
RUNNER = "\n::stop-commands::x\n  ::set-output name=a::b\n##[error]boom\n::error::no"
RUNNER += "\n##vso[task.prependpath]/x a ##VSO[task.setvariable variable=a]b\n##teamcity[message] ###vso[y]"


def assert_harmless(text: str) -> None:
    text = OUR_STYLE.sub("", text)
    assert STEERING.findall(text) == []
    assert [line for line in text.splitlines() if line.lstrip().startswith("::")] == []
    assert re.findall(r"##\w*\[", text) == []


def call(tmp_path: Path, *words: str) -> Result:
    """Run a command as at a terminal: there, click takes no escape sequence away."""
    environment = {"HOME": str(tmp_path), "OPENAI_API_KEY": KEY, "CORTEX_REPLAY_STORE": None}
    with contextlib.chdir(tmp_path):
        return CliRunner().invoke(main, words, prog_name="cortex-replay", env=environment, color=True)


def planted(root: Path) -> Fixture:
    """A store as a stranger may write it: whatever steers, and keys of whoever looks at it."""
    text = f"Hi {EVIL} {RUNNER} {KEY} {PATTERN}"
    request = LlmRequest(
        "m", system=text, messages=[{"role": "user", "content": text}], tools=[{"name": "f", KEY: 1}]
    )
    fixture = Fixture.of(request, Answer(text, finish_reason="stop"), meta={"adapter": text, KEY: [text]})
    store = Store.create(root)
    store.add(fixture)
    store.commit()
    return fixture


COMMANDS = {
    "show": ("show", "{hash}"),
    "show --json": ("show", "{hash}", "--json"),
    "explain": ("explain", "{hash}"),
    "explain --json": ("explain", "{hash}", "--json"),
    "list": ("list",),
    "list --json": ("list", "--json"),
    "scan": ("scan",),
    "scan --json": ("scan", "--json"),
    "verify": ("verify",),
    "prune": ("prune", "--model", "*", "--dry-run"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_store_of_a_stranger_steers_nothing(tmp_path: Path, name: str) -> None:
    fixture = planted(tmp_path / "s")
    words = [word.format(hash=fixture.key.prompt_hash) for word in COMMANDS[name]]
    done = call(tmp_path, *words, "--store", "s")

    assert_harmless(done.output)
    assert KEY not in done.output
    assert PATTERN not in done.output
    if "--json" in words:
        json.loads(done.stdout)


def test_a_real_command_does_the_same(tmp_path: Path) -> None:
    fixture = planted(tmp_path / "s")
    done = subprocess.run(
        [PROGRAM, "show", fixture.key.prompt_hash, "--json", "--store", "s"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY},
        capture_output=True,
        timeout=300,
        check=False,
    )

    assert json.loads(done.stdout)["request_match"] == fixture.key._asdict()
    assert done.stdout.isascii()
    assert_harmless(done.stdout.decode())
    assert KEY not in done.stdout.decode()


def test_the_door_relies_on_no_caller(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that forgot to escape what others wrote steers nothing, and shows no key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    output.start()
    text = f"{EVIL}{RUNNER}{KEY} {PATTERN}"
    output.echo(text)
    output.echo_lines([text, RUNNER])
    output.talk(text)
    output.print_address(f"{EVIL}{RUNNER}")
    output.print_json({text: [text]})
    output.print_error(StoreIo(text), as_json=False)
    output.print_error(NoFixture("m", "0" * 64, explanation=text), as_json=True)
    output.print_findings([Finding("c", text, text, text)])
    captured = capsys.readouterr()

    for shown in (captured.out, captured.err, shown_by_plugin(text), output.clean_message(text)):
        assert_harmless(shown)
        assert KEY not in shown
        assert PATTERN not in shown
    output.start()


def test_raw_means_raw(tmp_path: Path) -> None:
    """But for the keys of whoever looks."""
    fixture = planted(tmp_path / "s")
    done = call(tmp_path, "show", fixture.key.prompt_hash, "--raw", "--store", "s")

    assert "\x9b31m" in done.output
    assert PATTERN in done.output
    assert KEY not in done.output


@pytest.mark.parametrize(
    "words",
    [
        ("init", "--store", EVIL),
        ("init", "--store", f"{EVIL}{RUNNER}{KEY}"),
        ("init", "--json", "--store", EVIL),
        ("verify", "--store", EVIL + KEY),
        ("verify", f"a{RUNNER}", "--json"),
        ("show", f"{EVIL}{KEY}"),
        (f"no-such-{EVIL}{KEY}",),
        ("list", f"--no-such-{EVIL}{KEY}"),
        ("list", f"{PATTERN}{EVIL}"),
        (f"--no-such={KEY}",),
        ("record", "--prompt", "q", "--mode", f"{KEY}{EVIL}"),
        ("record", "--prompt", "q", "--provider", f"{KEY}{EVIL}{RUNNER}"),
        ("serve", "--upstream", f"{KEY}{EVIL}"),
        ("export", "--crtx", f"{EVIL}{KEY}", "--store", EVIL),
        ("import", f"{EVIL}{KEY}.yaml"),
    ],
    ids=lambda words: words[0][:8],
)
def test_arguments_steer_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Also where click quotes them."""
    done = call(tmp_path, *(word.replace("/", "_").replace("\0", "") for word in words))

    assert done.output
    assert_harmless(done.output)
    assert KEY not in done.output
    assert PATTERN not in done.output


def test_an_answer_in_pieces_is_printed_without_the_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is cut; what is harmless comes as soon as its word is whole."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    output.start()
    for size in range(1, 40):
        text = f"One word, then {KEY} and {PATTERN}\n{RUNNER}{EVIL} end"
        printer = output.AnswerPrinter(raw=False, is_silent=False)
        for start in range(0, len(text), size):
            printer.print(text[start : start + size])
        printer.end()
        shown = capsys.readouterr().out
        assert KEY not in shown
        assert PATTERN not in shown
        assert_harmless(shown)
        assert shown.startswith("| One word, then [REDACTED:known-value] and [REDACTED:github]\n| ")
        assert shown.endswith(" end\n")
    output.start()


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_long_word_in_pieces_becomes_no_command(capsys: pytest.CaptureFixture[str], cut: int) -> None:
    printer = output.AnswerPrinter(raw=False, is_silent=False)
    command = "##vso[task.prependpath]/x"
    printer.print("a" * 9000 + command[:cut])
    printer.print(command[cut:])
    printer.end()
    assert_harmless(capsys.readouterr().out)


def test_the_first_words_of_an_answer_do_not_wait_for_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    printer = output.AnswerPrinter(raw=False, is_silent=False)
    printer.print("Hello there, how are y")

    assert capsys.readouterr().out == "| Hello there, how are "


def test_a_logger_of_ours_writes_no_key(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the message, in its arguments, in the exception that goes with it; if arguments do not fit, too."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    logger = logger_of("cortex_replay.of_a_test")
    caplog.set_level(logging.DEBUG)
    logger.info("got %s and %r", KEY, {"key": PATTERN})
    logger.info("%d " + KEY, "no number")  # noqa: G003 - as somebody might write it
    try:
        raise ValueError(KEY)
    except ValueError:
        logger.exception("failed")

    assert "ValueError" in caplog.text
    assert KEY not in caplog.text
    assert PATTERN not in caplog.text


TEST = """
import os
import httpx, pytest

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"

@pytest.mark.llm_replay
@pytest.mark.parametrize("key", [{keys}])
def test_it(key):
    asked = [{{"role": "user", "content": f"q{{len(key)}}"}}]
    httpx.post(URL, json={{"model": "m", "max_tokens": 9, "messages": asked}}).raise_for_status()
"""


def test_the_plugin_keeps_and_shows_no_key(pytester: pytest.Pytester, run: Run) -> None:  # noqa: F811
    """A key as a parameter stands in the test's name, which is stored in ``meta`` and shown with a miss."""
    pytester.makepyfile(TEST.format(keys=", ".join(map(repr, (REAL_KEY, PATTERN, "plain")))))
    run("--llm-mode", "once", live=True).assert_outcomes(passed=3)
    stored = "".join(p.read_text() for p in (pytester.path / "llm").rglob("*") if p.is_file())
    assert stored.count('"tests"') == 3
    assert "test_it[plain]" in stored
    assert REAL_KEY not in stored
    assert PATTERN not in stored

    pytester.path.joinpath("llm", "INDEX.toml").write_text("")
    for path in (pytester.path / "llm").rglob("*.json"):
        path.unlink()
    missed = run("--llm-report", "report.json", "-q", "--tb=no", "-p", "no:terminalreporter")
    assert missed.ret != 0
    report = pytester.path.joinpath("report.json").read_text()
    assert len(json.loads(report)["misses"]) == 3
    assert PATTERN not in report


PASSPHRASE = "correct horse" + " battery stapl3 42"


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("size", [1, 3, 7, 100_000])
def test_an_answer_shows_no_value_with_blanks_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: int, raw: bool
) -> None:
    """Word by word, each would be printed before the value is whole."""
    monkeypatch.setenv("DB_PASSWORD", PASSPHRASE)
    output.start()
    answer = f"The word is correct, the correct horse, {PASSPHRASE} and correct horse batteries."
    printer = output.AnswerPrinter(raw=raw, is_silent=False)
    for at in range(0, len(answer), size):
        printer.print(answer[at : at + size])
    printer.end()
    shown = capsys.readouterr().out

    assert shown.removeprefix("| ") == answer.replace(PASSPHRASE, "[REDACTED:known-value]") + "\n"


@pytest.mark.parametrize("at", [8180, 8185, 8191, 4096, 12_280])
def test_an_answer_without_blanks_shows_no_part_of_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    """A long answer is printed before its end, and a key may stand where it is cut."""
    key = "zq" + "9Kd77tRwXp3mmA.44"
    monkeypatch.setenv("SOME_API_KEY", key)
    output.start()
    answer = "," * at + key + "," * 9000
    printer = output.AnswerPrinter(raw=False, is_silent=False)
    for character in range(0, len(answer), 5):
        printer.print(answer[character : character + 5])
    printer.end()
    shown = capsys.readouterr().out

    assert shown == "| " + answer.replace(key, "[REDACTED:known-value]") + "\n"
