"""What an MCP server is called if the user has not named it: by its command, or by its URL.

A name is the same on every machine, so there is no folder, version, interpreter or port in it; nor an
argument, which may be a secret.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

__all__ = ["configured_name", "label_of", "server_behind_shim", "server_name", "server_name_of_url"]

_NAMELESS: Final = "server"
_LONGEST: Final = 64
_PROGRAM_ENDS: Final = (".exe", ".cmd", ".bat", ".ps1", ".com")
_FILE_ENDS: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".jar", ".rb", ".php", ".dll")
_VERSION: Final = re.compile(r"[-_]v?\d+(\.\d+)+.*$")
_SHIM: Final = ("cortex-replay", "cortex_replay")
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_AFFIXES: Final = frozenset({"mcp", "server"})

# Options that stand alone. All others of a program take the next word, unless they have one behind ``=``.
_ALONE: Final = {
    "npx": {"-y", "--yes", "-n", "--no", "--no-install", "-q", "--quiet", "--prefer-offline", "--offline"},
    "uv": {
        *("-q", "--quiet", "-v", "--verbose", "-n", "--no-cache", "--offline", "--native-tls", "--refresh"),
        *("--isolated", "--no-project", "--frozen", "--locked", "--no-sync", "--no-dev", "--all-extras"),
        *("--exact", "--active", "--managed-python", "--no-config", "--no-env-file", "-s", "--script"),
    },
    "docker": {
        *("-i", "--interactive", "-t", "--tty", "-d", "--detach", "--rm", "--init", "--privileged", "-q"),
        *("--read-only", "-P", "--publish-all", "--no-healthcheck", "--oom-kill-disable", "--quiet"),
        *("--sig-proxy", "--replace", "--disable-content-trust"),
    },
    "shim": set[str](),
}
_WITH_VALUE: Final = {
    "node": {"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"},
    "deno": {"-c", "--config", "--import-map", "-L", "--log-level", "--cert", "--location", "--seed"},
    "go": {"-C", "-mod", "-modfile", "-tags", "-ldflags", "-gcflags", "-exec"},
    "cargo": {"--manifest-path", "-p", "--package", "--features", "-F", "--target", "--profile"},
    "pipx": {"--spec", "--python", "--index-url", "-i", "--pip-args"},
}


def server_name(command: Sequence[str]) -> str:
    """The name of a server that is started with a command.

    >>> server_name(["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"])
    'server-everything'
    >>> server_name(["python", "-m", "shop.server", "--port", "1"])
    'shop.server'
    """
    return label_of(_name_of([str(word) for word in command])) or _NAMELESS


def server_name_of_url(url: str) -> str:
    """The name of a server at a URL: its host. A path may be a secret, and a port chance.

    >>> server_name_of_url("https://mcp.example.com/mcp")
    'mcp.example.com'
    """
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    is_here = host in ("127.0.0.1", "::1", "0.0.0.0")  # noqa: S104
    return label_of("localhost" if is_here else host or "") or _NAMELESS


def label_of(name: str) -> str:
    """A name as it may stand in a store and in a URL; empty if nothing of it may."""
    return _ODD.sub("-", name).strip("-._")[:_LONGEST]


def configured_name(name: str, configured: Collection[str]) -> str:
    """The name that a user has given to a server, if what we call it says so: ``git`` is what
    ``mcp-server-git`` serves."""
    if name in configured:
        return name
    meant = [known for known in configured if _core(known) and _core(known) == _core(name)]
    return meant[0] if len(meant) == 1 else name


def server_behind_shim(command: Sequence[str]) -> tuple[str, list[str]] | None:
    """The name and the command of a server that already runs behind ``cortex-replay mcp``, if it does."""
    words = _behind_own_program(list(command))
    if words[:1] != ["mcp"] or "--" not in words:
        return None
    end = words.index("--")
    name = next(_positionals(words[1:end], _takes_value("shim")), None)
    return None if name is None or not words[end + 1 :] else (name[0], words[end + 1 :])


def _behind_own_program(words: list[str]) -> list[str]:
    """What our own program is given, however it is started."""
    if not words or _program(words[0]) in _SHIM:
        return words[1:]
    for i, word in enumerate(words[:4] if _is_python(_program(words[0])) else []):
        if word == "-m" and words[i + 1 : i + 2] == ["cortex_replay"]:
            return words[i + 2 :]
        if re.split(r"[/\\]", word)[-2:] == ["cortex_replay", "__main__.py"]:
            return words[i + 1 :]
    return []


def _name_of(words: list[str]) -> str:
    """The name in a command, perhaps behind other programs that start one."""
    if not words:
        return ""
    shim = server_behind_shim(words)
    if shim is not None:
        return shim[0]
    program, rest = _program(words[0]), words[1:]
    if program == "env":
        return _name_of(_behind_variables(rest))
    if program in ("sh", "bash", "zsh", "dash", "cmd"):
        return _name_in_shell(program, rest)
    if program in ("nice", "nohup", "time", "exec", "sudo") and rest and not rest[0].startswith("-"):
        return _name_of(rest)
    if _is_python(program):
        return _name_for_python(program, rest)
    runner = _RUNNERS.get(program)
    return (runner(rest) if runner is not None else "") or _stem(words[0])


def _name_in_shell(program: str, rest: list[str]) -> str:
    for i, word in enumerate(rest):
        if program == "cmd" and word.lower() in ("/c", "/k"):
            return _name_of(rest[i + 1 :])
        if program != "cmd" and word.startswith("-") and word.endswith("c") and rest[i + 1 :]:
            try:
                return _name_of(_behind_variables(shlex.split(rest[i + 1])))
            except ValueError:
                return program
    files = [word for word in rest if not word.startswith("-")]
    return _stem(files[0]) if files else program


def _behind_variables(words: list[str]) -> list[str]:
    """A command without what stands before it: ``exec``, options of env, and variables."""
    for i, word in enumerate(words):
        if "=" not in word.partition("/")[0] and not word.startswith("-") and word != "exec":
            return words[i:]
    return []


def _name_for_python(program: str, rest: list[str]) -> str:
    for i, word in enumerate(rest):
        if word == "-m" and rest[i + 1 :]:
            module, behind = rest[i + 1], rest[i + 2 :]
            inner = _name_of([module, *behind]) if module in ("mcp", "fastmcp", "uv", "pipx") else ""
            return inner if inner not in ("", module) else module
        if word.startswith("-m") and not word.startswith("--"):
            return word[2:]
        if word in ("-c", "-"):
            return program.rstrip("0123456789.")
        if not word.startswith("-"):
            before = rest[i - 1] if i else ""
            if before in ("-X", "-W", "--check-hash-based-pycs"):
                continue
            return _stem(word)
    return program.rstrip("0123456789.")


def _takes_value(program: str) -> Callable[[str], bool]:
    """Whether an option of a program has its value in the next word."""
    alone = _ALONE.get(program)
    if alone is None:
        with_value = _WITH_VALUE.get(program, set())
        return lambda option: option in with_value
    letters = {option[1] for option in alone if len(option) == 2}

    def takes(option: str) -> bool:
        is_bundle = not option.startswith("--") and len(option) > 2 and set(option[1:]) <= letters
        return option not in alone and not is_bundle

    return takes


def _positionals(words: Sequence[str], takes_value: Callable[[str], bool]) -> Iterator[list[str]]:
    """What is behind the options, each time with all that follows."""
    is_value = False
    for i, word in enumerate(words):
        if is_value:
            is_value = False
        elif word == "--":
            if words[i + 1 :]:
                yield list(words[i + 1 :])
            return
        elif word.startswith("-") and len(word) > 1:
            is_value = "=" not in word and takes_value(word)
        else:
            yield list(words[i:])


def _first(words: Sequence[str], program: str) -> list[str]:
    return next(_positionals(words, _takes_value(program)), [])


def _package(words: Sequence[str], program: str) -> str:
    """The name of a package that a runner fetches and starts."""
    found = _first(words, program)
    return _package_name(found[0]) if found else ""


def _package_name(spec: str) -> str:
    """``@scope/name@1.2``, ``name[extra]==1.2``, ``git+https://host/name.git@ref``, ``./folder/name.js``."""
    if "://" in spec or spec.startswith(("git+", "github:", "gitlab:")):
        path = spec.partition("#")[0].split("/")[-1]
        return path.partition("@")[0].removesuffix(".git")
    if spec.startswith((".", "/", "~")) or "\\" in spec:
        return _stem(spec)
    name = spec.rpartition("/")[2] if spec.startswith("@") else spec
    name = re.split(r"@|\[|[=<>!~]=|[<>]", name, maxsplit=1)[0]
    return _stem(name) if "/" in name else name


