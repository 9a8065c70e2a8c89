"""Signatures by the real ``ssh-keygen``."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay import StoreIo
from cortex_replay.store.signing.ssh import NAMESPACE, BadSignature, SshKeygen, Stranger
from tests.signing import allow, make_key, new_key, public_half

DATA = b"format = 1\n"


@pytest.fixture
def ssh(tmp_path: Path) -> SshKeygen:
    return SshKeygen(tmp_path)


def signers_of(*lines: str) -> bytes:
    return "".join(lines).encode()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_every_kind_of_key_signs(ssh: SshKeygen, kind: str) -> None:
    key = new_key(kind, kind)

    signature = ssh.sign(DATA, key)

    signer = ssh.find_signer(DATA, signature, signers_of(allow("alice@example.org", key)))
    assert signer.name == "alice@example.org"
    assert signer.key.startswith(f"{kind.upper()} SHA256:")
    assert ssh.is_signed(DATA, signature)


def test_what_others_check_with_ssh_keygen_alone_is_good(ssh: SshKeygen, tmp_path: Path) -> None:
    key = new_key("alice")
    (tmp_path / "signature").write_bytes(ssh.sign(DATA, key))
    (tmp_path / "signers").write_text(allow("alice", key))
    command = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        "signers",
        "-I",
        "alice",
        "-n",
        NAMESPACE,
        "-s",
        "signature",
    ]

    assert subprocess.run(command, cwd=tmp_path, input=DATA, check=False, capture_output=True).returncode == 0
    assert NAMESPACE == "cortex-replay-index"


def test_other_bytes_are_not_signed(ssh: SshKeygen) -> None:
    signature = ssh.sign(DATA, new_key("alice"))

    for data in (DATA[:-1], DATA + b"\n", b""):
        assert not ssh.is_signed(data, signature)
        with pytest.raises(BadSignature):
            ssh.find_signer(data, signature, signers_of(allow("alice", new_key("alice"))))


@pytest.mark.parametrize("signature", [b"", b"junk", b"\0" * 5000])
def test_what_is_no_signature_is_bad(ssh: SshKeygen, signature: bytes) -> None:
    with pytest.raises(BadSignature):
        ssh.find_signer(DATA, signature, signers_of(allow("alice", new_key("alice"))))


def test_a_signature_for_another_purpose_is_bad(ssh: SshKeygen) -> None:
    """Such as that of a commit."""
    command = ["ssh-keygen", "-Y", "sign", "-f", str(new_key("alice")), "-n", "git"]
    done = subprocess.run(command, input=DATA, capture_output=True, check=True)

    assert not ssh.is_signed(DATA, done.stdout)
    with pytest.raises(BadSignature):
        ssh.find_signer(DATA, done.stdout, signers_of(allow("alice", new_key("alice"))))


@pytest.mark.parametrize("signers", ["", "# nobody\n", "garbage"])
def test_a_list_without_signers_makes_everybody_a_stranger(ssh: SshKeygen, signers: str) -> None:
    signature = ssh.sign(DATA, new_key("alice"))

    with pytest.raises(Stranger, match="ED25519 SHA256:"):
        ssh.find_signer(DATA, signature, signers.encode())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bob", ""),
        ("alice", 'namespaces="git,file"'),
        ("alice", 'valid-before="20200101"'),
        ("alice", 'valid-after="29990101"'),
        ("alice", "cert-authority"),
    ],
)
def test_who_is_not_allowed_is_a_stranger(ssh: SshKeygen, name: str, options: str) -> None:
    """Not at all, not for this purpose, not any more, not yet; and an authority signs keys, not indexes."""
    signature = ssh.sign(DATA, new_key("alice"))

    with pytest.raises(Stranger, match="ED25519 SHA256:"):
        ssh.find_signer(DATA, signature, signers_of(allow(name, new_key(name), options)))


@pytest.mark.parametrize(
    ("principals", "name"),
    [
        ("alice@example.org,al@example.org", "alice@example.org"),
        ("*@example.org", "*@example.org"),
        ("-x", "-x"),
    ],
)
def test_signers_are_named_as_openssh_does(ssh: SshKeygen, principals: str, name: str) -> None:
    signature = ssh.sign(DATA, new_key("alice"))
    signers = allow("bob", new_key("bob")) + allow(principals, new_key("alice"), f'namespaces="{NAMESPACE}"')

    assert ssh.find_signer(DATA, signature, signers.encode()).name == name


def certify(folder: Path, key: Path, authority: Path, name: str) -> Path:
    """A copy of a key with a certificate for one name."""
    copy = folder / "certified"
    copy.write_bytes(key.read_bytes())
    copy.chmod(0o600)
    public = folder / "certified.pub"
    public.write_text(public_half(key))
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "x", "-n", name, public], check=True)
    return folder / "certified-cert.pub"


def test_a_certificate_counts_for_the_names_in_it(ssh: SshKeygen, tmp_path: Path) -> None:
    authority = new_key("authority")
    signature = ssh.sign(DATA, certify(tmp_path, new_key("alice"), authority, "alice"))

    def signer_by(line: str) -> str:
        return ssh.find_signer(DATA, signature, line.encode()).name

    assert signer_by(allow("alice", authority, "cert-authority")) == "alice"
    assert signer_by(allow("*", authority, "cert-authority")) == "alice"
    for line in (
        allow("bob", authority, "cert-authority"),
        allow("alice", authority),
        allow("alice", new_key("bob"), "cert-authority"),
    ):
        with pytest.raises(Stranger):
            signer_by(line)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    told = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    variables = dict(re.findall(r"(SSH_\w+)=([^;]+);", told))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield
    subprocess.run(["ssh-agent", "-k"], env=os.environ | variables, capture_output=True, check=True)


@pytest.mark.usefixtures("agent")
def test_an_agent_signs_for_the_public_half(ssh: SshKeygen, tmp_path: Path) -> None:
    key = make_key(tmp_path)
    subprocess.run(["ssh-add", "-q", key], check=True)
    key.unlink()

    signature = ssh.sign(DATA, tmp_path / "key.pub")

    assert ssh.find_signer(DATA, signature, signers_of(allow("alice", key))).name == "alice"


def test_a_key_with_a_passphrase_ends_where_there_is_no_terminal(ssh: SshKeygen, tmp_path: Path) -> None:
    key = make_key(tmp_path, passphrase="a long one")

    with pytest.raises(StoreIo, match=r"no terminal to ask for it: put the key into an ssh-agent"):
        ssh.sign(DATA, key)


def test_a_key_that_is_none_is_named(ssh: SshKeygen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose name looks like an option."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-n").write_text("no key")

    with pytest.raises(StoreIo, match="there is no key missing"):
        ssh.sign(DATA, Path("missing"))
    with pytest.raises(StoreIo, match="the key -n signs nothing: "):
        ssh.sign(DATA, Path("-n"))
    make_key(tmp_path, "./-key")
    assert ssh.is_signed(DATA, ssh.sign(DATA, Path("-key")))


def test_without_ssh_keygen_the_error_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(StoreIo, match="openssh-client"):
        SshKeygen(tmp_path)


def test_a_program_of_the_repository_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a relative entry of PATH nor, where there is another one, by an absolute one."""
    planted = tmp_path / "ssh-keygen"
    planted.write_text("#!/bin/sh\necho ran > ran\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{tmp_path}:{os.environ['PATH']}")

    assert SshKeygen(tmp_path).is_signed(DATA, SshKeygen(tmp_path).sign(DATA, new_key("alice")))
    assert not (tmp_path / "ran").exists()


def test_a_program_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = tmp_path / "ssh-keygen"
    stuck.write_text("#!/bin/sh\nexec cat /dev/zero > /dev/null\n")
    stuck.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("cortex_replay.store.signing.ssh.SECONDS", 0.05)

    with pytest.raises(StoreIo, match="gave no answer"):
        SshKeygen(Path("/nowhere")).is_signed(DATA, b"")


def test_it_gets_no_variable_that_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = tmp_path / "ssh-keygen"
    spy.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/seen\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("LD_PRELOAD", "")

    assert not SshKeygen(Path("/nowhere")).is_signed(DATA, b"")

    seen = (tmp_path / "seen").read_text()
    assert "OPENAI_API_KEY" not in seen
    assert "LD_PRELOAD" not in seen
    assert "SSH_ASKPASS_REQUIRE=never" in seen
