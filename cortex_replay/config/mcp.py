"""The settings of one MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal, get_args

from cortex_replay.config import checks
from cortex_replay.config.checks import Check
from cortex_replay.errors import InvalidRequest
from cortex_replay.validation import keep, kind_of

__all__ = ["MCP_CHECKS", "McpSettings", "Policy", "server_key"]

Policy = Literal["replay", "live", "refuse"]
"""What becomes of a call: it is recorded and replayed, goes to the real server in every mode, or to none."""

_LONGEST_NAME: Final = 128
_policy: Final = checks.choice_of(get_args(Policy))


def server_key(value: object, where: str) -> str:
    """The name of a server, as a client's configuration has it."""
    given = checks.word(value, where)
    checks.refuse_more(given, _LONGEST_NAME, where, "characters")
    return given


def _tools(value: object, where: str) -> dict[str, Policy]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(where, f'expected a table such as {{ "read_*" = "live" }}, not {kind_of(value)}')
    checks.refuse_more(value, checks.MAX_ENTRIES, where)
    tools: dict[str, Policy] = {}
    for name, given in value.items():
        tools[server_key(name, where)] = _policy(given, f"{where}.{checks.shown_name(str(name))}")
    return tools


MCP_CHECKS: Final[Mapping[str, Check]] = {"policy": checks.optional(_policy), "tools": _tools}


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """What becomes of the calls to one server; `docs/configuration.md` is the guide."""

    policy: Policy | None = None
    """Of everything that is asked of the server; ``None`` is ``replay``."""
    tools: Mapping[str, Policy] = field(default_factory=dict)
    """Of its tools, by patterns of their names; the first that fits counts, before ``policy``."""

    def __post_init__(self) -> None:
        for name, check in MCP_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))

    def policy_of(self, tool: str | None) -> Policy:
        """What becomes of a call.

        Args:
            tool: The name of the tool; ``None`` for whatever else is asked of the server.
        """
        if tool is not None:
            for pattern, given in self.tools.items():
                if fnmatchcase(tool, pattern):
                    return given
        return self.policy or "replay"

    def over(self, own: McpSettings) -> McpSettings:
        """This, as a project says it, with what the user's own file says: what that refuses stays refused."""
        refused = {name: given for name, given in own.tools.items() if given == "refuse"}
        policy = "refuse" if own.policy == "refuse" else self.policy or own.policy
        tools = {} if own.policy == "refuse" else {**refused, **_without(self.tools, refused)}
        return McpSettings(policy=policy, tools={**tools, **_without(own.tools, tools)})


def _without(tools: Mapping[str, Policy], names: Mapping[str, Policy]) -> dict[str, Policy]:
    return {name: given for name, given in tools.items() if name not in names}
