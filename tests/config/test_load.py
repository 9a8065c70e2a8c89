"""Settings from a file, the environment and flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cortex_replay.config import ProviderSettings, load_settings
from cortex_replay.config.ages import age_words
from cortex_replay.config.files import ConfigFile
from cortex_replay.config.load import VARIABLES, load_from
from cortex_replay.errors import ConfigError
from tests.config.conftest import Project
from tests.property.strategies import effort

FULL = r"""
store = "tests/llm"
mode = "once"
provider = "local"
model = "m-1"
timeout_ms = 60000
max_retries = 5
max_sensitivity = "low"
jobs = 8
budget_calls = 100
budget_tokens = 0

[providers.local]
kind = "openai-compat"
base_url = "http://127.0.0.1:8080/v1"
key_env = ["LOCAL_KEY", "OTHER_KEY"]
max_tokens_field = "max_completion_tokens"

[providers.claude]
allow_latest = true
betas = ["a-2025", "b-2025"]
key_file = "~/keys/claude"

[providers.scripted]
script = "../script.toml"
models = ["one", "two:8b"]

[redaction]
redact_key = ["ticket"]
known_env = "DATABASE_URL"

[redaction.extra_patterns]
ticket = 'TICKET-\d+'
api_key = 'corp_[a-z0-9]{32}'

[normalisers]
when = { pattern = '\d{4}-\d\d-\d\d', placeholder = "<date>" }
id = '[0-9a-f]{32}'

[callers.ci]
token_env = "CI_TOKEN"
token_file = "~/tokens/ci"
grants = ["llm_complete"]
max_tokens = 1000
"""


def refused(project: Project, text: str, name: str = "cortex-replay.toml") -> ConfigError:
    project.write(text, name)
    with pytest.raises(ConfigError) as caught:
        project.load()
    return caught.value


def test_nothing_is_configured(project: Project) -> None:
    """Every setting holds by default."""
    loaded = project.load()

    assert {"default"} == set(loaded.origins.values())
    assert (loaded.warnings, loaded.file) == ([], None)
    assert loaded.settings.mode == "replay"


def test_everything_is_configured(project: Project) -> None:
    """In a file of our own."""
    project.write(FULL)
    loaded = project.load(environment={"HOME": "/people/me"})
    settings = loaded.settings

    assert project.root / "tests/llm" == settings.store
    assert (settings.mode, settings.provider, settings.model) == ("once", "local", "m-1")
    assert (
        settings.timeout_ms,
        settings.max_retries,
        settings.max_sensitivity,
        settings.jobs,
    ) == (60000, 5, "low", 8)
    assert (settings.budget_calls, settings.budget_tokens) == (100, 0)
    local = settings.provider_named()
    assert (local.kind, local.base_url) == ("openai-compat", "http://127.0.0.1:8080/v1")
    assert local.key_env == ("LOCAL_KEY", "OTHER_KEY")
    claude = settings.providers["claude"]
    assert claude.allow_latest
    assert Path("/people/me/keys/claude") == claude.key_file
    assert claude.betas == ("a-2025", "b-2025")
    assert project.root / "../script.toml" == settings.providers["scripted"].script
    assert settings.redaction.redact_key == ("ticket",)
    assert settings.redaction.known_env == ("DATABASE_URL",)
    assert list(settings.redaction.extra_patterns) == ["ticket", "api_key"]
    assert [(name, one.placeholder) for name, one in settings.normalisers.items()] == [
        ("when", "<date>"),
        ("id", "<id>"),
    ]
    assert (claude.models, settings.providers["scripted"].models) == (None, ("one", "two:8b"))
    caller = settings.callers["ci"]
    assert (caller.token_env, caller.token_file) == (("CI_TOKEN",), Path("/people/me/tokens/ci"))
    assert (caller.grants, caller.max_calls, caller.max_tokens) == (("llm_complete",), None, 1000)


def test_where_everything_comes_from(project: Project) -> None:
    """One origin for each setting, by its dotted name."""
    project.write(FULL)
    loaded = project.load()
    origins = loaded.origins

    assert [name for name, _ in loaded.settings.flat()] == list(origins)
    assert origins["jobs"] == origins["normalisers.id"] == "cortex-replay.toml"
    assert origins["providers.local.kind"] == origins["redaction.redact_key"] == "cortex-replay.toml"
    assert origins["providers.claude.allow_latest"] == "cortex-replay.toml"
    assert origins["providers.claude.kind"] == origins["providers.claude.version"] == "default"
    assert origins["providers.echo.kind"] == "default"
    assert origins["callers.ci.grants"] == "cortex-replay.toml"
    assert origins["callers.ci.max_calls"] == "default"


def test_a_pyproject_says_the_same(project: Project) -> None:
    """Below its own table."""
    own = project.write(FULL)
    settings = project.load().settings
    own.unlink()
    text = re.sub(r"^\[", "[tool.cortex-replay.", FULL, flags=re.MULTILINE)
    project.write(f"[tool.cortex-replay]\n{text}", "pyproject.toml")
    loaded = project.load()

    assert settings == loaded.settings
    assert loaded.origins["jobs"] == "pyproject.toml"


def test_paths_in_a_file_are_relative_to_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the program runs; those of flags and variables are relative to where it does."""
    project.write('store = "tests/llm"')
    (project.root / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(project.root / "deep")

    assert project.root / "tests/llm" == load_settings(Path("er"), {}).settings.store
    assert Path("x") == load_settings(Path(), {"CORTEX_REPLAY_STORE": "x"}).settings.store
    assert Path("y") == load_settings(Path(), {}, {"store": Path("y")}).settings.store
    assert Path("/h/x") == load_settings(Path(), {"CORTEX_REPLAY_STORE": "~/x", "HOME": "/h"}).settings.store


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "store": st.sampled_from(["/project/a", "/project/b", "/project/c d"]),
    "mode": st.sampled_from(["replay", "record", "once", "live"]),
    "provider": st.sampled_from(["claude", "ollama", "echo"]),
    "model": st.sampled_from(["m", "n@sha256:0"]),
    "timeout_ms": st.integers(1, 10**9),
    "max_retries": st.integers(0, 100),
    "max_sensitivity": st.sampled_from(["low", "medium", "high"]),
    "jobs": st.integers(1, 1000),
    "budget_calls": st.integers(0, 10**9),
    "budget_tokens": st.integers(0, 10**9),
    "every_answer": st.booleans(),
    "currency": st.sampled_from(["USD", "€"]),
    "max_age": st.sampled_from(["90d", "36h"]),
}
some = st.fixed_dictionaries({}, optional=VALUES)


