"""The one package that speaks HTTP.

What goes wrong in it leaves as one of our errors, and with nothing attached: an httpx error carries
the request, and the request the key. For that reason errors are raised after the ``except`` block
that noticed them, where Python has no context to chain. Redirects are never followed, because httpx
would take ``x-api-key`` along to the other host.
"""

from cortex_replay.adapters.http.byte_stream import ByteStream
from cortex_replay.adapters.http.client import HttpClient, Payload
from cortex_replay.adapters.http.endpoint import Endpoint
from cortex_replay.adapters.http.relay import RelayClient, RelayReply, ReplyBody
from cortex_replay.adapters.http.sigv4 import AwsCredentials, AwsSigner

__all__ = [
    "AwsCredentials",
    "AwsSigner",
    "ByteStream",
    "Endpoint",
    "HttpClient",
    "Payload",
    "RelayClient",
    "RelayReply",
    "ReplyBody",
]
