"""Documents that nobody meant: what parsers make of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from cortex_replay import FixtureIntegrityFailed, strict_json
from cortex_replay.errors import LlmError
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, parse_part
from cortex_replay.store.index.index import IndexSyntaxError, parse_index
from cortex_replay.store.journal import parse_journal
from cortex_replay.wire import WIRES
from integration.proof.doors import attack_both
from integration.proof.figures import Row, Scale, Tell
from tests.garbling import garbled
from tests.gateway.fuzzing import CRASH, REFUSED, WRONG
from tests.store.test_bitflips import FILES, FIXTURES, served, write_store
from tests.torture.plans import SCRATCH

__all__ = ["prove"]

_SEED: Final = 24


def prove(scale: Scale, tell: Tell) -> list[Row]:
    cases = scale.pick(300, 20_000, 200_000)
    stores = scale.pick(50, 2000, 20_000)
    attacks = scale.pick(100, 3000, 50_000)
    total, done = cases + stores + 2 * attacks, count(1)

    def step() -> None:
        tell(next(done), total)

    random = Random(_SEED)
    fixtures = [FILES[path] for path in FIXTURES]
    question = json.dumps({"model": "m", "messages": [{"role": "user", "content": "q"}]}).encode()
    parsers: dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...], list[bytes]]] = {
        "fixtures": (parse_fixture, (FixtureError,), fixtures),
        "exchanges": (parse_exchange, (FixtureError,), fixtures),
        "parts": (parse_part, (FixtureError,), fixtures),
        "indexes": (
            lambda data: parse_index(data.decode()),
            (IndexSyntaxError, UnicodeDecodeError),
            [FILES["INDEX.toml"]],
        ),
        "journals": (parse_journal, (), [b'{"counter": 1, "is_open": true, "added": ["x"]}']),
        "requests": (_lift, (LlmError, ValueError), [question]),
    }
    found: Counter[str] = Counter()
    for number in range(cases):
        parse, expected, seeds = parsers[list(parsers)[number % len(parsers)]]
        try:
            parse(garbled(random.choice(seeds), random))
        except expected:
            found[REFUSED] += 1
        except Exception:  # noqa: BLE001 - that is what is counted
            found[CRASH] += 1
        step()
    trusted: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        for _ in range(stores):
            trusted[_in_a_store(Path(folder), random)] += 1
            step()
    return [
        Row(
            "parsers",
            "cortex-replay",
            ", ".join(parsers),
            cases,
            {one: found[one] for one in (REFUSED, CRASH)},
        ),
        Row(
            "stores",
            "cortex-replay",
            "a file of a store, which is then opened",
            stores,
            {one: trusted[one] for one in (REFUSED, CRASH, WRONG)},
        ),
        *attack_both(attacks, step),
    ]


def _lift(data: bytes) -> object:
    body: Any = strict_json.loads(data)
    return WIRES["openai-chat"].lift(body)


def _in_a_store(root: Path, random: Random) -> str:
    path = random.choice(FIXTURES)
    index = write_store(root, [path])
    whole = served(root)
    changed = random.choice([path, "INDEX.toml"])
    data = index if changed == "INDEX.toml" else FILES[path]
    (root / changed).write_bytes(garbled(data, random))
    try:
        answers = served(root)
    except FixtureIntegrityFailed:
        return REFUSED
    except Exception:  # noqa: BLE001 - that is what is counted
        return CRASH
    finally:
        (root / path).unlink(missing_ok=True)
    # An index without its row trusts nothing; that is found as a file that is not listed.
    return REFUSED if answers is None else "" if answers == whole else WRONG
