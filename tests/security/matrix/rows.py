"""The rows of the matrix: every command as a user would give it, and what it may change by it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.signing import allow, new_key, write_signers

if TYPE_CHECKING:
    from tests.security.matrix.sandbox import Sandbox

__all__ = ["ROWS", "Row"]

PROGRAM: Final = str(Path(sys.executable).with_name("cortex-replay"))
PYTEST: Final = str(Path(sys.executable).with_name("pytest"))
_STORE: Final = ("INDEX.toml", ".gitattributes", "fixtures/**", ".cortex-replay/**", "exchanges/**")
STORES: Final = (*_STORE, "llm", *(f"llm/{part}" for part in _STORE))
"""What a command that records may change, relative to the clone."""
SIGNED: Final = (
    *STORES,
    *(f"{folder}{name}" for folder in ("", "llm/") for name in ("INDEX.toml.sig", "INDEX.chain")),
)
REPORT: Final = "report.json"

# The user's own program: it asks over the gateway that the environment names, whatever stands in the clone.
ASK: Final = """\
import json, os, urllib.request
def ask(text):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), key)
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60).read()
    except OSError:
        raise SystemExit(1)
"""
ASK_RECORDED: Final = f"{ASK}ask('What is recorded?')"
ASK_NEW: Final = f"{ASK_RECORDED}\nask('What is new?')"


def asking(program: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-I", "-c", program)


@dataclass(frozen=True)
class Row:
    """A command. ``{name}`` in an argument is filled in from the sandbox."""

    name: str
    arguments: tuple[str, ...]
    command: str = ""
    """The command of the program that this is about, if any."""
    program: str = PROGRAM
    changes: tuple[str, ...] = ()
    """What it may change, relative to the clone."""
    calls: bool = False
    """Whether its user wants it to ask a server that a configuration names; secrets may not go there."""
    statuses: frozenset[int] | None = None
    """Exit statuses; ``None`` for those that the help of the command lists."""
    variables: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Sandbox], None] | None = None
    stdin: bytes = b""
    serves: bool = False
    """Whether it runs until it is interrupted, and prints a URL to call."""
    takes_mode: bool = False
    """Whether it records if the project says so."""
    runs_git: bool = False
    """Whether the user runs git, which does what its own configuration says."""


def _of(name: str, *arguments: str, changes: tuple[str, ...] = (), **more: object) -> Row:
    """A row for a command of the program; its first argument is the command."""
    return Row(name, arguments, arguments[0], changes=changes, **more)  # type: ignore[arg-type]


def _without_store(sandbox: Sandbox) -> None:
    """As a project in which nobody has run ``init`` yet; links that were planted stay."""
    for name in sandbox.workshop.store_files:
        path = sandbox.clone / name
        if path.is_file() and path.resolve() == path.absolute():
            path.unlink()


def _with_driver(sandbox: Sandbox) -> None:
    sandbox.git("config", "merge.cortex-replay.driver", sandbox.driver)


def _with_hook(sandbox: Sandbox) -> None:
    """The hook that the user has installed, as pre-commit would run it."""
    hook = sandbox.clone / ".git" / "hooks" / "pre-commit"
    if hook.parent.parent.is_dir():
        hook.parent.mkdir(exist_ok=True)
        hook.unlink(missing_ok=True)
        hook.write_text(f"#!/bin/sh\nexec {PROGRAM} verify --staged\n")
        hook.chmod(0o755)


def _with_sides(sandbox: Sandbox) -> None:
    for name in ("base", "ours", "theirs"):
        side = sandbox.top / "tmp" / name
        side.write_bytes(sandbox.index_bytes)


def _with_conflict(sandbox: Sandbox) -> None:
    """As a merge leaves the index, unless a link was planted there."""
    index = sandbox.clone / "INDEX.toml"
    if index.is_file() and index.resolve() == index.absolute():
        index.write_bytes(b"<<<<<<< ours\n" + index.read_bytes() + b"=======\n>>>>>>> theirs\n")


def _with_key(sandbox: Sandbox) -> None:
    """A key of the user's, and whom they trust: not the repository's."""
    folder = sandbox.top / "tmp"
    key = new_key("matrix")
    for name in (key.name, f"{key.name}.pub"):
        shutil.copy(key.with_name(name), folder / name.replace(key.name, "key"))
    write_signers(folder / "signers", allow("me", folder / "key"))


_GIT_CONFIG = (".git/config", "real/config")
"""Where git keeps the settings of the clone; the second where a plant has put it."""
_INIT = (
    *STORES,
    "test_llm_example.py",
    "llm/test_llm_example.py",
    "pytest.ini",
    "pyproject.toml",
    "cortex-replay.toml",
    ".gitignore",
    "llm/.gitignore",
    ".pre-commit-config.yaml",
    *_GIT_CONFIG,
)
_GIT = (".git", ".git/**")
_OWN_UPSTREAM = ("--upstream", "openai={own}/v1")
_PYTEST_STATUSES = frozenset(range(6))
_ANY = frozenset(range(256))
_ACTIONS = {"CI": "1", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "{top}/tmp/summary.md"}
_GITLAB = {
    "GITLAB_CI": "true",
    "CI_MERGE_REQUEST_IID": "3",
    "CI_MERGE_REQUEST_PROJECT_ID": "7",
    "CI_API_V4_URL": "{own}/api/v4",
    "GITLAB_TOKEN": "glpat-of-the-users-own",
}
_REMOTE = {"CORTEX_REPLAY_REMOTE": "file://{top}/tmp/bucket", "CORTEX_REPLAY_CACHE": "{top}/tmp/cache"}
"""A bucket of the user's own."""
_SCRIPTED = ("--provider", "scripted", "--model", "demo", "--prompt")
_MCP = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}\n'
SERVER: Final = (
    sys.executable,
    "-Iuc",
    "import json, sys\nfor line in sys.stdin: print(json.dumps({**json.loads(line), 'result': {}}))",
)
"""The user's own MCP server, which a client has named."""
_RPC = b'{"jsonrpc":"2.0","id":1,"method":"llm_complete","params":{"model":"demo","messages":"Hi."}}\n'


