"""What a project's file says in passing must not lead a key, or what it guards, astray."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cortex_replay.admin.callers import Callers
from cortex_replay.cli.runs import rpc_for
from cortex_replay.config import load_settings
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run import Run
from cortex_replay.store import Store
from tests.security.test_git import git
from tests.security.test_trust import EVIL, Clone, Sink, clone, sink

__all__ = ["clone", "sink"]  # fixtures

KEYS = {
    name: f"{name}-" + "wJalrXUtn" + "FEMIK7MDENG"
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
}
SERVERS = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "ollama": "OLLAMA_HOST",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
OWN_KEY = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


@pytest.mark.parametrize("name", [*SERVERS, "claude"])
@pytest.mark.parametrize("kind", ["claude", "openai-compat", "openai-responses", "gemini", "ollama"])
def test_another_kind_under_a_known_name(tmp_path: Path, name: str, kind: str) -> None:
    """The server in an SDK's variable gets the key of that SDK, and no project can make it another's."""
    (tmp_path / "cortex-replay.toml").write_text(f'[providers.{name}]\nkind = "{kind}"')
    called = "anthropic" if name == "claude" else name
    environment = {**KEYS, SERVERS[called]: "https://mine.example"}
    upstream = Upstreams(load_settings(tmp_path, {}).settings, environment)[called]

    if upstream.base_url == "https://mine.example":
        assert upstream.key(environment) in (None, KEYS.get(OWN_KEY.get(called, "")))
    else:
        assert upstream.provider is not None
        assert upstream.provider.service is not None or kind == "ollama"


@pytest.mark.parametrize(
    ("name", "setting"),
    [("claude", "allow_latest = true"), ("openai", 'models = ["m"]'), ("ollama", "allow_unpinned = true")],
)
def test_another_setting_of_a_provider(tmp_path: Path, name: str, setting: str) -> None:
    """Leaves the user's server in its place: its key is not one for the provider's own."""
    (tmp_path / "cortex-replay.toml").write_text(f"[providers.{name}]\n{setting}")
    called = "anthropic" if name == "claude" else name
    environment = {**KEYS, SERVERS[called]: "https://mine.example"}
    upstream = Upstreams(load_settings(tmp_path, {}).settings, environment)[called]

    assert upstream.base_url == "https://mine.example"
    assert upstream.key(environment) == KEYS.get(OWN_KEY.get(called, ""))


CLIENT_KEY = "ghp_" + "q7Zt2LmX9" + "vB4nR8kW1sD6fH3jK5pY0cA2eG7"
CARRIERS: dict[str, tuple[str, dict[str, str], str]] = {
    "unknown header": ("/v1/embeddings", {"x-honeycomb-team": CLIENT_KEY}, "{}"),
    "a word": ("/v1/embeddings", {"authorization": "Bearer tiger"}, "{}"),
    "beside a word": ("/v1/embeddings", {"authorization": "Bearer tiger none"}, "{}"),
    "with a scheme": ("/v1/embeddings", {"x-any": f"Bearer {CLIENT_KEY}"}, "{}"),
    "user agent": ("/v1/embeddings", {"user-agent": f"tool/{CLIENT_KEY}"}, "{}"),
    "parameter": (f"/v1/models?code={CLIENT_KEY}", {}, ""),
    "signature": ("/v1/models?sig=abc", {}, ""),
    "behind a semicolon": ("/v1/models?a=1;api_key=abc", {}, ""),
    "bare query": (f"/v1/models?{CLIENT_KEY}", {}, ""),
    "escaped": (f"/v1/models?x={CLIENT_KEY.replace('_', '%5F')}", {}, ""),
    "path": (f"/v1/{CLIENT_KEY}/models", {}, ""),
    "document": ("/v1/embeddings", {}, f'{{"auth": ["{CLIENT_KEY}"]}}'),
    "form": ("/v1/oauth", {}, f"grant=x&assertion={CLIENT_KEY}"),
    "beside bytes": ("/v1/files", {}, f"\xff\xfe key {CLIENT_KEY}"),
    "beside a dummy": ("/v1/embeddings", {"x-any": f"{DUMMY_KEY} {CLIENT_KEY}"}, "{}"),
    "compressed": ("/v1/embeddings", {"content-encoding": "gzip"}, "\x1f\x8b"),
    "completion": (
        "/v1/chat/completions",
        {},
        f'{{"model": "m", "messages": [{{"role": "user", "content": "{CLIENT_KEY}"}}]}}',
    ),
}


def test_no_part_of_a_call_takes_a_key_to_a_strange_server(clone: Clone, sink: Sink) -> None:
    """Neither a header of another name, nor the query, the path or the body. What holds none is passed on,
    and so is what clients bring to servers that want none."""
    clone.says(f'[providers.openai]\nbase_url = "{EVIL}"')
    keyless = [{"idempotency-key": "1"}, {"authorization": "Bearer EMPTY"}, {"x-api-key": "not-needed"}]
    calls = [*CARRIERS.values(), *((f"/v1/embeddings?n={i}", one, "{}") for i, one in enumerate(keyless))]
    code = f"""
