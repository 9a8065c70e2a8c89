"""A prompt as an agent renders it: stable text, knowledge, history, and the state of the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.prompt.arrange import arrange, mark_turns, turns_by_name
from cortex_replay.prompt.blocks import PromptBlock, flatten_blocks
from cortex_replay.prompt.message import PromptMessage
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.wire_prompt import ANTHROPIC, WirePrompt
from cortex_replay.types import LlmRequest, LlmRole, PromptCachePlan

__all__ = ["PrefixFingerprint", "RenderedContext"]


@dataclass(frozen=True, slots=True)
class PrefixFingerprint:
    """What of a context a provider can have cached: three kinds of BLAKE3, as hex."""

    system_stable_hash: str
    system_knowledge_hash: str
    turn_hashes: tuple[str, ...]

    def extends(self, previous: PrefixFingerprint) -> bool:
        """Whether the context only grew: equal system parts, and the previous turns at its start."""
        has_same_system = (self.system_stable_hash, self.system_knowledge_hash) == (
            previous.system_stable_hash,
            previous.system_knowledge_hash,
        )
        return has_same_system and self.common_turn_prefix(previous) == len(previous.turn_hashes)

    def common_turn_prefix(self, previous: PrefixFingerprint) -> int:
        """How many turns at the start are equal, whatever the system parts are."""
        count = 0
        for mine, theirs in zip(self.turn_hashes, previous.turn_hashes, strict=False):
            if mine != theirs:
                break
            count += 1
        return count


@dataclass(frozen=True, slots=True)
class RenderedContext:
    """A prompt whose parts change at different speeds, the slowest first."""

    system_stable: str
    system_knowledge: str
    turns: tuple[PromptMessage, ...]
    state_turn: PromptMessage | None = None
    """What is true only now: the task's state, signals. No part of the prefix."""
    frozen_prefix_len: int | None = None
    """How many turns at the start stay as they are until the history is next made shorter."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            system_stable: str,
            system_knowledge: str,
            turns: Sequence[PromptMessage | Mapping[str, Any]],
            state_turn: PromptMessage | Mapping[str, Any] | None = None,
            frozen_prefix_len: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "system_stable", check.text(self.system_stable, "system_stable"))
        check.keep(self, "system_knowledge", check.text(self.system_knowledge, "system_knowledge"))
        check.keep(self, "turns", check.values(PromptMessage, self.turns, "turns"))
        if self.state_turn is not None:
            check.keep(self, "state_turn", PromptMessage.parse(self.state_turn, "state_turn"))
        check.optional_whole_number(self.frozen_prefix_len, "frozen_prefix_len", check.MAX_U64)

    @property
    def system_text(self) -> str:
        """The two system parts as one text."""
        return flatten_blocks(self._blocks())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A context from its plain form.

        ``system_text`` is derived, so one that is given is not looked at, unless it is all that is
        given: contexts from before the two parts had only that.

        Raises:
            InvalidRequest: A field is unknown or of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise InvalidRequest("context", f"expected an object, not {check.kind_of(data)}")
        fields = dict(data)
        whole = fields.pop("system_text", "")
        if "system_stable" not in fields and "system_knowledge" not in fields:
            fields["system_stable"] = whole
        return check.from_mapping(cls, {"system_stable": "", "system_knowledge": "", "turns": (), **fields})

    def to_dict(self) -> dict[str, JsonValue]:
        """The context in plain form: what is absent is left out."""
        context: dict[str, JsonValue] = {
            "system_text": self.system_text,
            "system_stable": self.system_stable,
            "system_knowledge": self.system_knowledge,
            "turns": [_turn(turn) for turn in self.turns],
        }
        if self.state_turn is not None:
            context["state_turn"] = _turn(self.state_turn)
        if self.frozen_prefix_len is not None:
            context["frozen_prefix_len"] = self.frozen_prefix_len
        return context

    def prefix_fingerprint(self) -> PrefixFingerprint:
        """The hashes of what can be cached: the two system parts, and each turn's bytes."""
        return PrefixFingerprint(
            blake3_hex(self.system_stable.encode()),
            blake3_hex(self.system_knowledge.encode()),
            tuple(blake3_hex(turn.turn_bytes()) for turn in self.turns),
        )

    def for_wire(
        self, wire: str, *, model: str = "", has_tools: bool = False, cache: PromptCachePlan | None = None
    ) -> WirePrompt:
        """The context in the order of a wire.

        Anthropic reads the state behind the history, so that the history stays cached while the
        state changes. The others read one system text, the state, and then the history.

        Args:
            wire: One of the wires' names.
            model: What is asked; the oldest models take no markers.
            has_tools: Whether the request has tools.
            cache: Whether to cache the tools, turns to mark besides, and how long: the ``tail_ttl`` is for
                turns that are not frozen, the ``ttl`` for everything else.
        """
        plan = cache or PromptCachePlan()
        policy, tail = CachePolicy.of_ttl(plan.ttl), CachePolicy.of_tail(plan)
        history = [turn.to_llm_messages() for turn in self.turns]
        marked = self._marked_turns() | turns_by_name(history, plan.breakpoint_message_ids)
        frozen = self.frozen_prefix_len or 0
        messages = mark_turns(history, {i: policy if i < frozen else tail for i in marked})
        state = [] if self.state_turn is None else mark_turns([self.state_turn.to_llm_messages()])
        tools = policy if plan.cache_tools and has_tools else CachePolicy.NONE
        system = [(block, policy) for block in self._blocks()]
        in_order = messages + state if wire == ANTHROPIC else state + messages
        return arrange(wire, system, in_order, tools=tools, model=model)

    def to_request(
        self, *, wire: str, model: str, cache: PromptCachePlan | None = None, **fields: Any
    ) -> LlmRequest:
        """The request that asks this on a wire; see :meth:`for_wire`.

        Raises:
            InvalidRequest: A field is wrong, or the wire is unknown.
        """
        prompt = self.for_wire(wire, model=model, has_tools=bool(fields.get("tools")), cache=cache)
        return prompt.to_request(model, **fields)

    def _blocks(self) -> list[PromptBlock]:
        return [
            PromptBlock("system_stable", self.system_stable),
            PromptBlock("system_knowledge", self.system_knowledge),
        ]

    def _marked_turns(self) -> set[int]:
        """The last turn, and the last frozen one; without such, where the previous call ended."""
        if not self.turns:
            return set()
        tail = len(self.turns) - 1
        if self.frozen_prefix_len:
            return {tail, min(self.frozen_prefix_len - 1, tail)}
        first = tail
        while first > 0 and _is_one_message(self.turns[first - 1], self.turns[first]):
            first -= 1
        asked = [i for i in range(first) if self.turns[i].role is not LlmRole.ASSISTANT]
        return {tail, *asked[-1:]}


def _is_one_message(turn: PromptMessage, following: PromptMessage) -> bool:
    """Whether Anthropic's wire has both in one message: a tool's results and what follows them."""
    return turn.role is LlmRole.TOOL and following.role in (LlmRole.TOOL, LlmRole.USER)


def _turn(turn: PromptMessage) -> dict[str, JsonValue]:
    """A turn as contexts hold it: nearly none of them has a name."""
    plain = turn.to_dict()
    if turn.id is None:
        del plain["id"]
    return plain
