"""A configuration that is built to cost time, memory or a terminal is refused at once.

Each is read by a process that may use little of either; the system is the judge.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from cortex_replay.config import bounds, load_settings
from cortex_replay.errors import ConfigError, InvalidRequest
from tests.growth import costs_at_most
from tests.property.strategies import effort
from tests.sampling import sample

MEMORY = 400 * 2**20
HONEST = "mode = 'replay'\nprovider = 'claude'\n\n[normalisers]\nrun = 'run-[0-9]+'\n" + "# words\n" * 200
TIMES = 12
"""What all bombs together may cost, in times of as many honest files."""
READER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # an end, where there would be none
from pathlib import Path
from cortex_replay.config import load_settings
from cortex_replay.config.key_rules import key_rules_for
from cortex_replay.errors import ConfigError
for folder in sys.argv[1:]:
    try:
        load_settings(Path(folder), {})
        key_rules_for(Path(folder))
    except ConfigError as error:
        print(len(str(error)) < 400, error)
    else:
        print("taken")
"""

BOMBS = {
    "header of 999 parts": "[" + ".".join(["a"] * 999) + "]\nx = 1\n",
    "header of quoted parts": "[" + " . ".join(['"a.b"'] * 999) + "]\n",
    "array of tables": "[[" + ".".join(["a"] * 999) + "]]\n",
    "many long headers": "".join(f"[a{i}.{'b.' * 900}c]\n" for i in range(500)),
    "nested keys": "".join(f"a{i}.{'b.' * 200}c = 1\n" for i in range(1100)),
    "short keys, many of them": "".join(f"a{i}.b.c.d.e.f.g.h = 1\n" for i in range(30_000)),
    "spread over lines": "".join(f"[t{i}]\na.b.c.d.e.f.g.h = 1\n" for i in range(20_000)),
    "tables": "".join(f"[a{i}]\n" for i in range(80_000)),
    "arrays in arrays": "x = " + "[" * 100_000 + "]" * 100_000,
    "tables in tables": "x = " + "{a = " * 50_000 + "1" + "}" * 50_000,
    "long array": "x = [" + "1," * 400_000 + "]",
    "decimal digits": "x = " + "9" * 900_000,
    "hex digits": "jobs = 0x" + "f" * 900_000,
    "digits of a fraction": "x = 1." + "1" * 900_000,
    "digits within limits": "jobs = " + "9" * 250,
    "a key in an inline table": "x = {" + ".".join(["a"] * 100_000) + " = 1}",
    "normalisers": "[normalisers]\n" + "".join(f"n{i} = 'a{i}'\n" for i in range(5000)),
    "patterns": "[redaction.extra_patterns]\n" + "".join(f"n{i} = 'a{i}'\n" for i in range(5000)),
    "providers": "".join(f"[providers.p{i}]\nkind = 'echo'\n" for i in range(5000)),
    "callers": "".join(f"[callers.p{i}]\n" for i in range(5000)),
    "variables": "redaction.known_env = [" + "'A'," * 15_000 + "]",
    "a long pattern": f"normalisers.a = '{'a' * 100_000}'",
    "a long placeholder": f"normalisers.a = {{pattern = 'a', placeholder = '{'b' * 100_000}'}}",
    "a long path": f"store = '{'a/' * 100_000}'",
    "a long word": f"model = '{'a' * 100_000}'",
    "a deep pattern": f"normalisers.a = '{'(' * 499}a{')' * 499}'",
    "a pattern that repeats repeats": f"normalisers.a = 'x{'(?:' * 120}a{'){2,9}' * 120}'",
    "a pattern of large counts": f"normalisers.a = '{'a{65535}' * 120}'",
    "a pattern with a count of its own": "normalisers.a = 'a{99999999999999999999}'",
    "sets without case": f"normalisers.a = '(?i){('[!-' + chr(0xFFFD) + ']') * 150}b'",
    "an empty loop": "normalisers.a = '(?:(?:){65535}){65535}x'",
    "a choice of nothing": "normalisers.a = '(?:(?:a?){500}){500}$'",
}
HARMLESS = ["sets without case"]
"""Python's own engine takes seconds to prepare it; it is not asked."""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.mark.parametrize("file", ["cortex-replay.toml", "pyproject.toml"])
def test_a_bomb_is_refused(tmp_path: Path, file: str) -> None:
    """With one clear error, in little time and memory."""

    def read(*folders: Path) -> tuple[subprocess.CompletedProcess[str], float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        result = subprocess.run(
            [sys.executable, "-c", READER, *map(str, folders)],
            preexec_fn=limited,
            capture_output=True,
            text=True,
            check=False,
        )
        return result, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    honest, bombs = ([tmp_path / kind / f"{i}" for i in range(len(BOMBS))] for kind in ("honest", "bomb"))
    for folder, other, text in zip(bombs, honest, BOMBS.values(), strict=True):
        folder.mkdir(parents=True)
        other.mkdir(parents=True)
        (other / "cortex-replay.toml").write_text(HONEST)
        before = ""
        if file == "pyproject.toml":
            before = "[tool.cortex-replay]\nmode = 'replay'\n" + ("" if text.startswith("[") else "[other]\n")
        (folder / file).write_text(before + text)
    result, spent = read(*bombs)
    usual = max(read(*honest)[1] for _ in range(2))
    answers = dict(zip(BOMBS, result.stdout.splitlines(), strict=False))

    assert result.returncode == 0, (len(answers), list(BOMBS)[len(answers)], result.stderr[-500:])
    if file == "cortex-replay.toml":
        assert [name for name, said in answers.items() if not said.startswith("True ")] == HARMLESS
    assert spent < TIMES * usual


def allowed() -> Iterator[str]:
    """As much as is let through."""
    yield "".join(f"a{i}.b.c.d.e.f.g.h.i.j.k = 1\n" for i in range(1700))
    yield "".join(f"[a{i}.b.c.d.e.f.g.h.i.j.k]\n" for i in range(1700))
    yield "x = [" + "{a=1}," * 6000 + "]"
    yield 'x = "' + "\\n" * 500_000 + '"'
    yield "\n" * 2**20
    yield "#\n" * 2**19


def test_what_is_let_through_costs_little(tmp_path: Path) -> None:
    """The largest files that are still parsed, next to a plain one."""
    plain = "".join(f"key_{i} = 'some words of a value'\n" for i in range(20_000))
    for text in sample(allowed(), 2):
        assert bounds.problem_of(text) is None
        (tmp_path / "cortex-replay.toml").write_text(text)

        def load() -> None:
            with contextlib.suppress(InvalidRequest):
                load_settings(tmp_path, {})

        assert costs_at_most(4, load, lambda: tomllib.loads(plain)), text[:20]


def test_quotes_and_comments_hide_nothing() -> None:
    """Dots in texts do not count; those behind a text do."""
    long = ".".join(["a"] * 50)
    texts = [f'x = "{long}"', f"x = '{long}'", f"# {long}", f'x = """\n"{long}"\n"""', f"x = '''{long}'''''"]
    for text in texts:
        assert bounds.problem_of(text) is None, text
    starts = [
        'x = "\\""\n',
        "x = '\\'\n",
        'x = """a\\""""\n',
        "x = '''a'''''\n",
        "# '\n",
        'x = ""\n',
        "x = ''\n",
    ]
    for before in starts:
        assert bounds.problem_of(f"{before}{long} = 1") is not None, before


@effort(150)
@given(st.text(alphabet="\"'\\#\n.[]{}=,a ", max_size=60), st.sampled_from(["[", "a."]))
def test_what_passes_is_never_deeper_than_it_may(text: str, unit: str) -> None:
    """Whatever stands before a bomb, the bomb is seen or the parser does not reach it."""
    bomb = f"{text}\nx = {'[' * 40}{']' * 40}\n" if unit == "[" else f"{text}\n{'a.' * 40}b = 1\n"
    if bounds.problem_of(bomb) is None:
        try:
            parsed = tomllib.loads(bomb)
        except tomllib.TOMLDecodeError:
            return
        assert depth(parsed) <= bounds.MAX_PARTS + bounds.MAX_NESTING + 1


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


UNSEEN = [*"\n\r\x1b\x00\x7f\x9b\u202e\u2066\u200b\u2028\ufeff\U000e0041"]
PLACES = [
    "store = {}",
    "model = {}",
    "provider = {}",
    "providers.claude.key_file = {}",
    "providers.claude.version = {}",
    "providers.claude.betas = [{}]",
    "providers.claude.base_url = {}",
    "providers.scripted.script = {}",
    "providers.echo.models = [{}]",
    "callers.a.token_file = {}",
    "normalisers.a = {{pattern = 'x', placeholder = {}}}",
    "prices.{} = {{input = 1, output = 1}}",
    "providers.{}.kind = 'echo'",
    "normalisers.{} = 'x'",
    "callers.{}.max_calls = 1",
    "redaction.extra_patterns.{} = 'x'",
    "redaction.known_env = {}",
]


@pytest.mark.parametrize("place", PLACES)
def test_what_cannot_be_seen_is_refused(tmp_path: Path, place: str) -> None:
    """In every path, name and text that is printed or written; and the error does not repeat it."""
    for one in UNSEEN:
        escaped = quoted(f"a{one}b")
        (tmp_path / "cortex-replay.toml").write_text(place.format(escaped))
        with pytest.raises(ConfigError) as caught:
            load_settings(tmp_path, {})
        assert one not in str(caught.value), place


@pytest.mark.parametrize("one", [c for c in UNSEEN if c != "\n"])
def test_patterns_have_only_lines_and_tabs(tmp_path: Path, one: str) -> None:
    """For long ones; the rest can be written as an escape."""
    (tmp_path / "cortex-replay.toml").write_text(f"normalisers.a = {quoted(f'(?x) a{one}b')}")
    with pytest.raises(ConfigError, match=rf"U\+{ord(one):04X}"):
        load_settings(tmp_path, {})


def quoted(text: str) -> str:
    return '"' + "".join(c if c.isalnum() or c in " ()?" else f"\\U{ord(c):08x}" for c in text) + '"'


@pytest.mark.parametrize("variable", ["CORTEX_REPLAY_STORE", "CORTEX_REPLAY_MODEL"])
def test_the_environment_is_looked_at_too(tmp_path: Path, variable: str) -> None:
    """It may come from a file of a tool."""
    with pytest.raises(ConfigError, match=variable):
        load_settings(tmp_path, {variable: "a\x1b]0;b"})


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"a{i}.b.c.d.e.f.g.h.i.j = 1\n" for i in range(2500)),
        f"x = {'1' * 257}",
        f'x = ["""a"""", {"[" * 40}',
        f"x = ['''a'''', {'[' * 40}",
        f'x = ["""a""""", {"[" * 40}',
    ],
)
def test_each_bound_holds_by_itself(text: str) -> None:
    """Parts count wherever they stand, numbers too, and a text ends where the parser says that it does."""
    assert bounds.problem_of(text) is not None