import os, urllib.request as u, urllib.error as e
base = os.environ['CORTEX_REPLAY_GATEWAY'].rstrip('/') + '/openai'
for path, headers, body in {calls!r}:
    request = u.Request(base + path, data=body.encode('latin-1') or None, headers=headers)
    try:
        print(u.build_opener(u.ProxyHandler({{}})).open(request).status)
    except e.HTTPError as error:
        print(error.code, b'cortex-replay trust' in error.read())
"""
    said = clone.run_process("record", "--", sys.executable, "-c", code).splitlines()[: len(calls)]

    assert dict(zip(CARRIERS, said, strict=False)) == dict.fromkeys(CARRIERS, "400 True")
    assert said[-3:] == ["200"] * 3
    assert CLIENT_KEY.encode() not in sink.received
    assert sink.received.count(b"HTTP/1.1\r\n") == 3


def own_settings(home: Path, text: str) -> dict[str, str]:
    """An environment of somebody with a file of their own."""
    file = home / ".config/cortex-replay/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)
    return {"HOME": str(home)}


def test_a_project_takes_away_no_pattern_of_the_user(tmp_path: Path) -> None:
    """By giving another its name: what the user wants cut out is cut out in every project."""
    own = "customer = 'CUST-[0-9]{6}'\ncustomer-2 = 'C2-[0-9]{6}'\nsame = 'S-[0-9]+'"
    environment = own_settings(tmp_path / "home", f"[redaction.extra_patterns]\n{own}")
    (tmp_path / "cortex-replay.toml").write_text(
        "[redaction]\nredact_key = ['customer']\n"
        "[redaction.extra_patterns]\ncustomer = 'zzzz'\nsame = 'S-[0-9]+'"
    )
    loaded = load_settings(tmp_path, environment)
    patterns = loaded.settings.redaction.extra_patterns
    redactor = Redactor((), patterns)

    assert redactor.text("CUST-123456 C2-123456 S-1 zzzz")[0].count("[REDACTED:") == 4
    assert patterns["customer"] == "zzzz"  # the name stands in keys
    assert list(patterns).count("same") == 1
    assert loaded.origins["redaction.extra_patterns.customer-3"].endswith("config.toml")


@pytest.mark.parametrize("variable", ["PATH", "LS_COLORS", "GITHUB_SHA", "PWD", "SSH_AUTH_SOCK"])
def test_no_caller_comes_in_with_what_everybody_knows(tmp_path: Path, variable: str) -> None:
    """A project would let its writer spend the user's key: he knows what such a variable holds."""
    text = f'[callers.x]\ntoken_env = ["UNSET_TOKEN", "{variable}"]\ngrants = ["llm_complete"]'
    environment = {variable: "/usr/local/bin:/usr/bin:/bin"}
    (tmp_path / "cortex-replay.toml").write_text(text)
    with pytest.raises(InvalidRequest, match=f"token_env {variable}: .* such as CI_CALLER_TOKEN"):
        Callers(load_settings(tmp_path, environment).settings, environment)

    (tmp_path / "cortex-replay.toml").unlink()
    environment |= own_settings(tmp_path / "home", text)
    assert Callers(load_settings(tmp_path, environment).settings, environment).without_token == []


