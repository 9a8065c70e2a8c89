"""Which values are told from prose, and which are too short or too common for that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["COMMON", "PATHS", "problem_of"]

PATHS: Final = frozenset(["cwd", "repo", "home", "tmp"])
"""The known values that are paths."""

COMMON: Final[Mapping[str, frozenset[str]]] = {
    "path": frozenset(
        [
            *("/", "/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/dev/shm"),  # noqa: S108
            *(
                "/bin",
                "/dev",
                "/etc",
                "/home",
                "/lib",
                "/mnt",
                "/opt",
                "/proc",
                "/run",
                "/sbin",
                "/srv",
                "/sys",
                "/usr",
            ),
            *("/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/share", "/usr/src", "/var"),
            *("/Users", "/Library", "/System", "/Applications", "/Volumes", "/nonexistent"),
            *("/path", "/path/to", "/foo", "/bar", "/src", "/test", "/tests", "/api", "/docs", "/file"),
        ]
    ),
    "user": frozenset(
        [
            *("root", "user", "users", "username", "admin", "administrator", "nobody", "guest", "default"),
            *("runner", "ubuntu", "debian", "fedora", "centos", "alpine", "vagrant", "docker", "jenkins"),
            *("circleci", "travis", "gitlab-runner", "gitpod", "codespace", "coder", "vscode", "code"),
            *("node", "python", "ruby", "rust", "java", "deno", "build", "builder", "work", "worker"),
            *("agent", "agents", "claude", "codex", "gemini", "opencode", "aider", "copilot", "cursor"),
            *("test", "tests", "tester", "demo", "dev", "devel", "developer", "deploy", "service", "server"),
            *("system", "daemon", "local", "home", "name", "model", "tool", "tools", "data", "project"),
            *("assistant", "human", "person", "owner", "author", "client", "host", "remote", "public"),
            # First names that are words as well.
            *("angel", "april", "august", "bill", "brook", "cash", "chance", "chase", "chip", "chuck"),
            *("dawn", "dean", "drew", "faith", "forest", "frank", "gene", "grace", "grant", "guy", "happy"),
            *("hope", "hunter", "iris", "jack", "jade", "june", "kitty", "lance", "lane", "lily", "mark"),
            *("mason", "miles", "mike", "nick", "olive", "page", "pearl", "peter", "pierce", "ray", "rich"),
            *("robin", "rose", "ruby", "sage", "sandy", "sky", "star", "summer", "sunny", "tanner", "victor"),
            *("ward", "wade", "will", "winter"),
        ]
    ),
    "host": frozenset(
        [
            *("localhost", "localhost.localdomain", "local", "host", "hostname", "server", "client", "node"),
            *("runner", "worker", "builder", "build", "container", "docker", "debian", "ubuntu", "fedora"),
            *("alpine", "linux", "macbook", "laptop", "desktop", "machine", "computer", "sandbox", "devbox"),
            *("test", "example", "default", "none", "unknown", "home", "work", "main", "buildkitsandbox"),
        ]
    ),
    "branch": frozenset(
        [
            *("main", "master", "trunk", "head", "default", "develop", "development", "devel", "dev"),
            *("next", "latest", "stable", "current", "release", "releases", "production", "prod"),
            *("staging", "stage", "test", "tests", "testing", "feature", "features", "hotfix", "bugfix"),
            *("docs", "gh-pages", "beta", "alpha", "canary", "nightly", "work", "draft", "update", "base"),
        ]
    ),
    "prose": frozenset(
        [
            *("about", "above", "after", "again", "also", "always", "another", "around", "away", "back"),
            *("because", "been", "before", "being", "below", "best", "better", "between", "both", "call"),
            *("came", "case", "change", "check", "come", "could", "does", "done", "down", "each", "even"),
            *("ever", "every", "file", "find", "first", "folder", "found", "from", "give", "given", "good"),
            *("great", "have", "here", "high", "into", "just", "keep", "kind", "know", "large", "last"),
            *("leave", "less", "like", "line", "list", "little", "long", "look", "made", "make", "many"),
            *("message", "might", "more", "most", "much", "must", "need", "never", "number", "often"),
            *("once", "only", "open", "order", "other", "over", "path", "place", "please", "point", "read"),
            *("really", "right", "same", "says", "should", "show", "side", "small", "some", "such", "sure"),
            *("take", "tell", "text", "than", "thank", "that", "their", "them", "then", "there", "these"),
            *("they", "thing", "think", "this", "those", "time", "today", "true", "turn", "under", "until"),
            *("upon", "used", "using", "very", "want", "well", "were", "what", "when", "where", "which"),
            *("while", "whole", "with", "without", "word", "words", "world", "would", "write", "year"),
            *("yes", "your"),
        ]
    ),
    "tz": frozenset(["utc", "gmt", "zulu", "universal", "local", "localtime", "factory", "posixrules"]),
    "os": frozenset(["linux", "darwin", "windows", "macos", "unix", "posix"]),
}
"""What stands in texts without being this machine's: paths for all that are one, else in small letters, by
the name of the value that it most often is. No word of these is a value of another name either."""

_SHORTEST: Final = 4
_LONGEST: Final = 4096
_SHORTEST_PATH: Final = 3
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+.*", re.DOTALL)


def problem_of(name: str, text: str) -> str | None:
    """Why a value is not bound wherever it stands, or ``None`` if it may be."""
    if len(text) > _LONGEST:
        return "is too long"
    if name in PATHS or text.startswith("/"):
        if text in COMMON["path"]:
            return "is too common"
        return "is too short" if len(text.strip("/")) < _SHORTEST_PATH else None
    if text.lower() in _WORDS:
        return "is too common"
    if len(text) < _SHORTEST:
        return "is too short"
    if name == "branch" and text.isalpha():
        return "is a plain word"
    if name == "kernel" and not _VERSION.fullmatch(text):
        return "is no version"
    return None


_WORDS: Final = frozenset(["true", "false", "null", "none", "yes", "no"]).union(
    *(words for name, words in COMMON.items() if name != "path")
)
