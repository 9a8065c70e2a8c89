"""Signatures by ``ssh-keygen -Y``: it knows agents, hardware keys and lists of allowed signers.

It is run as git is: found where no repository puts it, with fixed arguments, a small environment, no shell
and a limit of time. What it reads of others (a signature, a list of signers) it gets as copies under names of
ours, and nothing that a repository says becomes an argument.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cortex_replay.disk import Folder, absolute_path, scratch_folder
from cortex_replay.errors import StoreIo
from cortex_replay.printable import UNPRINTABLE
from cortex_replay.store.programs import find_program

__all__ = ["NAMESPACE", "BadSignature", "Signer", "SshKeygen", "Stranger"]

NAMESPACE: Final = "cortex-replay-index"
"""A signature for another purpose, such as a commit's, is none of an index."""
SECONDS: Final = 30
SECONDS_FOR_PERSON: Final = 300
"""To type a passphrase, or to touch a key."""
_KEPT: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SYSTEMROOT",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "SSH_SK_PROVIDER",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "TERM",
)
"""Where the user's agent, hardware keys and prompts are."""
_KEY: Final = re.compile(r"with (\S+) key (\S+)$", re.MULTILINE)
_MOST_WORDS: Final = 400


class BadSignature(Exception):
    """It is no signature of these bytes, whoever made it."""


class Stranger(Exception):
    """A key signed these bytes that is not allowed to."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Who signed."""

    name: str
    """As the list of allowed signers calls them."""
    key: str
    """Its kind and fingerprint."""


class SshKeygen:
    """Runs ``ssh-keygen``."""

    def __init__(self, away_from: Path) -> None:
        """Find it.

        Args:
            away_from: The folder of the store, or of the repository around it: no program of it is run.

        Raises:
            StoreIo: There is none.
        """
        program = find_program("ssh-keygen", away_from)
        if program is None:
            raise StoreIo(
                "ssh-keygen cannot be run: no folder of PATH has it. It comes with OpenSSH 8.2 or later "
                "(the package openssh-client, openssh-clients or openssh-keygen)"
            )
        self._program = program

    def sign(self, data: bytes, key: Path) -> bytes:
        """The signature of some bytes, as ``ssh-keygen`` writes it.

        Args:
            data: What is signed.
            key: The file of a private key; or of a public one, whose private key an agent has.

        Raises:
            StoreIo: The key cannot be used.
        """
        place = absolute_path(key)  # so that no name begins with a dash
        if not place.is_file():
            raise StoreIo(f"there is no key {key}")
        is_attended = _has_terminal()
        done = self._run("sign", "-f", str(place), "-n", NAMESPACE, given=data, is_attended=is_attended)
        if done.returncode == 0 and done.stdout:
            return done.stdout
        words = _words_of(done)
        if "passphrase" in words and not is_attended:
            words += (
                ". There is no terminal to ask for it: put the key into an ssh-agent and give its public "
                "half (--key KEY.pub), or use a key without a passphrase"
            )
        raise StoreIo(f"the key {key} signs nothing: {words}")

    def find_signer(self, data: bytes, signature: bytes, signers: bytes) -> Signer:
        """Who signed some bytes, among those who may.

        Args:
            data: What was signed.
            signature: As ``ssh-keygen`` writes it.
            signers: A list in the form of OpenSSH's ``allowed_signers``.

        Raises:
            BadSignature: Nobody signed these bytes with it.
            Stranger: Somebody else did, or somebody who may not: any more, yet, or for this purpose.
            StoreIo: ``ssh-keygen`` cannot be run.
        """
        with _copies(signature=signature, signers=signers) as scratch:
            key = self._check(data, scratch)
            listed = ("-s", str(scratch / "signature"), "-f", str(scratch / "signers"))
            found = self._run("find-principals", *listed)
            names = found.stdout.decode(errors="replace").splitlines() if found.returncode == 0 else []
            last = found
            for name in dict.fromkeys(filter(None, names)):
                last = self._run("verify", *listed, "-I", name, "-n", NAMESPACE, given=data)
                if last.returncode == 0:
                    return Signer(name, key)
        raise Stranger(f"{key}: {_words_of(last)}")

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether some key signed these bytes.

        Raises:
            StoreIo: ``ssh-keygen`` cannot be run.
        """
        try:
            with _copies(signature=signature) as scratch:
                self._check(data, scratch)
        except BadSignature:
            return False
        return True

    def _check(self, data: bytes, scratch: Path) -> str:
        """The key that signed these bytes, whoever has it."""
        done = self._run("check-novalidate", "-n", NAMESPACE, "-s", str(scratch / "signature"), given=data)
        key = _KEY.search(done.stdout.decode(errors="replace"))
        if done.returncode != 0 or key is None:
            raise BadSignature(_words_of(done))
        return f"{key[1]} {key[2]}"

    def _run(
        self, action: str, *arguments: str, given: bytes = b"", is_attended: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}
        if not is_attended:
            environment.setdefault("SSH_ASKPASS_REQUIRE", "never")
        try:
            return subprocess.run(
                [self._program, "-Y", action, *arguments],
                input=given,
                capture_output=True,
                env=environment,
                timeout=SECONDS_FOR_PERSON if is_attended else SECONDS,
                start_new_session=not is_attended,  # away from the terminal, where nobody would answer
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StoreIo(f"ssh-keygen gave no answer for {error.timeout:.0f} seconds") from None
        except OSError as error:
            raise StoreIo(f"ssh-keygen cannot be run: {error.strerror}") from None


@contextmanager
def _copies(**contents: bytes) -> Iterator[Path]:
    """A folder that holds them under names of ours, until it is left."""
    with scratch_folder() as scratch:
        with Folder.at(scratch.resolve()) as folder:
            for name, content in contents.items():
                folder.create(name, content)
        yield scratch


def _has_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def _words_of(done: subprocess.CompletedProcess[bytes]) -> str:
    """What ``ssh-keygen`` said, on one line."""
    lines = done.stderr.decode(errors="replace").splitlines()
    said = "; ".join(line.strip().removeprefix("Enter passphrase: ") for line in lines if line.strip())
    said = said.replace("Signing data on standard input; ", "")
    return UNPRINTABLE.sub("?", said)[:_MOST_WORDS] or f"ssh-keygen ended with status {done.returncode}"
