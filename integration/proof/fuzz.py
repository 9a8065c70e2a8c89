"""Documents that nobody meant: what parsers make of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
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
from integration.proof.figures import Row, Scale, Tell
from tests.store.test_bitflips import FILES, FIXTURES, served, write_store
from tests.torture.plans import SCRATCH

__all__ = ["prove"]

_SEED: Final = 24
_WORDS: Final = (
    b'{ } [ ] " , : null true -0 1e999 1e-999 NaN \\u0000 \\ud800 \\" [[fixture]] "answers" "request"'
)
_TOKENS: Final = [
    *_WORDS.split(),
    *(b"\n", b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b'path = "../x"'),
    *(b"9" * 400, b"[" * 2000, b'{"a":' * 2000),
]
_CRASHES: Final = "crashes"
_WRONG: Final = "trusted wrongly"
_REFUSED: Final = "refused"


def prove(scale: Scale, tell: Tell) -> list[Row]:
    cases = scale.pick(300, 20_000, 200_000)
    stores = scale.pick(50, 2000, 20_000)
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
            parse(_mutated(random.choice(seeds), random))
        except expected:
            found[_REFUSED] += 1
        except Exception:  # noqa: BLE001 - that is what is counted
            found[_CRASHES] += 1
        tell(number + 1, cases + stores)
    trusted: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        for number in range(stores):
            trusted[_in_a_store(Path(folder), random)] += 1
            tell(cases + number + 1, cases + stores)
    return [
        Row(
            "parsers",
            "cortex-replay",
            ", ".join(parsers),
            cases,
            {one: found[one] for one in (_REFUSED, _CRASHES)},
        ),
        Row(
            "stores",
            "cortex-replay",
            "a file of a store, which is then opened",
            stores,
            {one: trusted[one] for one in (_REFUSED, _CRASHES, _WRONG)},
        ),
    ]


def _lift(data: bytes) -> object:
    body: Any = strict_json.loads(data)
    return WIRES["openai-chat"].lift(body)


def _mutated(data: bytes, random: Random) -> bytes:
    """Some bytes, tokens and pieces in other places."""
    for _ in range(random.randint(1, 4)):
        start, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
        match random.randrange(5):
            case 0:
                data = data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]
            case 1:
                data = data[:start] + random.choice(_TOKENS) + data[start:]
            case 2:
                data = data[:start] + data[end:]
            case 3:
                data = data[:end] + data[start:end] + data[end:]
            case _:
                data = data[:start] + random.choice(_TOKENS) + data[end:]
    return data


def _in_a_store(root: Path, random: Random) -> str:
    path = random.choice(FIXTURES)
    index = write_store(root, [path])
    whole = served(root)
    changed = random.choice([path, "INDEX.toml"])
    data = index if changed == "INDEX.toml" else FILES[path]
    (root / changed).write_bytes(_mutated(data, random))
    try:
        answers = served(root)
    except FixtureIntegrityFailed:
        return _REFUSED
    except Exception:  # noqa: BLE001 - that is what is counted
        return _CRASHES
    finally:
        (root / path).unlink(missing_ok=True)
    # An index without its row trusts nothing; that is found as a file that is not listed.
    return _REFUSED if answers is None else "" if answers == whole else _WRONG
