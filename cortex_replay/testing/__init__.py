"""Adapters without a model, for tests of code that asks one. `docs/testing.md` is the guide.

They need no key, no network and no recording, and plug in wherever an
:class:`~cortex_replay.adapters.base.LlmAdapter` does.
"""

from cortex_replay.testing.echo import EchoAdapter
from cortex_replay.testing.rules import Reply, Rule, When
from cortex_replay.testing.script import default_rules
from cortex_replay.testing.scripted import ScriptedAdapter

__all__ = ["EchoAdapter", "Reply", "Rule", "ScriptedAdapter", "When", "default_rules"]
