"""Which hosts serve models, as far as a name can tell.

A proxy sees the name of a host before it sees a request. Here are the hosts of well-known services that serve
models and little else; those of providers come from their table and from the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cortex_replay.config.servers import Server, server_of
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.errors import InvalidRequest
from cortex_replay.hosts import LOCAL, normal_host

__all__ = ["MODEL_HOSTS", "ModelHosts"]

MODEL_HOSTS: Final = (
    "*.aiplatform.googleapis.com",
    "*-aiplatform.googleapis.com",
    "bedrock-mantle.*.api.aws",
    "bedrock-runtime-fips.*.amazonaws.com",
    "bedrock-runtime.*.amazonaws.com",
    "*.cognitiveservices.azure.com",
    "*.openai.azure.com",
    "*.services.ai.azure.com",
    "models.inference.ai.azure.com",
    "models.github.ai",
    "api.ai21.com",
    "api.cohere.ai",
    "api.deepinfra.com",
    "api.hyperbolic.xyz",
    "api.jina.ai",
    "codestral.mistral.ai",
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.novita.ai",
    "api.perplexity.ai",
    "api.replicate.com",
    "api.sambanova.ai",
    "api.together.xyz",
    "api.voyageai.com",
    "api-inference.huggingface.co",
    "router.huggingface.co",
    "*.endpoints.huggingface.cloud",
    "dashscope.aliyuncs.com",
    "dashscope-intl.aliyuncs.com",
    "inference.baseten.co",
    "integrate.api.nvidia.com",
    "open.bigmodel.cn",
)
"""``*`` stands for a label, or for a part of one."""

_PATTERN: Final = re.compile(r"(?:[a-z0-9*_-]+\.)*[a-z0-9_-]+|[0-9a-f:]+")
_LONGEST: Final = 253


class ModelHosts:
    """The hosts whose calls are recorded and replayed.

    Args:
        upstreams: The configured providers.
        named: Further ones, named by the user; ``*`` stands for a label, or for a part of one.

    Raises:
        InvalidRequest: One of these is no host.
    """

    def __init__(self, upstreams: Upstreams, named: Iterable[str] = ()) -> None:
        found = (server_of(one.base_url) for one in upstreams.everywhere)
        servers = [server for server in found if server is not None]
        configured = {normal_host(server.host) for server in servers}
        self.patterns = sorted({*configured, *MODEL_HOSTS, *map(_pattern, named)})
        remote = set(self.patterns) - LOCAL
        self._matcher = re.compile("|".join(map(_expression, sorted(remote))))
        self._plain = {(normal_host(one.host), one.port) for one in servers if one.scheme == "http"}
        # This machine has other servers than those of models, so a port tells which is meant.
        self._local_ports = {one.port for one in servers if normal_host(one.host) in LOCAL}

    def server_at(self, host: str, port: int) -> Server | None:
        """The server of a model at a host; ``None`` for all others.

        Args:
            host: In its one form.
            port: Of the server.
        """
        is_local = host in LOCAL
        if not (port in self._local_ports if is_local else self._matcher.fullmatch(host)):
            return None
        is_plain = port == 80 or any((name, port) in self._plain for name in (LOCAL if is_local else [host]))
        shown = f"[{host}]" if ":" in host else host
        return Server("http" if is_plain else "https", shown, port)


def _pattern(text: str) -> str:
    pattern = text if "*" in text else normal_host(text)
    pattern = pattern.lower()
    if not _PATTERN.fullmatch(pattern) or len(pattern) > _LONGEST:
        reason = f"{text!r} is no host; give a name such as api.example.com, or *.example.com"
        raise InvalidRequest("model_host", reason)
    return pattern


def _expression(pattern: str) -> str:
    return "[^.]+".join(map(re.escape, pattern.split("*")))
