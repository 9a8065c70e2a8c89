"""Texts without a secret: they are recorded as they are, whatever is in the environment."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from cortex_replay import Store
from cortex_replay.redact.redactor import Redactor
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import whole
from tests.redact.clean import SOURCES
from tests.security.campaign.plans import asked, route
from tests.security.campaign.plant import Planter
from tests.security.campaign.sandbox import Sandbox
from tests.security.campaign.upstream import upstream

__all__ = ["clean_texts", "false_hits", "recorded_false_hits"]

INNOCENT: Final = {
    "DB_PASSWORD": "password",
    "TOKEN": "true",
    "API_KEY": "test",
    "SECRET": "development",
    "PGPASSWORD": "postgres",
    "SECRET_KEY": "changeme",
    "AUTH_TOKEN": "none",
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/google/credentials.json",
    "SSH_AUTH_SOCK": "/tmp/agent.sock",
    "MAX_TOKENS": "4096",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Values of variables that are named like a secret and hold none."""


def _tool(random: Random) -> str:
    """The schema of a tool whose properties are called like secrets."""
    names = ["password", "token", "api_key", "secret", "access_token", "client_secret", "credentials"]
    properties = {
        name: {"type": "string", "description": f"The {name} of the user, at least 20 characters."}
        for name in random.sample(names, 3)
    }
    return json.dumps(
        {"name": "login", "parameters": {"type": "object", "properties": properties, "required": names[:1]}}
    )


def _digest(random: Random) -> str:
    name = random.choice(["sha1", "sha256", "md5", "blake2b", "sha512"])
    made = hashlib.new(name, random.randbytes(16))
    return random.choice([f"{name}:{made.hexdigest()}", base64.b64encode(made.digest()).decode()])


def _ids(random: Random) -> str:
    return ", ".join(str(uuid.UUID(int=random.getrandbits(128), version=4)) for _ in range(4))


def _blob(random: Random) -> str:
    head = random.choice([b"\x89PNG\r\n\x1a\n", b"%PDF-1.7\n", b"\xff\xd8\xff\xe0", b"PK\x03\x04"])
    return base64.b64encode(head + random.randbytes(random.randrange(200, 3000))).decode()


def _vector(random: Random) -> str:
    return json.dumps([random.gauss(0, 0.1) for _ in range(64)])


def _sentence(random: Random) -> str:
    words = [
        "the",
        "password",
        "postgres",
        "development",
        "test",
        "token",
        "true",
        "secret",
        "of",
        "changeme",
    ]
    return " ".join(random.choices(words, k=40)).capitalize() + "."


_MORE: Final[tuple[Callable[[Random], str], ...]] = (_tool, _digest, _ids, _blob, _vector, _sentence)


def clean_texts(count: int, seed: str = "clean") -> Iterator[tuple[str, str]]:
    """Texts of every source in turn, with the name of it."""
    sources = (*SOURCES, *_MORE)
    for number in range(count):
        source = sources[number % len(sources)]
        yield source.__name__, source(Random(f"{seed}/{number}"))


def false_hits(count: int) -> list[str]:
    """Where something is found in a clean text: as a text, as a document, with a key that is in use."""
    redactor = Redactor(["the-one-key-" + "that-is-in-use-0815"])
    found = []
    for source, text in clean_texts(count):
        document: Any = {"messages": [{"role": "user", "content": text}], "input": [text[:40], text[40:]]}
        hits = redactor.text(text)[1] or redactor.found_in(document) or redactor.left_in(document)
        if hits:
            found.append(f"{source}: {hits} in {text[:200]!r}")
    return found


def recorded_false_hits(root: Path, count: int) -> list[str]:
    """What a gateway changes or refuses of clean questions and answers, exchanges among them."""
    sandbox = Sandbox(root, Planter("clean", 0))
    texts = list(clean_texts(count, "recorded"))
    wrong = []
    with (
        upstream() as server,
        httpx.Client(timeout=30, trust_env=False) as client,
        sandbox.serve("--mode", "record", variables={**INNOCENT, **server.variables}) as facts,
    ):
        for number, (_, text) in enumerate(texts):
            tag, dialect = f"tag-{number:05}", DIALECTS[number % len(DIALECTS)]
            server.answers[tag] = whole(dialect.answer(text))
            schema = {"type": "object", "properties": {"password": {"type": "string"}, "test": {}}}
            body = asked(dialect, f"{tag} {text}", some_tool=schema)
            client.post(facts["url"] + route(dialect), content=body).raise_for_status()
            exchange = {"input": [tag, text], "options": {"password": "postgres", "token": True}}
            client.post(facts["url"] + "/openai/v1/embeddings", json=exchange).raise_for_status()
        ledger = client.get(facts["url"] + "/-/ledger").json()
    wrong += [f"refused: {reason}" for reason in ledger["not_recorded"]]
    files = {path: path.read_text() for path in (sandbox.project / "llm").rglob("*.json")}
    wrong += [f"redacted: {text[:300]}" for text in files.values() if "[REDACTED:" in text]
    if len(Store.open(sandbox.project / "llm")) != count:
        wrong.append("not every question was recorded")
    return wrong
