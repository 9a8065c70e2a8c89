"""Files of certificates for a command, so that it trusts an authority that nobody else does.

Most programs take one file instead of the system's roots. They get these roots, or the file that the user has
named for them, with the authority behind it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cortex_replay.disk import PRIVATE, write_file
from cortex_replay.redact.logs import logger_of

__all__ = ["trust_variables"]

logger = logger_of(__name__)

_INSTEAD: Final = (
    "SSL_CERT_FILE",  # OpenSSL, Go, Ruby, .NET, Rust, httpx, uv
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
)
"""Variables of which each names what is trusted instead of the system's roots."""
_BESIDE: Final = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")
"""Variables of which each names what is trusted beside them."""
_SYSTEM: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/opt/homebrew/etc/ca-certificates/cert.pem",
)
_MOST_BYTES: Final = 16 * 2**20
_MOST_FILES: Final = 2000


def trust_variables(environment: Mapping[str, str], certificate: bytes, folder: Path) -> dict[str, str]:
    """The variables that let a command trust an authority.

    Args:
        environment: Our own.
        certificate: Of the authority, as PEM.
        folder: Where files are put, for as long as the command runs.
    """
    made: dict[str, str] = {}
    written: dict[str, str] = {}
    for name in (*_INSTEAD, *_BESIDE):
        named = environment.get(name, "").strip()
        base = named or ("" if name in _BESIDE else "system")
        if base not in written:
            path = folder / f"trusted-{len(written)}.pem"
            roots = b"" if not base else _roots(named)
            write_file(path, roots.rstrip() + b"\n" + certificate, mode=PRIVATE)
            written[base] = str(path)
        made[name] = written[base]
    return made


def _roots(named: str) -> bytes:
    """The certificates in a file or folder that the user has named; else those of the system."""
    import certifi  # noqa: PLC0415 - httpx brings it

    candidates = [named, ssl.get_default_verify_paths().cafile or "", *_SYSTEM, certifi.where()]
    return next((data for one in candidates if one and (data := _read(Path(one)))), b"")


def _read(path: Path) -> bytes:
    try:
        return b"\n".join(_pieces(path))
    except OSError as error:
        logger.debug("certificates cannot be read: %s", type(error).__name__)
        return b""


def _pieces(path: Path) -> Iterator[bytes]:
    files = sorted(path.iterdir())[:_MOST_FILES] if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            with file.open("rb") as opened:
                data = opened.read(_MOST_BYTES)
            if b"-----BEGIN CERTIFICATE-----" in data:
                yield data
