"""The prompt IR: runs of messages by role, from which every provider's order is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.arrange import arrange, mark_turns, turns_by_name
from cortex_replay.prompt.blocks import PromptBlock, block_values, flatten_blocks, with_markers
from cortex_replay.prompt.message import PromptMessage
from cortex_replay.prompt.plan import plan_from_dict, plan_to_dict
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.segments import Continuation, Segment, SegmentRole
from cortex_replay.prompt.wire_prompt import ANTHROPIC, RESPONSES, WirePrompt
from cortex_replay.redact.logs import logger_of
from cortex_replay.types import LlmRequest, LlmRole, PromptCachePlan

__all__ = ["PromptIR"]

logger = logger_of(__name__)

_WHITE_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""Unicode's White_Space. Python's own ``strip`` also takes U+001C to U+001F, which are none."""

_RESPONSES_OPTIONS: Final = (
    "include",
    "input_messages",
    "instructions",
    "previous_response_id",
    "reasoning_summary",
    "store",
    "text_verbosity",
    "truncation",
)


def _no_plan() -> PromptCachePlan:
    return PromptCachePlan()


@dataclass(frozen=True, slots=True)
class PromptIR:
    """A prompt before any provider's order. At most one segment has each role, in any order."""

    system_text: str = ""
    system_blocks: tuple[PromptBlock, ...] = ()
    """The same text in blocks, for a wire that has them."""
    segments: tuple[Segment, ...] = ()
    cache: PromptCachePlan = field(default_factory=_no_plan)
    """Where the cache may end. It is the only plan: a request made from this carries it."""
    continuation: Continuation | None = None

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            system_text: str = "",
            system_blocks: Sequence[PromptBlock | Mapping[str, Any]] = (),
            segments: Sequence[Segment | Mapping[str, Any]] = (),
            cache: PromptCachePlan | Mapping[str, Any] | None = None,
            continuation: Continuation | Mapping[str, Any] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "system_text", check.text(self.system_text, "system_text"))
        check.keep(self, "system_blocks", block_values(self.system_blocks, "system_blocks"))
        check.keep(self, "segments", check.values(Segment, self.segments, "segments"))
        plan: object = self.cache
        check.keep(self, "cache", plan if isinstance(plan, PromptCachePlan) else plan_from_dict(plan or {}))
        if self.continuation is not None:
            going_on = check.value_of(Continuation, self.continuation, "continuation")
            check.keep(self, "continuation", going_on)
        seen: set[SegmentRole] = set()
        for i, segment in enumerate(self.segments):
            if segment.role in seen:
                reason = f"there is a {segment.role} already; put the messages of both into one segment"
                raise InvalidRequest(f"segments[{i}].role", reason)
            seen.add(segment.role)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """An IR from its plain form.

        Raises:
            InvalidRequest: A field is unknown or of the wrong kind, or a role has two segments.
        """
        if not isinstance(data, Mapping):
            raise InvalidRequest("ir", f"expected an object, not {check.kind_of(data)}")
        return check.from_mapping(cls, data)

    def to_dict(self) -> dict[str, JsonValue]:
        """The IR in plain form."""
        return {
            "system_text": self.system_text,
            "system_blocks": [block.to_dict() for block in self.system_blocks],
            "segments": [segment.to_dict() for segment in self.segments],
            "cache": plan_to_dict(self.cache),
            "continuation": None if self.continuation is None else self.continuation.to_dict(),
        }

    def run(self, role: SegmentRole) -> list[PromptMessage]:
        """The messages with a role."""
        return [message for segment in self.segments if segment.role is role for message in segment.messages]

    def system_field(self) -> str:
        """The system text, or else the blocks that are not blank. A blank text is a text."""
        return self.system_text or flatten_blocks(self.nonblank_blocks())

    def body_chat(self) -> list[PromptMessage]:
        """The messages in the order of a whole conversation: what changes least comes first.

        The remainder stands between what was known before the conversation and the conversation
        itself. A delta has it elsewhere, so each of the two is a list of its own.
        """
        return [
            *self.run(SegmentRole.STABLE_PREFIX),
            *self.run(SegmentRole.DYNAMIC_CONTEXT),
            *self.run(SegmentRole.SYSTEM_REMAINDER),
            *self.run(SegmentRole.CONVERSATION),
            *self.run(SegmentRole.VOLATILE_TAIL),
        ]

    def flatten(self) -> list[PromptMessage]:
        """The whole conversation, with the system text as its first message."""
        text = self.system_field().strip(_WHITE_SPACE)
        return [PromptMessage(LlmRole.SYSTEM, text)] * bool(text) + self.body_chat()

    def responses_input(self) -> list[PromptMessage]:
        """What the Responses API reads when it starts anew: its system text is a field of its own."""
        return self.body_chat()

    def continuation_delta(self) -> list[PromptMessage]:
        """What a provider that keeps the conversation has not seen yet.

        It has the stable prefix. The remainder comes first, because it speaks about everything
        that the provider holds, and whatever follows must be read in its light.
        """
        return [
            *self.run(SegmentRole.SYSTEM_REMAINDER),
            *self.run(SegmentRole.DYNAMIC_CONTEXT),
            *self._unseen_messages(),
            *self.run(SegmentRole.VOLATILE_TAIL),
        ]

    def responses_request_options(self, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The options of a Responses call: ``base`` with this prompt in it.

        Every option is there, ``None`` where nobody set it. Instructions of ``base`` do not survive;
        its ``previous_response_id`` does, unless there is one here.
        """
        options: dict[str, Any] = dict.fromkeys(_RESPONSES_OPTIONS)
        options.update(base or {})
        options["input_messages"] = self.responses_input()
        options["instructions"] = self.system_field().strip(_WHITE_SPACE) or None
        if self.continuation is not None and self.continuation.previous_response_id is not None:
            options["previous_response_id"] = self.continuation.previous_response_id
        return options

    def for_wire(self, wire: str, *, model: str = "", has_tools: bool = False) -> WirePrompt:
        """The prompt in the order of a wire, with the markers of its plan where the wire has them.

        Only the Responses API keeps a conversation; every other wire is sent all of it, whatever the
        continuation says. That one is sent the delta alone. It puts the messages of a call behind those of
        the response that the call names: a whole conversation would stand there twice, for the model to read
        and for you to pay. The system text is sent each time, because a response does not hand on its
        instructions. :attr:`WirePrompt.note` says what was left out.

        Args:
            wire: One of the wires' names.
            model: What is asked; the oldest models take no markers.
            has_tools: Whether the request has tools.
        """
        previous = None if self.continuation is None else self.continuation.previous_response_id
        if wire != RESPONSES or previous is None:
            turns, extra, note = self.body_chat(), None, ""
        else:
            turns, extra = self.continuation_delta(), {"previous_response_id": previous}
            note = self._delta_note(previous)
        policy, tail = CachePolicy.of_ttl(self.cache.ttl), CachePolicy.of_tail(self.cache)
        behind_system = policy if self.cache.cache_system else CachePolicy.NONE
        messages = [turn.to_llm_messages() for turn in turns]
        marked = turns_by_name(messages, self.cache.breakpoint_message_ids)
        still_grows = len(self.run(SegmentRole.CONVERSATION)) + len(self.run(SegmentRole.VOLATILE_TAIL))
        settled = len(turns) - still_grows
        blocks = self.nonblank_blocks() if wire == ANTHROPIC else []
        return arrange(
            wire,
            with_markers(blocks, behind_system)
            or [(PromptBlock("system text", self.sent_text()), behind_system)],
            mark_turns(messages, {i: policy if i < settled else tail for i in marked}),
            tools=policy if self.cache.cache_tools and has_tools else CachePolicy.NONE,
            model=model,
            extra=extra,
            is_one_block=not blocks,
            note=note,
        )

    def to_request(self, *, wire: str, model: str, **fields: Any) -> LlmRequest:
        """The request that asks this on a wire; see :meth:`for_wire`.

        Raises:
            InvalidRequest: A field is wrong, or the wire is unknown.
        """
        unknown = set(self.cache.breakpoint_message_ids) - {message.id for message in self.body_chat()}
        if unknown and wire == ANTHROPIC:
            logger.warning("no message is where a cache breakpoint is wanted: %s", ", ".join(sorted(unknown)))
        prompt = self.for_wire(wire, model=model, has_tools=bool(fields.get("tools")))
        return prompt.to_request(model, **fields)

    def nonblank_blocks(self) -> list[PromptBlock]:
        """The blocks that are not blank, which is all that a wire is sent of them."""
        return [block for block in self.system_blocks if block.text.strip(_WHITE_SPACE)]

    def sent_text(self) -> str:
        """What a wire without blocks is sent. Here a blank text does not hide the blocks."""
        is_blank = not self.system_text.strip(_WHITE_SPACE)
        text = flatten_blocks(self.nonblank_blocks()) if is_blank else self.system_text
        return text.strip(_WHITE_SPACE)

    def _delta_note(self, response: str) -> str:
        boundary = None if self.continuation is None else self.continuation.last_committed_assistant_id
        conversation = self.run(SegmentRole.CONVERSATION)
        if len(self._unseen_messages()) < len(conversation):
            what = f"it has the conversation up to {boundary!r} from {response}"
            return f"The provider is sent what it has not seen: the stable prefix is left out, and {what}."
        if boundary is None:
            why = f"no `last_committed_assistant_id` says where {response} ended"
        elif any(message.id == boundary for message in conversation):
            why = f"nothing follows {boundary!r}"
        else:
            why = f"no message is called {boundary!r}"
        has_prefix = f"The stable prefix is left out, because the provider has it from {response}"
        return f"{has_prefix}. The conversation is sent whole: {why}."

    def _unseen_messages(self) -> list[PromptMessage]:
        """What follows the last message that the provider has; all of it if that cannot be told.

        A provider that reads a message twice answers all the same. One that misses a message
        answers something else, so every doubt ends with sending more.
        """
        conversation = self.run(SegmentRole.CONVERSATION)
        boundary = None if self.continuation is None else self.continuation.last_committed_assistant_id
        if boundary is None:
            return conversation
        ends = [i for i, message in enumerate(conversation) if message.id == boundary]
        return conversation[ends[-1] + 1 :] or conversation if ends else conversation
