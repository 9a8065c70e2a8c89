"""Amazon's signature of a request, version 4.

It is written out here because it is short and does not change, while the library that has it brings the
descriptions of all of Amazon's services. What is signed is the method, the path, the query, the host, the
time, and the hash of the body.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from cortex_replay.adapters.secret import ApiKey

__all__ = ["SIGNATURE", "AwsCredentials", "AwsSigner"]

SIGNATURE: Final = "AWS4-HMAC-SHA256"
_UNESCAPED: Final = "/-_.~"


class AwsCredentials(NamedTuple):
    """Whose signature it is."""

    access_key: str
    """The name of the key; it is no secret."""
    secret_key: ApiKey
    session_token: ApiKey | None = None


class AwsSigner:
    """Signs requests to one service in one region.

    Args:
        credentials: Whose signature it is.
        region: Such as ``eu-west-1``.
        service: The name of the service in signatures.
        now: The time, by which a signature is only good for some minutes.
    """

    def __init__(
        self,
        credentials: AwsCredentials,
        region: str,
        service: str = "bedrock",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.credentials = credentials
        self._scope = (region, service, "aws4_request")
        self._now = now

    def sign(self, method: str, host: str, target: str, body: bytes) -> dict[str, str]:
        """The headers that make a request a signed one.

        Args:
            method: Of the request.
            host: As its header has it.
            target: The path and the query, as they are sent.
            body: All of it.
        """
        time = self._now().strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-date": time}
        if self.credentials.session_token is not None:
            headers["x-amz-security-token"] = self.credentials.session_token.reveal()
        path, _, query = target.partition("?")
        names = ";".join(headers)
        lines = [
            method,
            quote(path, safe=_UNESCAPED),  # an escape is escaped again
            "&".join(sorted(pair if "=" in pair else f"{pair}=" for pair in query.split("&") if pair)),
            *(f"{name}:{value.strip()}" for name, value in headers.items()),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
        scope = "/".join((time[:8], *self._scope))
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        signature = self._mac(time[:8], f"{SIGNATURE}\n{time}\n{scope}\n{digest}")
        del headers["host"]
        whose = f"Credential={self.credentials.access_key}/{scope}"
        headers["authorization"] = f"{SIGNATURE} {whose}, SignedHeaders={names}, Signature={signature}"
        return headers

    def _mac(self, date: str, text: str) -> str:
        key = b"AWS4" + self.credentials.secret_key.reveal().encode()
        for part in (date, *self._scope):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()
