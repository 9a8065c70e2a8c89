"""What a command finds in its environment, so that its SDKs come to the gateway and hold no key.

Whatever looks like a secret is withheld, by its name or by its value; the keys that SDKs ask for are dummies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from cortex_replay.config import Settings
from cortex_replay.engine.http.relay import GATEWAY_VARIABLE
from cortex_replay.providers import DUMMY_KEY, PROVIDERS, upstream_name
from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names.values import has_secret

__all__ = ["command_environment", "variables_to_withhold"]

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK: Final = "127.0.0.1,localhost,::1"


def variables_to_withhold(environment: Mapping[str, str], passed: Collection[str] = ()) -> list[str]:
    """The names of the variables that a command is not to have, in order.

    Args:
        environment: Our own.
        passed: Those that the user hands over by name.
    """
    redactor = Redactor()
    return sorted(
        name
        for name, value in environment.items()
        if name not in passed
        and value != DUMMY_KEY
        and (has_secret(name, value) or redactor.found_in(value.replace("\\n", "\n")))
    )


def command_environment(
    environment: Mapping[str, str],
    settings: Settings,
    url: Callable[[str], str],
    proxy: str | None = None,
    *,
    withheld: Collection[str] = (),
    passed: Collection[str] = (),
) -> dict[str, str]:
    """The environment of a command that runs behind a gateway.

    Args:
        environment: Our own.
        settings: For the variables that hold keys of configured providers.
        url: The base URL of each upstream.
        proxy: The proxy for everything else; ``None`` to leave proxies as they are.
        withheld: The variables to leave out, as :func:`variables_to_withhold` names them.
        passed: Those that the user hands over by name, keys of SDKs too.
    """
    made = {name: value for name, value in environment.items() if name not in withheld}
    for provider in settings.providers.values():
        made |= dict.fromkeys(provider.key_variables, DUMMY_KEY)
    for name in (name for row in PROVIDERS.values() for name in row.withheld_variables):
        made.pop(name, None)
    rows = {upstream_name(name): row for name, row in PROVIDERS.items() if row.is_wanted(environment)}
    made |= {name: DUMMY_KEY for row in rows.values() for name in row.sdk_key_variables}
    made |= {name: environment[name] for name in passed if name in environment}
    for upstream, row in rows.items():
        made |= {name: url(upstream) + behind for name, behind in row.url_variables.items()}
    made[GATEWAY_VARIABLE] = url("")
    made["CORTEX_REPLAY_CONTROL"] = url("-")
    if proxy is not None:
        for name in _PROXIES:
            made[name] = made[name.lower()] = proxy
        made["NO_PROXY"] = made["no_proxy"] = _LOOPBACK
        made["NODE_USE_ENV_PROXY"] = "1"
    else:
        for name in ("NO_PROXY", "no_proxy"):
            made[name] = ",".join(filter(None, [environment.get(name, ""), _LOOPBACK]))
    return made
