"""Whatever is wrong with a configuration is a ConfigError that says where it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import ConfigError, InvalidRequest
from cortex_replay.config import ProviderSettings, Redaction, Settings, key_for, key_rules_for
from cortex_replay.config.trust import consent_of, consents_in, refuse_without_consent
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.run.adapters import adapter_for
from tests.config.conftest import Project

STRANGE = '[providers.x]\nkind = "http"\nbase_url = "https://strange.example"\nkey_env = "X_KEY"'


def of_file(text: str) -> Callable[[Project], object]:
    def load(project: Project) -> object:
        project.write(text)
        return project.load()

    return load


def of_user(text: str, mode: int = 0o600) -> Callable[[Project], object]:
    def load(project: Project) -> object:
        path = project.write(text, "home/.config/cortex-replay/config.toml")
        path.chmod(mode)
        return project.load(environment={"HOME": str(project.root / "home")})

    return load


def of_rules(project: Project) -> object:
    project.write("normalisers.a = {pattern = 'a', placeholder = 'aa'}")
    return key_rules_for(project.root)


def of_stray_key(project: Project) -> object:
    project.write(STRANGE)
    return key_for(project.load().settings.providers["x"], {"X_KEY": "some-key-0001"})


def of_key_file(path: str) -> Callable[[Project], object]:
    def read(project: Project) -> object:
        project.write(f'[providers.claude]\nbase_url = "https://strange.example"\nkey_file = "{path}"')
        project.write("a-key-0001", "k").chmod(0o600)
        return key_for(project.load().settings.providers["claude"], {})

    return read


DOORS: dict[str, tuple[Callable[[Project], object], str]] = {
    "not TOML": (of_file("="), "cortex-replay.toml: is not TOML"),
    "an unknown setting": (of_file("modee = 1"), "cortex-replay.toml: modee: there is no such"),
    "a value of the wrong kind": (of_file('jobs = "x"'), "cortex-replay.toml: jobs: expected"),
    "a number too small": (of_file("jobs = 0"), "cortex-replay.toml: jobs: must be at least 1"),
    "a flag of the wrong kind": (
        of_file("providers.claude.allow_latest = 1"),
        "cortex-replay.toml: providers.claude.allow_latest: expected",
    ),
    "a pattern": (
        of_file("normalisers.a = '('"),
        "cortex-replay.toml: normalisers.a.pattern: is not a sound",
    ),
    "a name that cannot be seen": (of_file('"a\\u200b" = "x"'), "cortex-replay.toml: (a setting): holds"),
    "a key": (of_file('api_key = "x"'), "cortex-replay.toml: api_key: a key does not belong"),
    "a provider without a server": (of_file('providers.x.kind = "http"'), "base_url: a provider of the kind"),
    "a store elsewhere": (of_file('store = "../../x"'), "cortex-replay.toml: store: is outside"),
    "rules that disagree": (of_rules, "cortex-replay.toml: normalisers.a: would change"),
    "the user's own file": (of_user("jobs = 0"), "home/.config/cortex-replay/config.toml: jobs: must be"),
    "that others can write": (of_user("", 0o666), "home/.config/cortex-replay/config.toml: others could"),
    "a variable": (lambda p: p.load(environment={"CORTEX_REPLAY_JOBS": "x"}), "CORTEX_REPLAY_JOBS: expected"),
    "a flag": (lambda p: p.load(jobs=0), "--jobs: must be at least 1"),
    "a flag of no setting": (lambda p: p.load(job=1), "--job: there is no such setting"),
    "a provider by a flag": (lambda p: p.load(provider="nobody"), "--provider: there is no such provider"),
    "no provider": (lambda _: adapter_for(Settings(), None), "provider: none is named"),
    "a provider for the gateway": (lambda _: adapter_for(Settings(), "gemini"), "provider: one of the kind"),
    "no key": (lambda _: adapter_for(Settings(), "claude"), "api_key: there is none"),
    "a key to a stranger": (of_stray_key, "api_key: this project's configuration wants to send"),
    "a key file to a stranger": (of_key_file("k"), "api_key: this project's configuration wants to send"),
    "a key file of others": (of_key_file("../k"), "key_file ../k: is outside"),
    "a price": (
        of_file("prices.m = { input = 3, output = -1 }"),
        "cortex-replay.toml: prices.m.output: expected a number",
    ),
    "a key file": (
        lambda _: key_for(ProviderSettings(kind="claude", key_file=Path("gone")), {}),
        "key_file gone: cannot be read",
    ),
    "consent": (lambda _: consents_in({"CORTEX_REPLAY_TRUST": "x"}), "CORTEX_REPLAY_TRUST: expected SERVER="),
    "consent for no variable": (
        lambda _: consent_of("https://a.example", "lower", "trust"),
        "trust: expected the name of an environment variable",
    ),
    "a server in the environment": (
        lambda _: Upstreams(Settings(), {"OPENAI_BASE_URL": "ftp://a.example"}),
        "upstream: is not an http",
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door(project: Project, door: str) -> None:
    """Its text names the place first, and whoever catches InvalidRequest still gets it."""
    act, text = DOORS[door]
    with pytest.raises(InvalidRequest) as caught:
        act(project)

    assert type(caught.value) is ConfigError
    assert str(caught.value).replace("[0]", "").startswith(f"configuration: {text}")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Settings(jobs=0),
        lambda: ProviderSettings(kind="nothing"),  # type: ignore[arg-type]
        lambda: Redaction(redact_key=("x",)),
        lambda: Settings().provider_named("nobody"),
    ],
)
def test_an_argument_of_a_program_is_none(make: Callable[[], object]) -> None:
    """It is wrong as any other argument."""
    with pytest.raises(InvalidRequest) as caught:
        make()

    assert type(caught.value) is InvalidRequest


def test_consent_that_is_not_needed() -> None:
    """The counterpart: nothing is raised."""
    refuse_without_consent(ProviderSettings(kind="claude"), "ANTHROPIC_API_KEY", None, {})


@pytest.mark.parametrize(
    "command", [["cortex-replay", "config"], ["cortex-replay", "list"], ["pytest", "-q", "test_one.py"]]
)
def test_a_person_reads_it(project: Project, command: list[str]) -> None:
    """At the command line and under pytest."""
    project.write("jobs = 0")
    project.write("import pytest\n@pytest.mark.llm\ndef test_one(llm): pass\n", "test_one.py")
    program = Path(sys.executable).with_name(command[0])
    done = subprocess.run(
        [program, *command[1:]],
        env={"PATH": os.environ["PATH"]},
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "configuration: cortex-replay.toml: jobs: must be at least 1" in done.stdout + done.stderr
    assert "invalid request" not in done.stdout + done.stderr
    assert done.returncode == (2 if command[0] == "cortex-replay" else 1)
