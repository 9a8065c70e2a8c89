"""Calls to Amazon: the region that they are for, and whose signature they carry.

A signature names the host. In a client's own process, or through a proxy, the host is Amazon's, and the
signature goes on as it is; so do all headers that it covers. A client of the gateway has signed for the
gateway, so its call is signed anew with the user's credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.providers import DUMMY_KEY, PROVIDERS

if TYPE_CHECKING:
    from cortex_replay.adapters.http import AwsSigner

__all__ = ["SIGNATURE_HEADERS", "is_for_server", "refuse_unsigned", "regional", "signed_headers", "signer_of"]

SIGNATURE_HEADERS: Final = frozenset(
    ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"]
)
"""What a new signature takes the place of."""
_ROW: Final = PROVIDERS["bedrock"]
_SIGNED: Final = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=[^/,\s]+/\d{8}/(?P<region>[a-z0-9-]+)/[a-z0-9-]+/aws4_request,"
    r" *SignedHeaders=(?P<headers>[a-z0-9;_-]+),"
)
_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}")
_HOST: Final = re.compile(rf"(?:^|\.)bedrock-runtime(?:-fips)?\.({_REGION.pattern})\.")
_DEFAULT_REGION: Final = "us-east-1"
_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def regional(
    server: UpstreamServer, environment: Mapping[str, str], authorization: str = ""
) -> UpstreamServer:
    """Bedrock in the region that a call is for, unless somebody named another server.

    Args:
        server: As it is configured.
        environment: What may name a region.
        authorization: What the client brought; its signature names one.
    """
    is_strange = server.provider is None and not server.key_variables
    if server.kind != "bedrock" or is_strange or server.base_url != _ROW.base_url:
        return server
    url = f"https://{_host_in(_region(server, environment, authorization))}"
    return replace(server, base_url=url, url=url)


def _host_in(region: str) -> str:
    return f"bedrock-runtime.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _region(server: UpstreamServer, environment: Mapping[str, str], authorization: str) -> str:
    """The region that a server's name, the client's signature or the environment says."""
    own = None if server.base_url == _ROW.base_url else _HOST.search(urlsplit(server.base_url).netloc)
    signed = _SIGNED.match(authorization)
    named = [own and own[1], signed and signed["region"], *map(environment.get, _VARIABLES)]
    found = next((name.strip() for name in named if name and _REGION.fullmatch(name.strip())), None)
    return found or _DEFAULT_REGION


def is_for_server(call: Call, server: UpstreamServer) -> bool:
    """Whether a call carries a signature that its server will accept: the client signed for its host."""
    signature = call.header("authorization")
    is_signed = _SIGNED.match(signature) is not None and DUMMY_KEY not in signature
    return is_signed and call.header("host").lower() == urlsplit(server.base_url).netloc.lower()


def signed_headers(call: Call) -> frozenset[str]:
    """The headers that a client's signature covers; none may be changed."""
    signed = _SIGNED.match(call.header("authorization"))
    return frozenset(signed["headers"].split(";")) if signed else frozenset()


def signer_of(
    server: UpstreamServer, environment: Mapping[str, str], authorization: str = ""
) -> AwsSigner | None:
    """Who signs a call with the user's credentials, where there are some for its server.

    Args:
        server: Who is asked.
        environment: Where credentials are.
        authorization: What the client brought.

    Raises:
        ConfigError: There are some, and the user has not agreed that they are used there.
        InvalidRequest: They make no sense.
    """
    from cortex_replay.adapters.http import AwsCredentials, AwsSigner  # noqa: PLC0415 - replay needs no client
    from cortex_replay.adapters.secret import read_key  # noqa: PLC0415

    found = server.credentials(environment)
    if found is None:
        return None
    access_key, secret, token = found.access_key, read_key(found.secret_key), None
    if found.session_token:
        token = read_key(found.session_token)
    del found  # a traceback would show it
    for key in (secret, token):
        if isinstance(key, InvalidRequest):
            raise key
    assert not isinstance(secret, InvalidRequest)  # noqa: S101 - just seen
    assert not isinstance(token, InvalidRequest)  # noqa: S101
    region = _region(server, environment, authorization)
    return AwsSigner(AwsCredentials(access_key, secret, token), region)


def refuse_unsigned(call: Call, server: UpstreamServer) -> None:
    """Refuse a call that Amazon would refuse, and say what is missing.

    Raises:
        ConfigError: It is signed for another host, or not at all.
    """
    brought = call.header("authorization")
    is_amazon = _HOST.search(urlsplit(server.base_url).netloc) is not None
    if is_amazon and (not brought or DUMMY_KEY in brought or _SIGNED.match(brought)):
        names = " and ".join(_ROW.signing_variables)
        reason = (
            f"are not set where cortex-replay runs, nor is {_ROW.key_variables[0]}. The client signed "
            "for this gateway, which Amazon would refuse. With a profile, run: "
            'eval "$(aws configure export-credentials --format env)". Nothing was sent'
        )
        raise ConfigError(names, reason)