def _npm(words: list[str]) -> str:
    found = _first(words, "npx")
    if not found:
        return ""
    if found[0] in ("exec", "x", "dlx", "create"):
        return _package(found[1:], "npx")
    return _stem(found[0]) if found[0] not in ("run", "start", "run-script") else "".join(found[1:2])


def _uv(words: list[str]) -> str:
    found = _first(words, "uv")
    if found[:2] == ["tool", "run"]:
        return _package(found[2:], "uv")
    if found[:1] == ["run"]:
        module = found.index("-m") if "-m" in found else -1
        if module > 0 and found[module + 1 :]:
            return found[module + 1]
        return _name_of(_first(found[1:], "uv"))
    return ""


def _pipx(words: list[str]) -> str:
    found = _first(words, "pipx")
    return _package(found[1:], "pipx") if found[:1] == ["run"] else ""


def _container(words: list[str]) -> str:
    found = _first(words, "docker")
    if found[:1] == ["container"]:
        found = found[1:]
    if found[:1] == ["exec"]:
        return _name_of(_first(found[1:], "docker")[1:])
    image = _first(found[1:], "docker")[:1] if found[:1] == ["run"] else []
    return re.split(r"[:@]", image[0].rpartition("/")[2], maxsplit=1)[0] if image else ""


