"""A prompt in the order of one wire, and the request that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.blocks import BLANK_LINE, PromptBlock, flatten_blocks
from cortex_replay.prompt.breakpoints import Breakpoint, Place, Placement
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.redact.logs import logger_of
from cortex_replay.types import CacheMark, CacheTime, LlmMessage, LlmRequest, PromptCachePlan
from cortex_replay.types.labels import LABELS_HEADER, write_labels
from cortex_replay.validation import short_repr

__all__ = ["ANTHROPIC", "ONE_BLOCK", "RESPONSES", "WIRES", "WirePrompt", "check_wire"]

logger = logger_of(__name__)

ANTHROPIC: Final = "anthropic-messages"
RESPONSES: Final = "openai-responses"
ONE_BLOCK: Final = "system text"
"""The name of the one block of a system text that has no labels."""
WIRES: Final = (ANTHROPIC, "openai-chat", RESPONSES, "ollama-chat")


def check_wire(wire: str) -> str:
    """The name of a wire that prompts are put on.

    Raises:
        InvalidRequest: There is no such wire.
    """
    if wire not in WIRES:
        raise InvalidRequest("wire", f"expected one of {', '.join(WIRES)}, not {short_repr(wire)}")
    return wire


@dataclass(frozen=True, slots=True)
class WirePrompt:
    """What one wire is to be sent, and where its markers stand."""

    wire: str
    system: tuple[PromptBlock, ...] = ()
    """The system text in its blocks, none of them empty; their labels are for people."""
    messages: tuple[LlmMessage, ...] = ()
    """Each that a breakpoint stands behind has an ``id`` that no other message has."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """At most four, in the order in which the provider reads; none on other wires than Anthropic's."""
    dropped: tuple[Breakpoint, ...] = ()
    """Those that would have been too many."""
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    """Parameters that only this wire has."""
    note: str = ""
    """What is left out because the provider has it already, and why; empty where everything is sent."""

    @property
    def is_delta(self) -> bool:
        """Whether the provider is sent only what it has not seen, to go on from an earlier response."""
        return bool(self.note)

    @property
    def system_text(self) -> str:
        """The one system text of a request. Cutting it into blocks does not change it."""
        return flatten_blocks(self.system)

    def marker(self, place: Place, index: int = 0) -> CachePolicy:
        """The marker behind one block or message, or behind the tools."""
        for breakpoint_ in self.breakpoints:
            if (breakpoint_.place, breakpoint_.index) == (place, index):
                return breakpoint_.cache
        return CachePolicy.NONE

    def system_cuts(self) -> tuple[tuple[int, CacheTime], ...]:
        """Where each block ends in :attr:`system_text`, and the marker behind it.

        It is what a plan needs to cut the text again without holding a copy of it, which would go
        past whatever is done to the text in between: a normaliser, a redaction.
        """
        cuts: list[tuple[int, CacheTime]] = []
        end = -len(BLANK_LINE)
        for i, block in enumerate(self.system):
            end += len(BLANK_LINE) + len(block.text)
            cuts.append((end, self.marker(Place.SYSTEM, i).value))
        return tuple(cuts)

    def anthropic_system(self) -> list[dict[str, JsonValue]]:
        """The ``system`` field of Anthropic's wire: a text block for each block, with its marker."""
        blocks: list[dict[str, JsonValue]] = []
        for i, block in enumerate(self.system):
            text: dict[str, JsonValue] = {"type": "text", "text": block.text}
            marker = self.marker(Place.SYSTEM, i).cache_control
            blocks.append(text if marker is None else text | {"cache_control": marker})
        return blocks

    def label_headers(self) -> dict[str, str]:
        """The labels of the blocks, for the ``extra_headers`` of an SDK: a body has no place for them.

        The gateway and the plugin note them and send them nowhere. Without these, the header goes to the
        provider like any other that it does not know.
        """
        labels = [block.label for block in self.system]
        return {LABELS_HEADER: write_labels(labels)} if any(labels) else {}

    def cache_plan(self) -> PromptCachePlan | None:
        """The breakpoints, blocks and labels as a request carries them; none where there are none."""
        is_cut = len(self.system) > 1
        labels = tuple(block.label for block in self.system)
        if labels == (ONE_BLOCK,) or not any(labels):
            labels = ()
        if not self.breakpoints and not is_cut and not labels:
            return None
        in_messages = [b for b in self.breakpoints if b.place is Place.MESSAGES]
        times = [b.cache for b in self.breakpoints]
        policy = max(times, key=list(CachePolicy).index, default=CachePolicy.NONE)
        tail = in_messages[-1].cache if in_messages else policy
        names = [self.messages[b.index].id for b in in_messages if b.cache is tail]
        others = [b for b in in_messages if b.cache is not tail]
        behind_system = self.marker(Place.SYSTEM, len(self.system) - 1)
        return PromptCachePlan(
            cache_tools=any(b.place is Place.TOOLS for b in self.breakpoints),
            cache_system=behind_system.is_cached,
            breakpoint_message_ids=tuple(name for name in names if name is not None),
            ttl="1h" if policy is CachePolicy.EPHEMERAL_1H else None,
            tail_ttl="5m" if tail is not policy else None,
            system_cuts=self.system_cuts() if is_cut or behind_system not in (policy, "none") else (),
            marks=tuple(CacheMark("message", b.index, "1h" if b.cache == "1h" else "5m") for b in others),
            labels=labels,
        )

    def to_request(self, model: str, **fields: Any) -> LlmRequest:
        """The request that this wire carries; ``fields`` are its parameters and tools.

        Raises:
            InvalidRequest: A field is wrong, or one that the prompt itself gives.
        """
        for name in ("system", "messages", "cache"):
            if name in fields:
                raise InvalidRequest(name, "comes from the prompt")
        for warning in Placement(self.breakpoints, self.dropped).warnings():
            logger.warning("%s", warning)
        extra = {**(fields.pop("extra", None) or {}), **self.extra}
        plan = self.cache_plan()
        return LlmRequest(model, self.system_text, self.messages, extra=extra, cache=plan, **fields)
