"""Run the steps of a client and tell what came of each, as a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Outcome", "Step", "run"]

Outcome = dict[str, Any]
Step = Callable[[], Outcome]


def run(apis: Mapping[str, Mapping[str, Step]]) -> None:
    """Run ``API.STEP`` for each; arguments, each an API or a step of one, choose some of them."""
    chosen = sys.argv[1:]
    for api, steps in apis.items():
        for name, step in steps.items():
            if not chosen or api in chosen or f"{api}.{name}" in chosen:
                sys.stdout.write(json.dumps({"step": f"{api}.{name}", **step()}) + "\n")
                sys.stdout.flush()
