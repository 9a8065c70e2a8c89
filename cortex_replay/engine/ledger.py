"""What happened in a run: for the report at its end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from cortex_replay.engine.mcp.counts import CallKind, ServerCounts, merge_counts, read_counts
from cortex_replay.engine.money import PriceList
from cortex_replay.engine.tokens import (
    Tally,
    Tokens,
    cache_rows,
    counts_of,
    merge_tallies,
    read_tally,
    sum_of,
    token_facts,
)
from cortex_replay.errors import InvalidRequest
from cortex_replay.redact.process import teach
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import FixtureKey, Store, StoredFixture
from cortex_replay.types import TokenUsage

if TYPE_CHECKING:
    from cortex_replay.store.tool_calls import StoredCall

__all__ = ["Ledger", "LedgerPart", "Miss", "ScopedKey", "shorten"]

ScopedKey = tuple[str, str, str]
"""A model, a prompt hash and a scope."""
_SCOPED_NAMES: Final = ("model", "prompt_hash", "scope")
_MOST_REASONS: Final = 50
_MOST_LISTED: Final = 1000
"""Further ones are only counted: anybody can cause as many as he likes."""
_MOST_COUNTED: Final = 10**12
_OTHERS: Final = "(others)"
_LONGEST_TEXT: Final = 16 * 1024
_LONGEST_END: Final = 4 * 1024
"""Of what is kept of a text that is too long; what to do stands at the end of an explanation."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A call that nothing was recorded for."""

    what: str
    """The model and the start of the hash, or the method and path."""
    explanation: str
    is_probe: bool = False
    """Whether a program can do without the answer, as without the list of models: no run fails for it."""


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """What another process of a run has answered from the store, as it reports it."""

    hits: int
    saved: Tally
    misses: Sequence[Miss]
    used: frozenset[FixtureKey]
    used_scoped: frozenset[ScopedKey]
    used_exchanges: frozenset[str]
    bypassed: Mapping[str, int]
    servers: Mapping[str, ServerCounts] = field(default_factory=dict)

    @classmethod
    def parse(cls, document: object) -> LedgerPart:
        """Read what a process sent.

        Raises:
            InvalidRequest: It is not such a part.
        """
        match document:
            case {
                "hits": int(hits),
                "saved": saved,
                "misses": [*misses],
                "used": [*used],
                "used_exchanges": [*exchanges],
                "bypassed": {**bypassed},
                **rest,
            } if 0 <= hits <= _MOST_COUNTED:
                hosts = {str(host): int(count) for host, count in bypassed.items() if isinstance(count, int)}
                return cls(
                    hits,
                    read_tally(saved),
                    [_miss_in(miss) for miss in misses[:_MOST_LISTED]],
                    frozenset(
                        FixtureKey(*_texts(key, *_SCOPED_NAMES[:2])) for key in used if not _scope_in(key)
                    ),
                    frozenset(_scoped_key(key) for key in used if _scope_in(key)),
                    frozenset(str(key) for key in exchanges),
                    {host: count for host, count in hosts.items() if 0 < count <= _MOST_COUNTED},
                    read_counts(rest.get("servers")),
                )
        raise InvalidRequest("ledger", "is not what a process reports of its calls")


def _miss_in(value: object) -> Miss:
    what, explanation = _texts(value, "what", "explanation")
    return Miss(what, explanation, isinstance(value, dict) and value.get("is_probe") is True)


def _scope_in(key: object) -> bool:
    return isinstance(key, dict) and bool(key.get("scope"))


def _scoped_key(value: object) -> ScopedKey:
    model, prompt_hash, scope = _texts(value, *_SCOPED_NAMES)
    return model, prompt_hash, scope


def _texts(value: object, *names: str) -> list[str]:
    given = [value.get(name) for name in names] if isinstance(value, dict) else []
    texts = [text for text in given if isinstance(text, str)]
    if len(texts) != len(names):
        raise InvalidRequest("ledger", f"expected the texts {' and '.join(names)}")
    return texts