@effort(150)
@given(in_file=some, in_environment=some, flags=some, is_ci=st.booleans())
def test_the_last_source_wins(
    in_file: dict[str, Any], in_environment: dict[str, Any], flags: dict[str, Any], is_ci: bool
) -> None:
    """Defaults, then the file, then the environment, then flags; and each value knows its source."""
    file = ConfigFile(Path("/project/cortex-replay.toml"), "cortex-replay.toml", "", in_file)
    environment = {f"CORTEX_REPLAY_{name.upper()}": str(value) for name, value in in_environment.items()}
    if is_ci:
        environment["CI"] = "true"
        if "mode" in in_file:
            in_file = in_file | {"mode": "replay"}
    loaded = load_from(file, environment, flags)
    default = load_from(None, {}, {}).settings

    for name in VALUES:
        value: Any = getattr(loaded.settings, name)
        value = str(value) if name == "store" else value
        value = age_words(value) if name == "max_age" and value is not None else value
        origin = loaded.origins[name]
        if name in flags:
            assert (flags[name], f"--{name.replace('_', '-')}") == (value, origin)
        elif name in in_environment:
            assert (in_environment[name], f"CORTEX_REPLAY_{name.upper()}") == (value, origin)
        elif name in in_file:
            assert in_file[name] == value
            assert origin in ("cortex-replay.toml", "CI")
        else:
            assert (str(getattr(default, name)), "default") == (str(value), origin)


