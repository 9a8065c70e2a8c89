"""SSH keys and signed stores, with the real ``ssh-keygen``."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from cortex_replay import Fixture, LlmRequest, Store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.signing.signing import plan_signing
from cortex_replay.store.signing.ssh import SshKeygen

__all__ = [
    "allow",
    "make_key",
    "make_store",
    "new_key",
    "public_half",
    "question",
    "record",
    "remove",
    "sign",
    "write_signers",
]


def make_key(folder: Path, name: str = "key", kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair; gives its private half."""
    path = folder / name
    bits = ["-b", "2048"] if kind == "rsa" else []  # the default takes seconds
    command = ["ssh-keygen", "-q", "-t", kind, *bits, "-N", passphrase, "-C", name, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


@cache
def new_key(name: str, kind: str = "ed25519") -> Path:
    """A key pair by its name, made once: keys are not what is under test."""
    return make_key(Path(mkdtemp()), name, kind)


def public_half(key: Path) -> str:
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


def allow(name: str, key: Path, options: str = "") -> str:
    """A line of a list of signers."""
    return f"{name} {options} {public_half(key)}\n"


def write_signers(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    path.chmod(0o600)
    return path


def question(text: str) -> LlmRequest:
    return LlmRequest.from_dict({"model": "m", "messages": text})


def record(root: Path, *questions: str) -> None:
    store = Store.open_or_create(root)
    for text in questions:
        store.add(Fixture.of(question(text), f"{text}!"))
    store.commit()


def remove(root: Path, text: str) -> None:
    store = Store.open(root)
    store.remove(*store.key(question(text)))
    store.commit()


def sign(root: Path, key: Path) -> None:
    source = DirectorySource(root)
    ssh = SshKeygen(root)
    plan_signing(source, ssh).apply(source, ssh, key)


def make_store(root: Path, *questions: str, key: Path | None = None) -> Path:
    """A store with some recordings, signed if there is a key."""
    record(root, *questions)
    if key is not None:
        sign(root, key)
    return root