def shorten(text: str) -> str:
    """A text without its middle where it is too long to be kept: a model's name may have 30 MB."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT - _LONGEST_END]} … {text[-_LONGEST_END:]}"


_ANOTHER_MISS: Final = Miss("(not listed)", "cortex-replay: there were too many misses to list")


def _count(tally: Tally, model: str, usage: TokenUsage | None) -> None:
    if model not in tally:
        tally[model] = Tokens()
    tally[model].add(usage)


@dataclass
class Ledger:
    """Counts, safe for many threads. Its texts are redacted when they come, and again whenever a key is
    learned: a provider may have repeated it before."""

    redactor_for: InitVar[Callable[[], Redactor]]
    prices: PriceList = field(default_factory=PriceList)
    hits: int = 0
    recorded: int = 0
    live: int = 0
    """Calls that reached an upstream."""
    repeated: int = 0
    """Calls of a recording run that asked something again, and got its first answer."""
    unsent: int = 0
    """Calls that were refused before anything was sent."""
    failed: int = 0
    """Of these, those that brought no good answer."""
    declined: int = 0
    """Calls of tools that a policy refuses."""
    misses: list[Miss] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Why, of some of them that were not recorded."""
    recorded_failures: list[str] = field(default_factory=list)
    """The same of those that were recorded as answers."""
    refused: list[str] = field(default_factory=list)
    """Good answers that were not recorded, and why."""
    broken: list[str] = field(default_factory=list)
    """Recordings that were asked for and are not what the index vouches for."""
    bypassed: Counter[str] = field(default_factory=Counter)
    """Hosts that somebody wanted to reach around the gateway."""
    paid: Tally = field(default_factory=dict)
    """What live calls took."""
    saved: Tally = field(default_factory=dict)
    """What replayed calls would have taken."""
    used_keys: set[FixtureKey] = field(default_factory=set)
    used_scoped: set[ScopedKey] = field(default_factory=set)
    """Of what scopes have of their own, or have from now on."""
    used_exchanges: set[str] = field(default_factory=set)
    servers: dict[str, ServerCounts] = field(default_factory=dict)
    """What MCP servers were asked; the counts above have it, too."""
    remarks: Counter[str] = field(default_factory=Counter)
    """What the user should know of MCP servers, and how often it came up."""

    def __post_init__(self, redactor_for: Callable[[], Redactor]) -> None:
        self._lock = threading.Lock()
        self._redactor_for = redactor_for

    @cached_property
    def redactor(self) -> Redactor:
        """What texts are redacted by; made for the first of them, since most runs have none."""
        redactor = self._redactor_for()
        redactor.on_learn(self._redact_again)
        return redactor

    def _clean(self, text: str) -> str:
        return shorten(self.redactor.text(text)[0])

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Have the lock, and a redactor that knows what the process knows; it learns before, since whoever
        learns redacts again."""
        teach(self.redactor)
        with self._lock:
            yield

    def _note(self, reason: str, reasons: list[str]) -> None:
        with self._noting():
            reasons.append(self._clean(reason) if len(reasons) < _MOST_LISTED else _OTHERS)

    def _use(self, key: FixtureKey | str, owner: str, *, is_shared: bool) -> None:
        if isinstance(key, str):
            self.used_exchanges.add(key)
            return
        if is_shared:
            self.used_keys.add(key)
        if owner:
            self.used_scoped.add((*key, owner))

    def _redact_again(self) -> None:
        with self._lock:
            for texts in (self.failures, self.recorded_failures, self.refused, self.broken):
                texts[:] = map(self._clean, texts)
            self.misses[:] = [
                replace(miss, what=self._clean(miss.what), explanation=self._clean(miss.explanation))
                for miss in self.misses
            ]
            self.bypassed = Counter({self._clean(host): count for host, count in self.bypassed.items()})
            self.remarks = Counter({self._clean(text): count for text, count in self.remarks.items()})

    @property
    def calls(self) -> int:
        """All calls that came."""
        answered = self.hits + self.live + self.unsent + self.declined
        return answered + len(self.misses) + len(self.broken)

    @property
    def prompt_tokens(self) -> int:
        """Of live calls."""
        return sum_of(self.paid).prompt

    @property
    def completion_tokens(self) -> int:
        """Of live calls."""
        return sum_of(self.paid).completion

    @property
    def cached_tokens(self) -> int:
        """The part of what live calls sent that their providers read from a cache."""
        return sum_of(self.paid).cached

    @property
    def replayed_tokens(self) -> int:
        """Those that replaying saved."""
        return sum_of(self.saved).total

    def hit(
        self,
        key: FixtureKey | str,
        usage: TokenUsage | None = None,
        owner: str = "",
        *,
        is_shared: bool = True,
    ) -> None:
        """Something was answered from the store; an exchange and a failure cost nothing.

        Args:
            key: What it stands under.
            usage: What it would have cost.
            owner: The scope that asked.
            is_shared: Whether it is what all scopes get that have nothing of their own.
        """
        with self._lock:
            self.hits += 1
            self._use(key, owner, is_shared=is_shared)
            if isinstance(key, FixtureKey):
                _count(self.saved, key.model, usage)

    def repeat(self) -> None:
        """A question came again, and gets its first answer; it is a hit, too."""
        with self._lock:
            self.repeated += 1

    def miss(self, what: str, explanation: str, *, is_probe: bool = False) -> None:
        with self._noting():
            is_listed = len(self.misses) < _MOST_LISTED
            listed = Miss(self._clean(what), self._clean(explanation), is_probe) if is_listed else None
            self.misses.append(listed or replace(_ANOTHER_MISS, is_probe=is_probe))

    @property
    def missing_answers(self) -> list[Miss]:
        """The misses of calls whose answer was needed."""
        return [miss for miss in self.misses if not miss.is_probe]

    def decline(self) -> None:
        """A call got nothing but the word that it is refused."""
        with self._lock:
            self.declined += 1

    def ask(self) -> None:
        """An upstream is asked."""
        with self._lock:
            self.live += 1

    def fail(self, reason: str = "", *, is_recorded: bool = False, is_sent: bool = True) -> None:
        """A live call brought no good answer; or none at all, since it could not be sent."""
        reasons = self.recorded_failures if is_recorded else self.failures
        with self._noting():
            if is_sent:
                self.failed += 1
            else:
                self.live -= 1
                self.unsent += 1
            if reason and len(reasons) < _MOST_REASONS:
                reasons.append(self._clean(reason))

    def damage(self, reason: str) -> None:
        self._note(reason, self.broken)

    def keep(
        self, key: FixtureKey | str, usage: TokenUsage | None = None, model: str = "", owner: str = ""
    ) -> None:
        """Something was recorded, or passed through in mode ``live``."""
        with self._lock:
            self.recorded += 1
            self._use(key, owner, is_shared=True)
        self.spend(usage, model)

    def spend(self, usage: TokenUsage | None, model: str) -> None:
        """Tokens that somebody pays for."""
        if model:
            with self._lock:
                _count(self.paid, model, usage)

    def refuse(self, reason: str) -> None:
        self._note(reason, self.refused)

    def bypass(self, host: str, count: int = 1) -> None:
        with self._noting():
            host = self._clean(host)
            is_listed = host in self.bypassed or len(self.bypassed) < _MOST_LISTED
            self.bypassed[host if is_listed else _OTHERS] += count

    def count_call(self, server: str, kind: CallKind) -> None:
        """What came of a call to an MCP server, besides being counted as any call is."""
        with self._lock:
            if server not in self.servers and len(self.servers) >= _MOST_LISTED:
                server = _OTHERS
            counted = self.servers.setdefault(server, ServerCounts())
            setattr(counted, kind, getattr(counted, kind) + 1)

    def use(self, key: str) -> None:
        """A recording was played that is no answer to a call."""
        with self._lock:
            self.used_exchanges.add(key)

    def remark(self, text: str) -> None:
        """Say something of an MCP server in the summary: that it printed what is no message, that its tools
        have changed. Equal texts are counted."""
        with self._noting():
            text = self._clean(text)
            is_listed = text in self.remarks or len(self.remarks) < _MOST_LISTED
            self.remarks[text if is_listed else _OTHERS] += 1

    def merge(self, part: LedgerPart) -> None:
        """Add what another process of this run has answered."""
        with self._lock:
            self.hits += part.hits
            self.saved = merge_tallies([self.saved, part.saved])
            self.used_keys |= part.used
            self.used_scoped |= part.used_scoped
            self.used_exchanges |= part.used_exchanges
            self.servers = merge_counts([self.servers, part.servers])
        for miss in part.misses:
            self.miss(miss.what, miss.explanation, is_probe=miss.is_probe)
        for host, count in part.bypassed.items():
            self.bypass(host, count)

    def unused(self, store: Store) -> list[StoredFixture]:
        """The fixtures that no call of this run has used, in order."""
        with self._lock:
            return [item for item in store.list(scoped=True) if not self._has_used(item)]

    def unused_calls(self, store: Store) -> list[StoredCall]:
        """The recorded calls to MCP servers that no call of this run has used, in order."""
        with self._lock:
            used = frozenset(self.used_exchanges)
        from cortex_replay.history.mcp_calls import stored_mcp_calls  # noqa: PLC0415 - for summaries alone

        return stored_mcp_calls(store, without=used)

    def _has_used(self, item: StoredFixture) -> bool:
        key = FixtureKey(item.model, item.prompt_hash)
        return (*key, item.scope) in self.used_scoped if item.scope else key in self.used_keys

    def money(self) -> dict[str, Any] | None:
        """What was paid and saved, for a program; ``None`` without prices."""
        return self.prices.to_dict(self.paid, self.saved) or None

    def cost_rows(self) -> dict[str, str]:
        """What came from a cache, and what was paid and saved, by name; of money nothing without prices."""
        return cache_rows(self.paid, self.saved) | self.prices.rows(self.paid, self.saved)

    def token_facts(self) -> list[str]:
        """What was paid and saved in tokens, for a line of text."""
        return list(token_facts(self.paid, self.saved))

    def money_facts(self) -> list[str]:
        """What was paid and saved in money, for a line of text; nothing without prices."""
        return self.prices.facts(self.paid, self.saved)

    def cost_facts(self) -> list[str]:
        """What came from a cache, and :meth:`money_facts`, for a line that counts tokens otherwise."""
        from_cache = cache_rows(self.paid, self.saved)
        return [*(f"{name}: {share}" for name, share in from_cache.items()), *self.money_facts()]

    def to_dict(self, store: Store) -> dict[str, Any]:
        """For a program; ``prune --unused-from`` is one."""
        document: dict[str, Any] = {
            "hits": self.hits,
            "misses": [asdict(miss) for miss in self.misses[:_MOST_LISTED]],
            "missed": len(self.misses),
            "recorded": self.recorded,
            "live": self.live,
            "repeated": self.repeated,
            "unsent": self.unsent,
            "failed": self.failed,
            "declined": self.declined,
            "failures": list(self.failures),
            "recorded_failures": list(self.recorded_failures),
            "not_recorded": self.refused[:_MOST_LISTED],
            "broken": self.broken[:_MOST_LISTED],
            "used": [
                *(key._asdict() for key in sorted(self.used_keys)),
                *(
                    dict(zip(_SCOPED_NAMES, key, strict=True))
                    for key in sorted(self.used_scoped)
                    if store.has_own(*key)
                ),
            ],
            "unused": [item._asdict() for item in self.unused(store)],
            "bypassed": dict(self.bypassed),
            "servers": {server: asdict(counted) for server, counted in sorted(self.servers.items())},
            "used_exchanges": sorted(self.used_exchanges),
            "unused_calls": [call._asdict() for call in self.unused_calls(store)],
            "remarks": dict(self.remarks),
            "tokens": counts_of(self.paid, self.saved),
        }
        if money := self.money():
            document["money"] = money
        # Models and paths stand in it, too.
        clean, _ = self.redactor.json(document)
        return clean if isinstance(clean, dict) else {}