def _node(words: list[str]) -> str:
    found = _first(words, "node")
    return _stem(found[0]) if found else ""


def _deno(words: list[str]) -> str:
    found = _first(words, "deno")
    target = _first(found[1:], "deno")[:1] if found[:1] == ["run"] else found[:1]
    if not target:
        return ""
    for registry in ("npm:", "jsr:"):
        if target[0].startswith(registry):
            return _package_name(target[0].removeprefix(registry).removeprefix("/"))
    return _stem(target[0])


def _bun(words: list[str]) -> str:
    found = _first(words, "node")
    if found[:1] == ["x"]:
        return _package(found[1:], "npx")
    return _stem("".join(found[1:2] if found[:1] == ["run"] else found[:1]))


def _go(words: list[str]) -> str:
    found = _first(words, "go")
    target = _first(found[1:], "go")[:1] if found[:1] == ["run"] else []
    return _stem(target[0].partition("@")[0]) if target else ""


def _cargo(words: list[str]) -> str:
    for option in ("--bin", "--example", "-p", "--package"):
        if option in words[:-1]:
            return words[words.index(option) + 1].partition("@")[0]
    return ""


def _java(words: list[str]) -> str:
    if "-jar" in words[:-1]:
        return _stem(words[words.index("-jar") + 1])
    found = next(_positionals(words, lambda option: option in ("-cp", "-classpath", "--class-path")), [])
    return found[0] if found else ""


def _mcp_tool(words: list[str]) -> str:
    """``mcp run server.py:app``, and the same of fastmcp."""
    found = [word for word in words if not word.startswith("-")]
    return _stem(found[1].partition(":")[0]) if found[:1] in (["run"], ["dev"]) and found[1:] else ""


_RUNNERS: Final[dict[str, Callable[[list[str]], str]]] = {
    "npx": lambda words: _package(words, "npx"),
    "bunx": lambda words: _package(words, "npx"),
    "pnpx": lambda words: _package(words, "npx"),
    "npm": _npm,
    "pnpm": _npm,
    "yarn": _npm,
    "uvx": lambda words: _package(words, "uv"),
    "uv": _uv,
    "pipx": _pipx,
    "docker": _container,
    "podman": _container,
    "nerdctl": _container,
    "node": _node,
    "nodejs": _node,
    "tsx": _node,
    "ts-node": _node,
    "ruby": _node,
    "php": _node,
    "dotnet": _node,
    "deno": _deno,
    "bun": _bun,
    "go": _go,
    "cargo": _cargo,
    "java": _java,
    "mcp": _mcp_tool,
    "fastmcp": _mcp_tool,
}


def _is_python(program: str) -> bool:
    return re.fullmatch(r"(python|pypy)[0-9.]*w?|py", program) is not None


def _program(word: str) -> str:
    """A program without its folder, in one spelling."""
    name = re.split(r"[/\\]", word)[-1]
    lower = name.lower()
    return next((lower.removesuffix(end) for end in _PROGRAM_ENDS if lower.endswith(end)), name)


def _stem(path: str) -> str:
    """A file without its folder, its ending and its version; in a package of npm, that package."""
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]
    if "node_modules" in parts[:-1]:
        behind = parts[len(parts) - parts[::-1].index("node_modules") :]
        if behind[0] != ".bin":
            return behind[1] if behind[0].startswith("@") and behind[1:] else behind[0]
    name = parts[-1] if parts else ""
    for end in (*_PROGRAM_ENDS, *_FILE_ENDS):
        if name.lower().endswith(end) and len(name) > len(end):
            name = name[: -len(end)]
            break
    return _VERSION.sub("", name)


def _core(name: str) -> str:
    """What a server serves: its name without the words that all have."""
    return "-".join(part for part in re.split(r"[-_.]", name.lower()) if part not in _AFFIXES)
