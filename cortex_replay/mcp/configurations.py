"""Configurations in which MCP clients name their servers: what they say, and how to point them elsewhere.

Clients agree on little: the table is called ``mcpServers``, ``servers``, ``mcp`` or ``mcp_servers``, and a
variable ``${NAME}``, ``${env:NAME}`` or ``{env:NAME}``. What a client alone knows how to read (a question to
the user, a file within a text) makes a server one that cannot be wrapped. Nothing here reads a file or starts
anything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Literal

from cortex_replay.config import bounds
from cortex_replay.mcp.names import label_of
from cortex_replay.secret_names.values import secrets_in, secrets_in_header
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "MOST_BYTES",
    "BadConfiguration",
    "Configuration",
    "Dialect",
    "Document",
    "Server",
    "Target",
    "interpret",
    "merge",
    "parse",
    "toml_words",
    "variables_in",
]

MOST_BYTES: Final = 8 * 2**20
"""Of a configuration. The user's own may hold what was done in each project."""
MOST_SERVERS: Final = 100

Document = dict[str, Any]
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ONLY_CLIENT_KNOWS: Final = re.compile(r"\$\{(?:input|command|config):[^}]*\}|\{file:[^}]*\}")


class Dialect(Enum):
    """How a client writes. The value is the name of the table."""

    COMMON = "mcpServers"
    VSCODE = "servers"
    OPENCODE = "mcp"
    CODEX = "mcp_servers"


_VARIABLES: Final = {
    Dialect.COMMON: re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}"),
    Dialect.VSCODE: re.compile(r"\$\{env:([A-Za-z_]\w*)()\}"),
    Dialect.OPENCODE: re.compile(r"\{env:([A-Za-z_]\w*)()\}"),
}


class BadConfiguration(ValueError):
    """It cannot be read; the message says why, without quoting it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is to be looked for instead."""

    words: tuple[str, ...] = ()
    """The command, for one that is started."""
    url: str = ""
    """For one that is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server, as a configuration describes it; variables in its texts are still to be filled in."""

    name: str
    dialect: Dialect
    spec: Document = field(repr=False)
    """What the configuration says of it."""
    kind: Literal["stdio", "http", "sse"]
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def label(self) -> str:
        """Its name in recordings, in addresses and on a command line."""
        return self.name if _NAME.fullmatch(self.name) else label_of(self.name)

    @property
    def is_stand_in(self) -> bool:
        """Whether it is our stand-in already, as the user wrote it."""
        names = [word.replace("\\", "/").rpartition("/")[2] for word in self.command[:6]]
        ours = ("cortex-replay", "cortex_replay")
        return any(before in ours and word == "mcp" for before, word in pairwise(names))

    def expand(self, variables: Mapping[str, str]) -> Server:
        """The server with its variables filled in; those that are not there stay, as clients leave them."""

        def fill(text: str) -> str:
            return _expand(text, self.dialect, variables)

        return replace(
            self,
            command=tuple(map(fill, self.command)),
            environment={name: fill(value) for name, value in self.environment.items()},
            url=fill(self.url),
            headers={name: fill(value) for name, value in self.headers.items()},
        )

    def secrets(self) -> Iterator[str]:
        """What of it must not be stored; ask the expanded one."""
        for name, value in self.environment.items():
            yield from secrets_in(name, value)
        for name, value in self.headers.items():
            yield from secrets_in_header(name, value)
        yield from secrets_in("URL", self.url)
        for before, word in zip(("", *self.command), self.command, strict=False):
            name, equals, value = word.lstrip("-").partition("=")
            yield from secrets_in(name, value) if equals else secrets_in(before.lstrip("-"), word)

    def restate(self, dialect: Dialect) -> Server:
        """The server as another client would write it; its variables are to be filled in before."""
        if self.kind != "stdio":
            kind = "remote" if dialect is Dialect.OPENCODE else self.kind
            spec: Document = {"type": kind, "url": self.url, "headers": dict(self.headers)}
        elif dialect is Dialect.OPENCODE:
            spec = {"type": "local", "command": [*self.command], "environment": dict(self.environment)}
        else:
            spec = {"command": self.command[0], "args": [*self.command[1:]], "env": dict(self.environment)}
        return replace(self, dialect=dialect, spec=spec)

    def point_at(self, target: Target) -> Document:
        """What the configuration is to say of it, so that a client comes to the target."""
        made = {name: value for name, value in self.spec.items() if name not in _REACHED}
        if self.kind == "stdio":
            if self.dialect is Dialect.OPENCODE:
                return made | {"type": "local", "command": [*target.words]}
            return made | {"command": target.words[0], "args": [*target.words[1:]]}
        if self.dialect is Dialect.OPENCODE:
            return made | {"type": "remote", "url": target.url, "oauth": False}
        named = next(name for name in _URLS if name in self.spec)
        kept = {"type": self.spec["type"]} if "type" in self.spec else {}
        return made | kept | {named: target.url}