def test_every_variable_has_a_setting() -> None:
    """And its name."""
    assert set(VALUES) == set(VARIABLES.values())
    assert VARIABLES["CORTEX_REPLAY_TIMEOUT_MS"] == "timeout_ms"


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ('modee = "live"', "modee", "there is no such setting; did you mean mode?"),
        ("xyzzy = 1", "xyzzy", "there is no such setting"),
        ('"a\\nb" = 1', "(a setting)", "holds the character U+000A"),
        ('mode = "recrod"', "mode", "expected replay, record, once or live; did you mean record?"),
        ("mode = 3", "mode", "expected replay, record, once or live"),
        ("jobs = '4'", "jobs", "expected a whole number, not a str"),
        ("jobs = 0", "jobs", "must be at least 1"),
        ("max_age = 90", "max_age", "expected text"),
        ('max_age = "90"', "max_age", "an age is a number and h, d or w"),
        ('max_age = "9٠d"', "max_age", "an age is a number and h, d or w"),
        ('max_age = "0d"', "max_age", "must be at least 1h"),
        ('max_age = "999999w"', "max_age", "an age is at most 1000 years"),
        ("max_retries = 101", "max_retries", "must be at most 100"),
        ("timeout_ms = 1979-05-27", "timeout_ms", "expected a whole number, not a date"),
        ("store = 1", "store", "expected a path, not a int"),
        ('provider = "clade"', "provider", "there is no such provider; did you mean claude?"),
        ("providers = 1", "providers", "expected a table"),
        ("providers.x = 1", "providers.x", "expected a table"),
        ("providers.'a b'.kind = 'echo'", "providers", "expected a name"),
        ("providers.x = {}", "providers.x", "lacks kind: one of claude, ollama"),
        ('providers.x.kind = "olama"', "providers.x.kind", "did you mean ollama?"),
        (
            "providers.claude.allow_latests = true",
            "providers.claude.allow_latests",
            "did you mean allow_latest?",
        ),
        ("providers.claude.allow_latest = 1", "providers.claude.allow_latest", "expected true or false"),
        (
            "providers.claude.allow_remote = false",
            "providers.claude.allow_remote",
            "kind ollama; this one is claude",
        ),
        ('providers.openai.base_url = "x"', "providers.openai.base_url", "expected an http or https URL"),
        (
            'providers.openai.key_env = "k-1"',
            "providers.openai.key_env[0]",
            "the name of an environment variable",
        ),
        (
            "providers.openai.key_env = [1]",
            "providers.openai.key_env[0]",
            "the name of an environment variable",
        ),
        ("redaction = []", "redaction", "expected a table"),
        ("redaction.patterns = {}", "redaction.patterns", "did you mean extra_patterns?"),
        (
            "redaction.extra_patterns.x = '('",
            "redaction.extra_patterns.x",
            "is not a sound regular expression",
        ),
        ("redaction.extra_patterns.x = 1", "redaction.extra_patterns.x", "expected text"),
        ("redaction.redact_key = 'x'", "redaction.redact_key", "expected a list"),
        (
            "redaction = {extra_patterns = {ticket = 'T-.'}, redact_key = ['tickets']}",
            "redaction.redact_key[0]",
            "names no pattern of redaction.extra_patterns; did you mean ticket?",
        ),
        ("providers.echo.models = []", "providers.echo.models", "is empty; leave it out to allow any"),
        ("providers.echo.models = ['a b']", "providers.echo.models[0]", "expected text without spaces"),
        ("providers.echo.models = 'a'", "providers.echo.models", "expected a list"),
        ("callers = 1", "callers", "expected a table"),
        ("callers.x = 1", "callers.x", "expected a table"),
        ("callers.'a b' = {}", "callers", "expected a name"),
        ("callers.x.grant = []", "callers.x.grant", "did you mean grants?"),
        ("callers.x.grants = 'llm_complete'", "callers.x.grants", "expected a list"),
        (
            "callers.x.grants = ['llm_completes']",
            "callers.x.grants[0]",
            "expected llm_complete; did you mean llm_complete?",
        ),
        ("callers.x.max_calls = -1", "callers.x.max_calls", "must not be negative"),
        ("callers.x.max_tokens = '5'", "callers.x.max_tokens", "expected a whole number"),
        ("callers.x.token_env = 'abc'", "callers.x.token_env[0]", "the name of an environment variable"),
        ("callers.x.token_file = 3", "callers.x.token_file", "expected a path"),
        ("normalizers.x = 'x'", "normalizers", "did you mean normalisers?"),
        ("normalisers.x = 1", "normalisers.x", "expected a table"),
        ("normalisers.x = {}", "normalisers.x", "lacks pattern"),
        ("normalisers.x = {pattern = 'a*'}", "normalisers.x.pattern", "matches the empty text"),
        ("normalisers.x = {pattern = 'a', placeholder = ''}", "normalisers.x.placeholder", "is empty"),
        ("normalisers.x = {pattern = 'a', with = ''}", "normalisers.x.with", "there is no such setting"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    project: Project, text: str, field: str, reason: str
) -> None:
    """File, setting, reason; and the right word, where one is near."""
    error = refused(project, text)

    assert f"cortex-replay.toml: {field}" == error.field
    assert reason in error.reason
    assert error.exit_code == 2


