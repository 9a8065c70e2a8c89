"""``record --proxy`` and ``replay --proxy``: a program that has its server built in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.cli.commands import run
from tests.cli.programs import Shell

# As it stands in the world: proxies and roots come from the environment, and nothing else does.
ASK = """
import json, sys, urllib.error, urllib.request
def ask(text, url="https://api.openai.com/v1/chat/completions"):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""


def test_a_program_without_a_base_url_is_recorded_and_replayed(shell: Shell, provider: FakeProvider) -> None:
    options = ("--proxy", "--json", "--upstream", f"openai={provider.url}/v1")
    recorded = shell.record(ASK + "print(ask('one'))", provider.url, *options)
    assert recorded.status == 0, recorded.talk
    assert recorded.out.splitlines()[0] == "You said: one"
    assert (recorded.report["recorded"], recorded.report["tunnelled"]) == (1, {})

    program = ASK + (
        "print(ask('one'))\n"
        "for url in ('https://example.com/', 'https://api.openai.com/v1/chat/completions'):\n"
        "    try: ask('two', url)\n"
        "    except OSError as error: print(error)\n"
    )
    replayed = shell.replay(program, "--proxy", "--json")
    assert replayed.out.splitlines()[:3] == [
        "You said: one",
        "<urlopen error Tunnel connection failed: 403 Forbidden>",
        "HTTP Error 424: Failed Dependency",
    ]
    assert replayed.report["bypassed"] == {"example.com:443": 1}
    assert len(replayed.report["misses"]) == 1
    assert "To record it: cortex-replay record --store llm --proxy -- " in replayed.talk


def test_a_program_that_trusts_only_its_own_roots_is_told_apart(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "INDEX.toml").touch()
    program = ASK + (
        "import os\n"
        "os.environ['SSL_CERT_FILE'] = os.devnull\n"
        "try: ask('one')\n"
        "except OSError as error: print(type(error.reason).__name__)\n"
    )
    replayed = shell.replay(program, "--proxy")
    assert replayed.out == "SSLCertVerificationError\n"
    assert "1 x the command did not accept our certificate for api.openai.com:443" in replayed.talk
    assert replayed.status == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["replay", "--model-host", "x.example", "--", "true"], "--model-host goes with --proxy"),
        (["record", "--model-host", "x.example", "--", "true"], "--model-host goes with --proxy"),
        (["record", "--proxy", "--prompt", "q", "--model", "m"], "--proxy goes with a command"),
        (["replay", "--no-guard", "--allow-host", "x.example", "--", "true"], "does not go with --no-guard"),
        (["replay", "--proxy", "--model-host", "https://x", "--", "true"], "'https://x' is no host"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "INDEX.toml").touch()
    done = run(*arguments)
    assert done.exit_code == 2
    assert reason in done.stderr


def test_without_its_package_the_proxy_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "INDEX.toml").touch()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "cortex_replay.gateway.authority", raising=False)
    done = run("replay", "--proxy", "--", "true")
    assert done.exit_code == 2
    assert "pip install 'cortex-replay[proxy]'" in done.stderr
