"""The prompt cache of llama.cpp's server, and of what is built on it.

The server has slots. A slot holds what it worked on last: the prompt and what was generated, but for the
last token, which is never evaluated. A prompt goes to the slot that it shares most with, if that is more than
a tenth of it, or else to the one that was not used for longest; what it shares with the beginning of that
slot is read. At least one token is always evaluated. Newer servers also put prompts aside in the memory of
the host: when a slot is about to lose more than half of what it holds, and those of idle slots when a call
starts. A slot takes such a prompt back when it shares more with the call than the slot itself does.

The rules are those of ``tools/server/server-context.cpp`` and ``server-task.cpp``, read on 2026-11-16, and
integration tests hold them against the server. Calls are taken to come one after the other, so that every
slot is free, and each model to have a server of its own. Ollama runs such a server for each model that is
loaded, and seldom says what it read: its calls are treated like those of a server with one slot.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome, Reason
from cortex_replay.prompt.cache.simulators.prompt_tree import TextOf, count_shared

__all__ = ["LlamaCppCache", "LlamaCppServer"]


def _single(number: float) -> float:
    """A number as the server computes with it: what is exactly a tenth or a half goes by the last bit."""
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded


_SIMILAR: Final = _single(0.1)
_LOSES_MUCH: Final = 0.5
_KEEPS_ENOUGH: Final = 0.25


@dataclass(frozen=True, slots=True)
class LlamaCppServer:
    """How a server was started; as ``llama-server`` starts by itself."""

    slots: int = 4
    is_unified: bool = True
    """Whether the slots share their memory (``--kv-unified``), so that idle ones are cleared."""
    host_tokens: int = 65_536
    """How much is put aside in the memory of the host: 8 GiB are so many tokens of a model of 8 billion
    parameters. Without any (``--cache-ram 0``) it is zero."""


class LlamaCppCache:
    """The servers of one machine, one for each model."""

    def __init__(self, text_of: TextOf | None = None, server: LlamaCppServer | None = None) -> None:
        self._text_of = text_of
        self._server = server or LlamaCppServer()
        self._running: dict[str, _Running] = {}

    def ask(self, call: CacheCall) -> CacheOutcome:
        """What is read for the next call, and what is evaluated."""
        running = self._running.get(call.model)
        if running is None:
            running = self._running[call.model] = _Running(self._server, self._text_of)
        return running.ask(call)


@dataclass(frozen=True, slots=True)
class _Held:
    """A prompt with its answer, as a slot or the host holds it."""

    blocks: tuple[CacheBlock, ...] = ()
    tokens: int = 0

    @classmethod
    def of(cls, blocks: tuple[CacheBlock, ...]) -> _Held:
        return cls(blocks, sum(block.tokens for block in blocks))


@dataclass(slots=True)
class _Slot:
    held: _Held = field(default_factory=_Held)
    used: int = -1
    """Which call was its last."""


class _Shared:
    """What two prompts begin with."""

    __slots__ = ("blocks", "part", "tokens")

    def __init__(self, asked: _Held, held: _Held, text_of: TextOf | None) -> None:
        count = tokens = part = 0
        for ours, theirs in zip(asked.blocks, held.blocks, strict=False):
            if ours.digest != theirs.digest:
                if text_of is not None:
                    part = count_shared(ours, text_of(ours.digest), text_of(theirs.digest))
                break
            count += 1
            tokens += ours.tokens
        self.blocks, self.part, self.tokens = count, part, tokens + part


class _Running:
    """A server with its slots."""

    def __init__(self, server: LlamaCppServer, text_of: TextOf | None) -> None:
        self._server = server
        self._text_of = text_of
        self._slots = [_Slot() for _ in range(server.slots)]
        self._aside: list[_Held] = []
        self._calls = 0

    def ask(self, call: CacheCall) -> CacheOutcome:
        asked = _Held.of(call.blocks)
        slot = self._choose(asked)
        if self._server.host_tokens:
            self._put_idle_aside(slot)
        shared = self._shared(asked, slot.held)
        # The logits of the last token are needed for the first one of the answer.
        read = min(shared.tokens, max(asked.tokens - 1, 0))
        reasons = _reasons(call, slot.held, shared)
        self._calls += 1
        slot.held, slot.used = _Held.of(call.blocks + call.reply), self._calls
        return CacheOutcome(
            read=read, fresh=asked.tokens - read, reasons=reasons, is_estimate=bool(shared.part)
        )

    def _shared(self, asked: _Held, held: _Held) -> _Shared:
        return _Shared(asked, held, self._text_of)

    def _choose(self, asked: _Held) -> _Slot:
        """The slot that a prompt goes to, after the best prompt that was put aside is loaded into it."""
        best, most = None, 0.0
        for slot in self._slots:
            similar = _ratio(self._shared(asked, slot.held).tokens, asked.tokens)
            if slot.held.blocks and similar > most and similar > _SIMILAR:
                best, most = slot, similar
        if best is None:
            # The later one of two that were never used.
            chosen = min(reversed(self._slots), key=lambda slot: slot.used)
            loses_much = True
        else:
            chosen = best
            loses_much = _ratio(_single(most * asked.tokens), chosen.held.tokens) < _LOSES_MUCH
        if loses_much and self._server.host_tokens:
            self._put_aside(chosen.held)
            self._take_back(chosen, asked)
            self._make_room()
        return chosen

    def _put_idle_aside(self, busy: _Slot) -> None:
        for slot in self._slots:
            if slot is busy:
                continue
            self._put_aside(slot.held)
            self._make_room()
            if self._server.is_unified:
                slot.held = _Held()

    def _put_aside(self, held: _Held) -> None:
        """Put a prompt aside, unless it is the beginning of one that is there; those are dropped that it
        begins with."""
        if not held.blocks or any(_begins(other, held) for other in self._aside):
            return
        self._aside = [other for other in self._aside if not _begins(held, other)]
        self._aside.append(held)

    def _take_back(self, slot: _Slot, asked: _Held) -> None:
        shared = self._shared(asked, slot.held).tokens
        keeps = _ratio(shared, slot.held.tokens) if slot.held.blocks else -1.0
        similar = _ratio(shared, asked.tokens)
        best = None
        for other in self._aside:
            shared = self._shared(asked, other).tokens
            keeps_so, similar_so = _ratio(shared, other.tokens), _ratio(shared, asked.tokens)
            if keeps_so >= _KEEPS_ENOUGH and keeps_so > keeps and similar_so > similar:
                best, keeps, similar = other, keeps_so, similar_so
        if best is not None:
            self._aside.remove(best)
            slot.held = best

    def _make_room(self) -> None:
        """Drop what was put aside first, until the rest has room."""
        tokens = sum(held.tokens for held in self._aside)
        while self._aside and tokens > self._server.host_tokens:
            tokens -= self._aside.pop(0).tokens


def _begins(longer: _Held, shorter: _Held) -> bool:
    count = len(shorter.blocks)
    return len(longer.blocks) >= count and all(
        ours.digest == theirs.digest for ours, theirs in zip(longer.blocks, shorter.blocks, strict=False)
    )


def _ratio(part: float, whole: int) -> float:
    return _single(part / whole) if whole else 0.0


def _reasons(call: CacheCall, held: _Held, shared: _Shared) -> tuple[Reason, ...]:
    """Why a call could not read on; none where it had come to the end of what is held, or to its own."""
    if shared.blocks == len(call.blocks) or (held.blocks and shared.blocks == len(held.blocks)):
        return ()
    rest = sum(block.tokens for block in call.blocks[shared.blocks :]) - shared.part
    return (Reason("changed" if held.blocks else "first", call.blocks[shared.blocks].name, rest),)
