"""Run the steps of a client and tell what came of each, as a line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Outcome", "Step", "base_url", "run"]

Outcome = dict[str, Any]
Step = Callable[[], Outcome]


def run(apis: Mapping[str, Mapping[str, Step]]) -> None:
    """Run ``API.STEP`` for each; arguments, each an API or a step of one, choose some of them.

    ``CLIENT_ROUNDS`` says how often, one round after the other.
    """
    chosen = sys.argv[1:]
    for _ in range(int(os.environ.get("CLIENT_ROUNDS", "1"))):
        for api, steps in apis.items():
            for name, step in steps.items():
                if not chosen or api in chosen or f"{api}.{name}" in chosen:
                    sys.stdout.write(json.dumps({"step": f"{api}.{name}", **step()}) + "\n")
                    sys.stdout.flush()


def base_url(name: str, own: str) -> str:
    """Where a service is: below the gateway where the client is to come by it, else where it always is."""
    is_by_gateway = os.environ.get("CLIENT_ROAD") == "gateway"
    return f"{os.environ['CORTEX_REPLAY_GATEWAY']}/{name}" if is_by_gateway else own