def test_the_place_in_a_pyproject_has_the_table_s_name(project: Project) -> None:
    """As it is written there."""
    error = refused(project, '[tool.cortex-replay]\nmodee = "live"', "pyproject.toml")

    assert str(error) == (
        "configuration: pyproject.toml: tool.cortex-replay.modee: "
        "there is no such setting; did you mean mode?"
    )


SECRET = "hunter2hunter2hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "key",
        "apiKey",
        "token",
        "auth-token",
        "password",
        "client_secret",
        "providers.claude.api_key",
        "providers.claude.key",
        "providers.api_key",
        "providers.claude.headers.authorization",
        "redaction.secret",
        "something.unknown.token",
        "normalisers.x.token",
        "callers.x.token",
    ],
)
def test_a_key_in_a_configuration(project: Project, name: str) -> None:
    """Is refused wherever it stands, with the way to do it right, and never shown."""
    error = refused(project, f'{name} = "{SECRET}"')

    assert f"cortex-replay.toml: {name}" == error.field
    assert "key_env" in error.reason
    assert "key_file" in error.reason
    assert SECRET not in str(error)


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-AbCdEf0123456789abcdefXYZ",
        "sk-proj-abcdefghijklmnop1234",
        "ghp_" + "a1B2" * 9,
        "AKIA" + "ABCD0123" * 2,
        "xoxb-1234567890-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "model = {}",
        "providers.claude.key_env = {}",
        "providers.claude.betas = [{}]",
        "redaction.known_env = [{}]",
        "redaction.extra_patterns.mine = {}",
        "normalisers.mine = {}",
        "callers.mine.token_env = {}",
    ],
)
def test_what_looks_like_a_key(project: Project, place: str, key: str) -> None:
    """Is one, also in a place that is for something else."""
    error = refused(project, place.replace("{}", f'"{key}"'))

    assert "key_env" in error.reason
    assert key not in str(error)


def test_a_pattern_may_be_called_after_the_key_it_finds(project: Project) -> None:
    """And no good setting is taken for a key."""
    project.write(
        "store = 'pypi-fixtures-of-2026'\nbudget_tokens = 5\n"
        "redaction.extra_patterns = {token = 'tok_.', api_key = 'sk-[a-z0-9]{40}'}\n"
        "redaction.redact_key = ['token']\n"
        "normalisers.key = 'k=.'"
    )

    assert project.load().settings.redaction.redact_key == ("token",)


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("CORTEX_REPLAY_MODE", "onc", "did you mean once?"),
        ("CORTEX_REPLAY_JOBS", "many", "expected a whole number"),
        ("CORTEX_REPLAY_JOBS", "-1", "expected a whole number"),
        ("CORTEX_REPLAY_JOBS", "²", "expected a whole number"),
        ("CORTEX_REPLAY_JOBS", "9" * 5000, "expected a whole number"),
        ("CORTEX_REPLAY_TIMEOUT_MS", "0", "must be at least 1"),
        ("CORTEX_REPLAY_PROVIDER", "nobody", "there is no such provider; there are claude"),
        ("CORTEX_REPLAY_STORE", "a\0b", "is no path"),
    ],
)
def test_a_variable_that_cannot_be(project: Project, variable: str, value: str, reason: str) -> None:
    """Its name is the place."""
    with pytest.raises(ConfigError) as caught:
        project.load(environment={variable: value})

    assert variable == caught.value.field
    assert reason in caught.value.reason


