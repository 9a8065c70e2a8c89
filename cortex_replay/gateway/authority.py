"""The certificate authority of one run, which lets a proxy speak for the hosts of models.

Its key is in memory alone and ends with the process. What it signs holds for the hosts of models and for no
other name, whoever should get hold of it, and for two days.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
import ssl
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cortex_replay.disk import PRIVATE, scratch_folder, write_file

__all__ = ["Authority"]

_NAME: Final = "cortex-replay, for one run"
_NAME_OF_HOSTS: Final = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "cortex-replay")])
_SKEW: Final = dt.timedelta(hours=1)
_LIFE: Final = dt.timedelta(days=2)
_MOST_HOSTS: Final = 512
_EVERY_ADDRESS: Final = (ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0"))


class Authority:
    """Makes certificates for hosts, as they are asked for.

    Args:
        patterns: The hosts that it may speak for; ``*`` stands for a label, or for a part of one.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._host_key = ec.generate_private_key(ec.SECP256R1())
        self._own = self._sign_itself(patterns)
        self.context = lru_cache(maxsize=_MOST_HOSTS)(self._context)

    @property
    def certificate(self) -> bytes:
        """What clients have to trust, as PEM."""
        return self._own.public_bytes(serialization.Encoding.PEM)

    def _sign_itself(self, patterns: Iterable[str]) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
        public = self._key.public_key()
        usage = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        return (
            _begin(name, name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(_constraints(patterns), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _context(self, host: str) -> ssl.SSLContext:
        """What TLS needs to be a host, over HTTP/1.1.

        The ``ssl`` module takes a key from a file only. It is a key for this host, under a password that is
        nowhere but here, in a private folder, for a moment.
        """
        password = secrets.token_bytes(32)
        key = self._host_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
        chain = self._sign(host).public_bytes(serialization.Encoding.PEM) + key
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        with scratch_folder() as folder:
            write_file(folder / "host.pem", chain, mode=PRIVATE)
            context.load_cert_chain(folder / "host.pem", password=password)
        return context

    def _sign(self, host: str) -> x509.Certificate:
        address = _address_of(host)
        name = x509.DNSName(host) if address is None else x509.IPAddress(address)
        public = self._host_key.public_key()
        of_authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _begin(_NAME_OF_HOSTS, self._own.subject, public)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(of_authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _constraints(patterns: Iterable[str]) -> x509.NameConstraints:
    """The names that the authority may speak for. Below a ``*`` there is only what stands behind it."""
    hosts = sorted({_without_stars(pattern) for pattern in patterns})
    addresses = [
        ipaddress.ip_network(address) for host in hosts if (address := _address_of(host)) is not None
    ]
    permitted: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts if _address_of(host) is None]
    permitted += map(x509.IPAddress, addresses)
    # Where no name of a kind is permitted by itself, all are.
    excluded = [
        x509.IPAddress(every)
        for every in _EVERY_ADDRESS
        if not any(one.version == every.version for one in addresses)
    ]
    return x509.NameConstraints(permitted, excluded or None)


def _without_stars(pattern: str) -> str:
    _, star, rest = pattern.rpartition("*")
    return rest.partition(".")[2] if star else pattern


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