_URLS: Final = ("url", "httpUrl", "serverUrl")
_REACHED: Final = frozenset({"type", "command", "args", "headers", "http_headers", *_URLS})
"""What says how to get at a server, and is said anew. Its environment stays: the client hands it on."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What one file says."""

    document: Document = field(repr=False)
    dialect: Dialect
    servers: Mapping[str, Server]
    unusable: Mapping[str, str]
    """Servers that cannot be wrapped, and why."""

    def translate(self, dialect: Dialect, variables: Mapping[str, str]) -> Configuration:
        """The same servers as another client would write them."""
        if dialect is self.dialect:
            return self
        servers = {name: one.expand(variables).restate(dialect) for name, one in self.servers.items()}
        return Configuration({}, dialect, servers, self.unusable)

    def rewrite(self, targets: Mapping[str, Target]) -> Document:
        """The document with those servers pointed elsewhere, and all else as it was."""
        table = dict(self.document.get(self.dialect.value) or {})
        for name, target in targets.items():
            if name in self.servers:
                table[name] = self.servers[name].point_at(target)
        return {**self.document, self.dialect.value: table}


def parse(data: bytes, dialect: Dialect | None = None) -> Configuration:
    """Read a configuration.

    Args:
        data: JSON, perhaps with comments; TOML for Codex.
        dialect: Whose it is; without it, what the file has tells.

    Raises:
        BadConfiguration: It is too long, or not what it should be.
    """
    return interpret(_document(data, is_toml=dialect is Dialect.CODEX), dialect)


def interpret(document: Document, dialect: Dialect | None = None) -> Configuration:
    """As :func:`parse`, of what was read already."""
    if dialect is None:
        dialect = next((one for one in Dialect if isinstance(document.get(one.value), dict)), Dialect.COMMON)
    table = document.get(dialect.value, {})
    if not isinstance(table, dict):
        raise BadConfiguration(f"{dialect.value} is no table of servers")
    if len(table) > MOST_SERVERS:
        raise BadConfiguration(f"names more than {MOST_SERVERS} servers")
    servers: dict[str, Server] = {}
    unusable: dict[str, str] = {}
    for name, spec in table.items():
        try:
            server = _server(name, spec, dialect)
        except BadConfiguration as reason:
            unusable[name] = str(reason)
        else:
            if server is not None:
                servers[name] = server
    return Configuration(document, dialect, servers, unusable)


def merge(low: Document, high: Document) -> Document:
    """Two documents as one, the second before the first, table by table."""
    made = dict(low)
    for name, value in high.items():
        below = made.get(name)
        made[name] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return made


def variables_in(server: Server) -> list[str]:
    """The variables that a server is to be told, in order."""
    pattern = _VARIABLES.get(server.dialect)
    texts = (*server.command, *server.environment.values(), server.url, *server.headers.values())
    found = [match[1] for text in texts for match in pattern.finditer(_closed(text)[0])] if pattern else []
    return list(dict.fromkeys(found))


