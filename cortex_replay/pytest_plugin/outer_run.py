"""The command that runs these tests behind its gateway, as in ``cortex-replay record -- pytest``.

Marked tests are answered here and not by the gateway. In replay the plugin tells the command what it has
answered, so that the command's summary holds all of it. Where something is recorded, the gateway has the
keys: calls are passed on to it, in the name of their test, and it alone records them.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from cortex_replay.providers import PROVIDERS, upstream_name

__all__ = ["OuterRun"]

_PATIENCE_S: Final = 10.0


class OuterRun:
    """The gateway of a command that these tests run behind.

    Args:
        environment: Which the command has made.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control = environment["CORTEX_REPLAY_CONTROL"]
        self.servers = {
            upstream_name(name): environment[row.url_variable]
            for name, row in PROVIDERS.items()
            if environment.get(row.url_variable)
        }
        """Where the gateway stands for each provider."""

    @property
    def authority(self) -> str:
        """The gateway's host and port."""
        return urlsplit(self._control).netloc

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> OuterRun | None:
        """The command around these tests, if there is one."""
        return cls(environment) if environment.get("CORTEX_REPLAY_CONTROL") else None

    def report(self, document: Mapping[str, Any]) -> str | None:
        """Tell the command what was answered here; gives the reason if it could not be told."""
        place = urlsplit(self._control)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_PATIENCE_S)
        try:
            body = json.dumps(document).encode()
            headers = {"content-type": "application/json"}
            connection.request("POST", f"{place.path}/ledger", body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()
        return None if status == 200 else f"status {status}"