@pytest.mark.parametrize("variable", ["CI_CALLER_TOKEN", "CI_CALLER", "NEXO_SECRET", "RPC_KEY"])
def test_a_project_names_variables_for_tokens(tmp_path: Path, variable: str) -> None:
    (tmp_path / "cortex-replay.toml").write_text(f'[callers.x]\ntoken_env = "{variable}"')
    environment = {variable: "0123456789" + "abcdef0123456789"}

    assert Callers(load_settings(tmp_path, {}).settings, environment).without_token == []


@pytest.mark.parametrize("linked", [".config", ".config/cortex-replay"])
@pytest.mark.parametrize("is_at_home", [True, False])
def test_links_of_the_users_own_lead_to_what_is_remembered(
    clone: Clone, linked: str, is_at_home: bool
) -> None:
    """Many keep their settings in a folder of dot files, and link to it from home."""
    (clone.home / "dots" / linked).mkdir(parents=True)
    (clone.home / linked).parent.mkdir(exist_ok=True)
    (clone.home / linked).symlink_to(clone.home / "dots" / linked)
    if is_at_home:
        clone.root = clone.home
    result = clone.run("trust", EVIL, "SOME_KEY")

    assert result.exit_code == 0, result.stderr
    assert clone.run("trust", "--list").stdout == f"{EVIL}  SOME_KEY\n"


def test_a_project_lifts_no_limit_of_the_user(tmp_path: Path) -> None:
    """On what is spent and what is sent; it may be stricter, and the user may say otherwise for a run."""
    limits = "budget_calls = {0}\nbudget_tokens = {0}\nmax_sensitivity = '{1}'"
    environment = own_settings(tmp_path / "home", limits.format(10, "low"))
    file = tmp_path / "cortex-replay.toml"

    def held(**given: str) -> tuple[object, ...]:
        settings = load_settings(tmp_path, environment | given).settings
        return settings.budget_calls, settings.budget_tokens, settings.max_sensitivity

    file.write_text(limits.format(10_000, "high"))
    assert held() == (10, 10, "low")
    assert load_settings(tmp_path, environment).origins["budget_calls"].endswith("config.toml")
    assert held(CORTEX_REPLAY_BUDGET_CALLS="500", CORTEX_REPLAY_MAX_SENSITIVITY="medium") == (
        500,
        10,
        "medium",
    )
    file.write_text(limits.format(3, "low"))
    assert held() == (3, 3, "low")
    file.write_text("")
    assert held() == (10, 10, "low")


@pytest.mark.parametrize("name", ["v1", "v1beta", "api", "rpc"])
def test_no_provider_is_named_like_a_path(tmp_path: Path, name: str) -> None:
    """A client that asks ``/v1/messages`` means its own provider, and brings its key."""
    text = f'[providers.{name}]\nkind = "http"\nbase_url = "http://127.0.0.1:9"'
    (tmp_path / "cortex-replay.toml").write_text(text)
    with pytest.raises(InvalidRequest, match=f"providers.{name}: .* choose another name"):
        load_settings(tmp_path, {})


def test_no_caller_comes_in_with_a_token_of_the_repository(tmp_path: Path) -> None:
    """A project would let in whoever wrote it."""
    text = '[callers.x]\ntoken_file = "sub/token"\ngrants = ["llm_complete"]'
    (tmp_path / "sub").mkdir()
    (tmp_path / "cortex-replay.toml").write_text(text)
    token = tmp_path / "sub" / "token"
    token.write_text("0123456789" + "abcdef0123456789")
    token.chmod(0o600)
    git(tmp_path, "init", "-q")
    settings = load_settings(tmp_path, {}).settings
    run = Run(settings, "replay", Store.create(tmp_path / "llm"))

    assert rpc_for(run) is not None
    git(tmp_path, "add", "sub/token")
    with pytest.raises(InvalidRequest, match="git tracks it"):
        rpc_for(run)


@pytest.mark.parametrize("store", [".git", ".git/llm", ".GIT/hooks", "sub/../.git/info", "sub/.git/llm"])
def test_no_project_keeps_its_store_in_the_folder_of_git(tmp_path: Path, store: str) -> None:
    """Whatever stands there means something to git."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "cortex-replay.toml").write_text(f'store = "{store}"')
    with pytest.raises(InvalidRequest, match="git's own folder"):
        load_settings(tmp_path, {})