def _document(data: bytes, *, is_toml: bool) -> Document:
    if len(data) > MOST_BYTES:
        raise BadConfiguration(f"is longer than {MOST_BYTES // 2**20} MB")
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
        if is_toml and (problem := bounds.problem_of(text)):
            raise BadConfiguration(problem)
        found = tomllib.loads(text) if is_toml else _loads(text)
    except UnicodeDecodeError:
        raise BadConfiguration("is not UTF-8") from None
    except (JsonError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadConfiguration(f"is no {'TOML' if is_toml else 'JSON'}: {error}") from None
    if not isinstance(found, dict):
        raise BadConfiguration("is no JSON object")
    return found


def _loads(text: str) -> object:
    """JSON; if it is none, without its comments and the commas behind last items."""
    try:
        return loads(text.encode())
    except JsonError:
        bare = _COMMENT.sub(lambda found: found[1] or " ", text)
        return loads(_LAST_COMMA.sub(lambda found: found[1] or "", bare).encode())


def _server(name: str, spec: object, dialect: Dialect) -> Server | None:
    """One entry; ``None`` for a server that is switched off."""
    if not isinstance(spec, dict):
        raise BadConfiguration("is no table")
    if spec.get("enabled") is False or spec.get("disabled") is True:
        return None
    environment = _table(spec, "environment" if dialect is Dialect.OPENCODE else "env")
    headers = _table(spec, "http_headers" if dialect is Dialect.CODEX else "headers")
    words = _words(spec)
    named = next((one for one in _URLS if one in spec), None)
    url = spec[named] if named is not None else ""
    if not all(map(_is_text, (url, *words))):
        raise BadConfiguration("has a command or a URL that is no text")
    if not words and not url:
        raise BadConfiguration("has neither a command nor a URL")
    made = Server(
        name=name,
        dialect=dialect,
        spec=spec,
        kind=_kind(spec, is_started=bool(words), is_modern=named == "httpUrl"),
        command=tuple(words),
        environment=environment,
        url=url,
        headers=headers,
    )
    if not made.label:
        raise BadConfiguration("has a name that no recording can have")
    texts = (*words, url, *made.environment.values(), *made.headers.values())
    if any(_ONLY_CLIENT_KNOWS.search(_closed(text)[0]) for text in texts):
        raise BadConfiguration("needs values that only its client can fill in")
    return made


def _kind(spec: Document, *, is_started: bool, is_modern: bool) -> Literal["stdio", "http", "sse"]:
    if is_started:
        return "stdio"
    match spec.get("type") or spec.get("transport"):
        case "sse":
            return "sse"
        case None | "http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote":
            return "http"
        case _ if is_modern:
            return "http"
    raise BadConfiguration("is reached in a way that is not recorded")


def _table(spec: Document, name: str) -> dict[str, str]:
    found = spec.get(name) or {}
    if not isinstance(found, dict) or any(isinstance(value, (dict, list)) for value in found.values()):
        raise BadConfiguration(f"has {name} that is no table of texts")
    return {key: str(value) for key, value in found.items() if value is not None}


def _words(spec: Document) -> list[Any]:
    """The command with its arguments, whatever they are."""
    command, rest = spec.get("command"), spec.get("args") or []
    if not isinstance(rest, list):
        raise BadConfiguration("has args that are no list")
    if isinstance(command, list):
        return command
    return [command, *rest] if command else []


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _expand(text: str, dialect: Dialect, variables: Mapping[str, str]) -> str:
    pattern = _VARIABLES.get(dialect)

    def fill(found: re.Match[str]) -> str:
        default = "" if dialect is Dialect.OPENCODE else found[2]
        return variables.get(found[1], found[0] if default is None else default)

    if pattern is None:
        return text
    closed, rest = _closed(text)
    return pattern.sub(fill, closed) + rest


def _closed(text: str) -> tuple[str, str]:
    """A text up to its last ``}``, and the rest, which has no variable. In the first, whatever is opened is
    closed: so nothing is searched for its end in vain, again and again."""
    end = text.rfind("}") + 1
    return text[:end], text[end:]


def toml_words(name: str, values: Mapping[str, str | Sequence[str]]) -> Iterator[str]:
    """Words of a command line that set values of a server in a configuration of Codex."""
    for key, value in values.items():
        yield "-c"
        yield f"{Dialect.CODEX.value}.{name}.{key}={_toml(value)}"


def _toml(value: str | Sequence[str]) -> str:
    if not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    escaped = "".join(
        f"\\u{ord(letter):04x}" if ord(letter) < 32 or ord(letter) == 127 else letter
        for letter in value.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'
