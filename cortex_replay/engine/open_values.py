"""Which of the values that a configuration names may be handed out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cortex_replay.bindings import BindingRules
from cortex_replay.redact.redactor import Redactor

__all__ = ["without_secrets"]


def without_secrets(
    rules: BindingRules, environment: Mapping[str, str], redactor: Callable[[], Redactor]
) -> BindingRules:
    """The rules but for variables whose value is a secret, whatever they are called.

    A command does not get such a variable, so no recording is filled with it either: a stranger may have
    written both the recording and the configuration.

    Args:
        rules: What is configured where the store is.
        environment: Where the variables are.
        redactor: What knows secrets; few rules need one.
    """
    named = {name: rule.env for name, rule in rules.values.items() if rule.env in environment}
    if not named:
        return rules
    secret = {name for name, env in named.items() if env and redactor().found_in(environment[env])}
    return replace(rules, values={name: rule for name, rule in rules.values.items() if name not in secret})