def test_an_empty_variable_counts_as_not_set(project: Project) -> None:
    """As CI systems leave them."""
    assert project.load(environment={"CORTEX_REPLAY_MODE": " "}).origins["mode"] == "default"


def test_a_value_that_loses_is_checked_too(project: Project) -> None:
    """It would hold for the next person."""
    project.write('mode = "rewind"')
    with pytest.raises(ConfigError, match=r"cortex-replay\.toml: mode"):
        project.load(environment={"CORTEX_REPLAY_MODE": "live"}, mode="replay")


def test_a_misspelt_variable_is_told(project: Project) -> None:
    """But others may have variables of their own."""
    environment = {
        "CORTEX_REPLAY_MAX_SENSITIVTY": "low",
        "CORTEX_REPLAY_RUN": "1",
        "CORTEX_REPLAY_TORTURE": "1",
    }

    assert project.load(environment=environment).warnings == [
        "CORTEX_REPLAY_MAX_SENSITIVTY is not a setting; did you mean CORTEX_REPLAY_MAX_SENSITIVITY?"
    ]


def test_flags_for_the_chosen_provider(project: Project) -> None:
    """Change its entry, and no other."""
    project.write("[providers.mine]\nkind = 'openai-compat'\nbase_url = 'http://a'\nkey_env = 'MINE'")
    loaded = project.load(provider="mine", base_url="http://b", model=None, key_file=None)
    assert (
        loaded.settings.provider_named().base_url,
        loaded.settings.provider_named().key_env,
    ) == ("http://b", ("MINE",))
    assert loaded.origins["providers.mine.base_url"] == "--base-url"
    assert loaded.origins["providers.mine.kind"] == "cortex-replay.toml"

    loaded = project.load(provider="scripted", script=Path("s.toml"))
    assert ProviderSettings(kind="scripted", script=Path("s.toml")) == loaded.settings.provider_named()
    assert loaded.origins["providers.scripted.script"] == "--script"


@pytest.mark.parametrize(
    ("flags", "field", "reason"),
    [
        ({"mode": "x"}, "--mode", "expected replay"),
        ({"max_retries": -1}, "--max-retries", "must not be negative"),
        ({"script": "s"}, "--script", "is about a provider, and none is named"),
        ({"provider": "echo", "script": "s"}, "--script", "kind scripted; this one is echo"),
        ({"provider": "nobody"}, "--provider", "there is no such provider"),
        ({"provider": "claude", "kind": "echo"}, "--kind", "there is no such setting"),
        ({"api_key": SECRET}, "--api-key", "there is no such setting"),
    ],
)
def test_flags_that_cannot_be(project: Project, flags: dict[str, object], field: str, reason: str) -> None:
    """The option is the place."""
    with pytest.raises(ConfigError) as caught:
        load_settings(project.root, {}, flags)

    assert field == caught.value.field
    assert reason in caught.value.reason


@pytest.mark.parametrize("ci", ["true", "1", "yes"])
def test_ci_replays_unless_it_is_told_otherwise(project: Project, ci: str) -> None:
    """A mode in a file is a default for people; one from the environment or a flag is meant."""
    assert project.load(environment={"CI": ci}).warnings == []
    project.write('mode = "once"')
    loaded = project.load(environment={"CI": ci})
    assert (loaded.settings.mode, loaded.origins["mode"]) == ("replay", "CI")
    assert "not once, as cortex-replay.toml says" in loaded.warnings[0]

    loaded = project.load(environment={"CI": ci, "CORTEX_REPLAY_MODE": "record"})
    assert (loaded.settings.mode, loaded.origins["mode"]) == ("record", "CORTEX_REPLAY_MODE")
    assert "CORTEX_REPLAY_MODE asks for the mode record" in loaded.warnings[0]

    loaded = project.load(environment={"CI": ci}, mode="live")
    assert (loaded.settings.mode, loaded.origins["mode"]) == ("live", "--mode")
    assert "--mode asks for the mode live" in loaded.warnings[0]
    assert project.load(environment={"CI": ci}, mode="replay").warnings == []


@pytest.mark.parametrize("ci", ["", "0", "false", "False"])
def test_ci_that_says_no(project: Project, ci: str) -> None:
    """Some tools set it so."""
    project.write('mode = "once"')

    assert project.load(environment={"CI": ci}).settings.mode == "once"