def _pytest(name: str, *arguments: str, changes: tuple[str, ...] = (), **more: object) -> Row:
    # Other plugins would take most of the time.
    options = ("-p", "no:cacheprovider", "-p", "cortex_replay.pytest_plugin", "tests", *arguments)
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **dict(more.pop("variables", {}))}  # type: ignore[call-overload]
    return Row(
        name,
        options,
        program=PYTEST,
        changes=changes,
        statuses=_PYTEST_STATUSES,
        variables=variables,
        **more,  # type: ignore[arg-type]
    )


ROWS: Final[tuple[Row, ...]] = (
    _of("init", "init", changes=_INIT, prepare=_without_store),
    _of("init again", "init", changes=_INIT),
    _of("init --json", "init", "--json", changes=_INIT, prepare=_without_store),
    _of("init --store sub/new", "init", "--store", "sub/new", changes=(*_INIT, "sub", "sub/**")),
    _of("init --ci github", "init", "--ci", "github", changes=(".github", ".github/**")),
    _of("init --ci gitlab", "init", "--ci", "gitlab", changes=(".gitlab", ".gitlab/**", ".gitlab-ci.yml")),
    _of("init --driver-only", "init", "--driver-only", changes=_GIT_CONFIG),
    _of("verify", "verify", changes=_GIT_CONFIG),
    _of("verify --quick --json", "verify", "--quick", "--json", changes=_GIT_CONFIG),
    _of("verify --strict --base", "verify", "--strict", "--base", "HEAD~1", changes=_GIT_CONFIG),
    _of("verify --staged", "verify", "--staged", changes=(*_GIT_CONFIG, ".git/index")),
    _of("sign", "sign", "--key", "{top}/tmp/key", changes=SIGNED, prepare=_with_key),
    _of("sign --dry-run --json", "sign", "--dry-run", "--json"),
    _of(
        "verify --signers",
        *("verify", "--signers", "{top}/tmp/signers", "--seen", "{top}/tmp/seen", "--base", "HEAD~1"),
        changes=_GIT_CONFIG,
        prepare=_with_key,
    ),
    _of("receipt", "receipt", "{fixture}", "--out", REPORT, changes=(REPORT,)),
    _of("diff", "diff", "HEAD~1"),
    _of("diff --json", "diff", "HEAD~1..HEAD", "--json"),
    _of("index", "index", changes=STORES),
    _of("index --check", "index", "--check"),
    _of("index --dry-run --json", "index", "--dry-run", "--json"),
    _of("index --adopt-staged", "index", "--adopt-staged", changes=STORES),
    _of("index --discard-staged", "index", "--discard-staged", changes=STORES),
    _of("index --accept-changed", "index", "--accept-changed", "--drop-missing", changes=STORES),
    _of("record scripted", "record", *_SCRIPTED, "What is the weather in Paris?", changes=STORES),
    _of("record echo", "record", "--provider", "echo", "--model", "m", "--prompt", "Hi.", changes=STORES),
    _of("record configured", "record", "--model", "m", "--prompt", "Hi.", changes=STORES, calls=True),
    _of(
        "record configured --json",
        *("record", "--model", "m", "--prompt", "a" * 64 + "!", "--mode", "record", "--json"),
        changes=STORES,
        calls=True,
    ),
    _of(
        "record --script",
        *("record", "--provider", "scripted", "--script", "script.toml", "--model", "m", "--prompt", "Hi."),
        changes=STORES,
    ),
    _of("batch", "batch", "requests.jsonl", "--provider", "echo", changes=STORES),
    _of("refresh", "refresh", "--provider", "echo", changes=STORES),
    _of("refresh --check", "refresh", "--check", "--provider", "echo"),
    _of(
        "refresh --check --write --page",
        *("refresh", "--check", "--write", "--words", "--page", REPORT, "--sample", "50%", "--by", "use"),
        *("--provider", "echo"),
        changes=(*STORES, REPORT),
    ),
    _of(
        "record -- CMD",
        *("record", *_OWN_UPSTREAM, "--report", REPORT, *asking(ASK_NEW)),
        changes=(*STORES, REPORT),
        calls=True,
    ),
    _of("record configured -- CMD", "record", *asking(ASK_NEW), changes=STORES, calls=True),
    _of("replay -- CMD", "replay", "--report", REPORT, *asking(ASK_RECORDED), changes=(REPORT,)),
    _of("replay --json -- CMD (miss)", "replay", "--json", "--fail-on", "miss", *asking(ASK_NEW)),
    _of("sweep -- CMD", "sweep", "--fault", "429", *asking(ASK_RECORDED)),
    _of("learn -- CMD", "learn", *asking(ASK_RECORDED)),
    _of("learn --elsewhere -- CMD", "learn", "--elsewhere", *asking(ASK_RECORDED)),
    _of("serve", "serve", "--url-file", "url.txt", changes=("url.txt",), serves=True, takes_mode=True),
    _of("serve --mode once", "serve", "--mode", "once", changes=STORES, calls=True, serves=True),
    _of("serve --stdio", "serve", "--stdio", "--caller", "ci", stdin=_RPC, takes_mode=True),
    _of("mcp", "mcp", "tools", "--", "/nothing/there", stdin=_MCP, takes_mode=True),
    _of("mcp --mode once", "mcp", "tools", "--mode", "once", "--", *SERVER, stdin=_MCP, changes=STORES),
    _of("mcp check", "mcp", "check", "tools", "--", *SERVER, statuses=frozenset(range(6))),
    _of("import", "import", "cassettes", changes=STORES),
    _of("import --dry-run --json", "import", "cassettes", "--dry-run", "--json"),
    _of("collect", "collect", "the-name-of-a-run"),
    _of("prune --model", "prune", "--model", "*", changes=STORES),
    _of("prune --unused-from", "prune", "--unused-from", "unused.json", changes=STORES),
    _of("prune --dry-run", "prune", "--model", "*", "--dry-run"),
    _of("rekey", "rekey", changes=STORES),
    _of("repack", "repack", changes=STORES),
    _of("repack --whole", "repack", "--whole", "--json", changes=STORES),
    _of("repack --dry-run", "repack", "--dry-run"),
    _of("resolve", "resolve", changes=STORES),
    _of("resolve --theirs", "resolve", "--theirs", "--json", changes=STORES, prepare=_with_conflict),
    _of("rekey --accept-changed", "rekey", "--accept-changed", "--json", changes=STORES),
    _of("push", "push", changes=STORES, variables=_REMOTE),
    _of("push --dry-run --json", "push", "--dry-run", "--json", variables=_REMOTE),
    _of("pull", "pull", variables=_REMOTE),
    _of("keep remote", "keep", "remote", changes=(*_INIT, *STORES), variables=_REMOTE),
    _of("gc", "gc", "--remote", "--apply", variables=_REMOTE),
    _of("verify --remote", "verify", "--remote", variables=_REMOTE),
    _of("export", "export", "--crtx", "out", changes=("out", "out/**")),
    _of("list", "list"),
    _of("list --json", "list", "--json"),
    _of("show", "show", "{fixture}"),
    _of("show --json", "show", "{fixture}", "--json"),
    _of("explain", "explain", "{fixture}"),
    _of("explain --json", "explain", "{fixture}", "--json"),
    _of("cache", "cache", "all"),
    _of("cache --json", "cache", "all", "--json"),
    _of("view", "view", "--report", "unused.json", serves=True),
    _of("view --export", "view", "--export", "page.html", "--base", "HEAD~1", changes=("page.html",)),
    _of("scan", "scan"),
    _of("scan --json", "scan", "--json"),
    _of("config", "config"),
    _of("config --json", "config", "--json"),
    _of("trust", "trust"),
    _of("trust --json", "trust", "--json"),
    _of(
        "merge-driver",
        *("merge-driver", "{top}/tmp/base", "{top}/tmp/ours", "{top}/tmp/theirs", "INDEX.toml"),
        prepare=_with_sides,
    ),
    _of("completion", "completion", "bash"),
    _of("comment", "comment", "README.md", variables=_GITLAB, calls=True),
    Row(
        "completing a fixture",
        (),
        variables={
            "_CORTEX_REPLAY_COMPLETE": "zsh_complete",
            "COMP_WORDS": "cortex-replay show ",
            "COMP_CWORD": "2",
        },
        statuses=frozenset([0, 1]),
    ),
    Row(
        "git merge",
        ("merge", "--no-edit", "origin/theirs"),
        "merge-driver",
        program="git",
        changes=("*",),  # whatever git does to its clone
        statuses=_ANY,
        prepare=_with_driver,
        runs_git=True,
    ),
    Row(
        "git commit with the hook",
        ("commit", "--quiet", "--allow-empty", "--message", "x"),
        "verify",
        program="git",
        changes=_GIT,
        statuses=_ANY,
        prepare=_with_hook,
        runs_git=True,
    ),
    _pytest("pytest", takes_mode=True),
    _pytest("pytest in CI", variables=_ACTIONS),
    _pytest("pytest --llm-report", "--llm-report", REPORT, changes=(REPORT,), takes_mode=True),
    _pytest("pytest once", "--llm-mode", "once", changes=STORES, calls=True),
    _pytest("pytest once -n 1", "--llm-mode", "once", "-p", "xdist", "-n", "1", changes=STORES, calls=True),
    _of("verify --max-age", "verify", "--max-age", "1h", changes=_GIT_CONFIG),
    _of(
        "replay --from --live -- CMD",
        *("replay", *_OWN_UPSTREAM, "--from", "0", "--live", "--as", "x", *asking(ASK_NEW)),
        changes=STORES,
        calls=True,
    ),
    _of("replay --scope -- CMD", "replay", "--scope", "x", *asking(ASK_RECORDED)),
)
