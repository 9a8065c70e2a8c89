"""Which key may go to which server, where a project's file asks for it.

Such a file comes with a repository, and repositories come from strangers. So a key goes

* to its provider's own server, if it is in one of the provider's own variables;
* to a server on this machine;
* to a server that the user chose, if the user named the key as well: by a flag, the environment, the user's
  own configuration, or in a program;
* elsewhere only by consent: remembered by ``cortex-replay trust`` in the user's own folder, or given for one
  run by ``CORTEX_REPLAY_TRUST``. In CI only the latter counts, since whoever wrote the workflow wrote it.

Whoever replays needs no key, and is never asked.
"""

from __future__ import annotations

import os
import shlex
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import tomli_w

from cortex_replay.config import checks
from cortex_replay.config.files import read_at_most, shown_path, user_folder
from cortex_replay.config.provider import ProviderSettings
from cortex_replay.config.servers import server_of
from cortex_replay.disk import PRIVATE, Folder
from cortex_replay.errors import ConfigError

__all__ = [
    "CLIENT",
    "TRUST_VARIABLE",
    "Consent",
    "consent_of",
    "consents_in",
    "is_ci",
    "needed_consent",
    "parse_consent",
    "recall",
    "refuse_without_consent",
    "remember",
    "trust_file",
]

TRUST_VARIABLE: Final = "CORTEX_REPLAY_TRUST"
CLIENT: Final = "client"
"""Stands for the key that a client behind the gateway brings itself."""

_NAME: Final = "trust.toml"
_MAX_BYTES: Final = 2**18
_NOT_CI: Final = frozenset(["", "0", "false"])


class Consent(NamedTuple):
    """That a key may go to a server."""

    server: str
    """Scheme, host and port: ``https://llm.example``."""
    key: str
    """The variable or the file that holds it, or :data:`CLIENT`."""

    def __str__(self) -> str:
        return f"{self.server}={self.key}"

    @property
    def command(self) -> str:
        """How it is given."""
        return shlex.join(["cortex-replay", "trust", self.server, self.key])


def is_ci(environment: Mapping[str, str]) -> bool:
    """Whether nobody sits before this run."""
    return environment.get("CI", "").lower() not in _NOT_CI


def needed_consent(provider: ProviderSettings, key: str, setting: str | None) -> Consent | None:
    """What the user must have agreed to before a key goes to a provider; ``None`` for nothing.

    Args:
        provider: Who gets it.
        key: The variable, the file, or :data:`CLIENT`.
        setting: The setting that names it; ``None`` if none does.

    Raises:
        ConfigError: The provider's server is spelled in a way that could mean two.
    """
    names = frozenset() if provider.project is None else provider.project.names
    if "base_url" not in names and setting not in names:
        return None
    server = server_of(provider.base_url or "")
    if server is None:
        reason = "its host is not spelled plainly, so no key goes there; use ASCII letters and no tricks"
        raise ConfigError("base_url", reason)
    if server.is_loopback:
        return None
    is_server_fine = "base_url" not in names or provider.service is not None
    is_key_fine = setting not in names or key in provider.own_key_variables
    return None if is_server_fine and is_key_fine else Consent(str(server), key)


def refuse_without_consent(
    provider: ProviderSettings, key: str, setting: str | None, environment: Mapping[str, str]
) -> None:
    """Let a key go to a provider, or raise.

    Raises:
        ConfigError: The user has not agreed, or the trust file is not the user's own.
    """
    needed = needed_consent(provider, key, setting)
    if needed is None or needed in consents_in(environment):
        return
    what = "the key that a client brings" if key == CLIENT else f"the key in {key}"
    how = f"{TRUST_VARIABLE}={shlex.quote(str(needed))}" if is_ci(environment) else f"run: {needed.command}"
    reason = (
        f"this project's configuration wants to send {what} to {needed.server}, and you have not allowed "
        f"it; nothing was sent. If you trust that server with it, {'set' if is_ci(environment) else ''} {how}"
    )
    raise ConfigError("api_key", reason.replace("  ", " "))


def consents_in(environment: Mapping[str, str]) -> frozenset[Consent]:
    """Everything that the user agreed to, and that counts in this run.

    Raises:
        ConfigError: It is not spelled as it should be, or others could have written it.
    """
    texts = environment.get(TRUST_VARIABLE, "").split(",")
    given = {parse_consent(text.strip(), TRUST_VARIABLE) for text in texts if text.strip()}
    return frozenset(given if is_ci(environment) else {*given, *recall(environment)})


def parse_consent(text: str, where: str) -> Consent:
    """A consent as it is spelled in a flag or a variable: ``https://llm.example=VARIABLE``.

    Raises:
        ConfigError: It is not spelled like that.
    """
    server, equals, key = text.rpartition("=")
    if not equals:
        raise ConfigError(where, "expected SERVER=VARIABLE, such as https://llm.example=LLM_KEY")
    return consent_of(server, key, where)


@checks.config_errors()
def consent_of(server: str, key: str, where: str) -> Consent:
    """A consent, with the server in its one spelling; a host alone means https.

    Raises:
        ConfigError: There is no such server, or the key is neither a variable nor a file.
    """
    found = server_of(server if "://" in server else f"https://{server}")
    if found is None:
        raise ConfigError(where, "expected a server such as https://llm.example or http://10.0.0.7:8000")
    if os.sep in key or key.startswith("."):
        key = os.path.normpath(Path(checks.path(key, where)).expanduser().absolute())
    elif key != CLIENT:
        key = checks.variables(key, where)[0]
    return Consent(str(found), key)


def trust_file(environment: Mapping[str, str]) -> Path | None:
    """Where consent is remembered; ``None`` for somebody without a folder of their own."""
    folder = user_folder(environment)
    return None if folder is None else folder / _NAME


def recall(environment: Mapping[str, str]) -> frozenset[Consent]:
    """What ``cortex-replay trust`` has remembered on this machine.

    Raises:
        ConfigError: Somebody else could have written it, or it is damaged.
    """
    path = trust_file(environment)
    if path is None:
        return frozenset()
    where = shown_path(path)
    try:
        facts, data = read_at_most(path, _MAX_BYTES, getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        reason = "it is a symbolic link; make it a file of its own" if path.is_symlink() else error.strerror
        raise ConfigError(where, f"cannot be read: {reason}") from None
    is_others = hasattr(os, "geteuid") and (facts.st_uid != os.geteuid() or facts.st_mode & 0o022)
    if not stat.S_ISREG(facts.st_mode) or is_others:
        raise ConfigError(where, "others could have written it; make it a file of your own, mode 0600")
    try:
        rows = tomllib.loads(data.decode())["trust"] if len(data) <= _MAX_BYTES else None
        return frozenset(consent_of(row["server"], row["key"], where) for row in rows)  # type: ignore[union-attr]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(where, "is damaged; remove it and allow again what you need") from None


def remember(consents: Iterable[Consent], environment: Mapping[str, str]) -> Path:
    """Remember exactly these, in the place of what was.

    Raises:
        ConfigError: There is no folder to remember anything in.
        OSError: It cannot be written.
    """
    path = trust_file(environment)
    if path is None:
        raise ConfigError("trust", "there is no folder of yours; set HOME or XDG_CONFIG_HOME")
    rows = [{"server": one.server, "key": one.key} for one in sorted(consents)]
    data = tomli_w.dumps({"trust": rows}).encode()
    with Folder.make_at(path.parent) as folder:  # the user's own, and so are the links that lead there
        folder.replace(path.name, data, f".{path.name}.tmp-{os.getpid()}", mode=PRIVATE)
    return path
