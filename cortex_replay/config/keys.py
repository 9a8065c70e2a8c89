"""Keys of providers, tokens of callers, and every other value that must not be stored.

A key comes from the environment or from a file that nobody else can read, never from a configuration.
No message here holds one.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cortex_replay.config.caller import CallerSettings
from cortex_replay.config.files import read_at_most, shown_path
from cortex_replay.config.provider import ProviderSettings
from cortex_replay.config.settings import Settings
from cortex_replay.config.trust import refuse_without_consent
from cortex_replay.errors import ConfigError
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.secret_names.names import is_secret_variable
from cortex_replay.secret_names.values import SHORTEST_SECRET, is_plain, secrets_in

__all__ = ["key_for", "key_origin", "key_variable", "known_secrets", "refuse_outside", "token_for"]

_MAX_BYTES: Final = 16 * 1024


def key_for(provider: ProviderSettings, environment: Mapping[str, str]) -> str | None:
    """A provider's key: from the first of its variables that is set, else from its file.

    Raises:
        ConfigError: The file is not there, or others could read it; or the user has not agreed that the
            key goes to this server (:mod:`cortex_replay.config.trust`).
    """
    return _key(provider, environment)[1]


def key_origin(provider: ProviderSettings, environment: Mapping[str, str]) -> str | None:
    """Where :func:`key_for` takes the key from: a variable's name or a file's; ``None`` for nowhere.

    Raises:
        ConfigError: As :func:`key_for`.
    """
    return _key(provider, environment)[0]


def _key(provider: ProviderSettings, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Where a provider's key is, and the key."""
    variable, file = key_variable(provider.key_variables, environment), provider.key_file
    if variable is not None:
        refuse_without_consent(provider, variable, "key_env" if provider.key_env else None, environment)
        return variable, environment[variable].strip()
    if file is None:
        return None, None
    root = provider.root_of("key_file")
    if root is not None:
        refuse_outside(file, root, f"key_file {shown_path(file)}")
    refuse_without_consent(provider, os.path.normpath(file.absolute()), "key_file", environment)
    return shown_path(file), _secret_in(file, "key_file", None)


def token_for(caller: CallerSettings, environment: Mapping[str, str]) -> str | None:
    """A caller's token, as :func:`key_for` finds a key.

    Raises:
        ConfigError: The file is not there, or others could read it; or a project takes for a token what
            is none, and what its writer may know.
    """
    variable = key_variable(caller.token_env, environment)
    if variable is None:
        file = caller.token_file
        return None if file is None else _secret_in(file, "token_file", caller.root_of("token_file"))
    # Whether somebody set the variable to hold a token: ``PATH`` and ``GITHUB_SHA`` are long, too.
    is_for_token = is_secret_variable(variable) or "caller" in variable.lower()
    if caller.root_of("token_env") is not None and not is_for_token:
        reason = (
            "this project takes it for a caller's token, but others may know what it holds; use a variable "
            "that is named as a secret is, such as CI_CALLER_TOKEN, or name this one in your own file"
        )
        raise ConfigError(f"token_env {variable}", reason)
    return environment[variable].strip()


def known_secrets(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """Every value that is known to be a secret, the longest first.

    They are the keys of all providers and the tokens of all callers, as far as they can be found, the
    variables that ``redaction.known_env`` names, and what :mod:`cortex_replay.secret_names` finds in the
    others. A value of less than eight characters is none; nor is a word, a path or a placeholder, unless
    ``known_env`` names it. Everybody who cuts something out asks here, so that all know the same.
    """
    values = {value.strip() for value in _secret_values(settings, environment)}
    return sorted((v for v in values if len(v) >= SHORTEST_SECRET), key=lambda v: (-len(v), v))


def key_variable(names: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The first of some variables that holds a key; a dummy is none."""
    return next((name for name in names if environment.get(name, "").strip() not in ("", DUMMY_KEY)), None)


def _secret_values(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    named: set[str] = set()
    holders = [
        *((one, one.key_variables, "key_file", one.key_file) for one in settings.providers.values()),
        *((one, one.token_env, "token_file", one.token_file) for one in settings.callers.values()),
    ]
    for one, variables, setting, file in holders:
        named.update(variables)
        if file is not None:
            with suppress(ConfigError):  # whoever uses the provider or starts a server will be told
                yield _secret_in(file, setting, one.root_of(setting))
    for name, value in environment.items():
        if name in settings.redaction.known_env or (name in named and not is_plain(value.strip())):
            yield value
        yield from secrets_in(name, value)


def _secret_in(path: Path, setting: str, root: Path | None) -> str:
    where = f"{setting} {shown_path(path)}"
    if root is not None:
        refuse_outside(path, root, where)
    try:
        facts, data = read_at_most(path, _MAX_BYTES, getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        reason = "is a symbolic link; name the file itself" if path.is_symlink() else error.strerror
        raise ConfigError(where, f"cannot be read: {reason}") from None
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(where, "is not a regular file")
    if hasattr(os, "geteuid"):  # Windows says nothing about owners here
        if facts.st_uid != os.geteuid():
            raise ConfigError(where, "belongs to another user; make a copy of your own with mode 0600")
        if facts.st_mode & 0o077:
            mode, fix = stat.S_IMODE(facts.st_mode), f"chmod 600 {shlex.quote(shown_path(path))}"
            raise ConfigError(where, f"others can read it (mode {mode:04o}); run: {fix}")
    try:
        key = data.decode().strip() if len(data) <= _MAX_BYTES else ""
    except UnicodeDecodeError:
        key = ""
    if not key or len(key.split()) > 1:
        raise ConfigError(where, "does not hold a key and nothing else")
    return key


def refuse_outside(path: Path, root: Path, where: str) -> None:
    """Refuse a path of a project's file that leaves the project, by its spelling or by a link on its way.

    Raises:
        ConfigError: It does.
    """
    parts = Path(os.path.relpath(path, root)).parts
    if ".." in path.parts or not parts or parts[0] == ".." or Path(*parts).is_absolute():
        reason = (
            "is outside of this project, whose configuration names it; only your own may do that "
            "(config.toml in ~/.config/cortex-replay, see docs/configuration.md)"
        )
        raise ConfigError(where, reason)
    step = root
    for part in parts:
        step /= part
        if step.is_symlink():
            raise ConfigError(where, f"leads through a symbolic link, {shown_path(step)}")
