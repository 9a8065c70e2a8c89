"""The interactions of a cassette, in one form for all that versions of vcrpy have written.

Bodies stand in cassettes as text, as bytes, as base64, as the JSON they hold, whole or compressed; statuses
as objects and as numbers; addresses in one piece and in four.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import orjson

from cortex_replay.cassettes.documents import MAX_BYTES, CassetteError

__all__ = ["Interaction", "interactions_in", "is_json"]

_SPELLINGS: Final[tuple[dict[str, Any], ...]] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ":")},
    {"ensure_ascii": False},
    {},
)
"""The ways in which clients write JSON."""
_LENGTH: Final = re.compile("[0-9]{1,18}")
_STEP: Final = 2**20
_TOO_LARGE: Final = f"the answer would have more than {MAX_BYTES >> 20} MiB"
_CUT_OFF: Final = "the answer is cut off: there is more of it than was compressed here"


@dataclass(frozen=True, slots=True)
class Interaction:
    """One call and its answer."""

    method: str
    host: str
    """With the port, where one was named."""
    path: str
    query: str
    request_headers: tuple[tuple[str, str], ...]
    request_body: bytes
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """Not compressed."""
    scheme: str = "https"
    is_changed: bool = False
    """Whether what was asked is no longer what was sent."""

    def request_header(self, name: str) -> str:
        return next((value for known, value in self.request_headers if known == name), "")

    def header(self, name: str) -> str:
        return next((value for known, value in self.headers if known == name), "")

    @property
    def call(self) -> str:
        """What was called, for a person."""
        return f"{self.method} {self.host}{self.path}"


def interactions_in(document: Any) -> Iterator[tuple[int, Interaction | CassetteError, str]]:
    """Each interaction by its number, or why it cannot be read; and what it calls, as far as that is known.

    Raises:
        CassetteError: It is not a cassette.
    """
    entries = document.get("interactions") if isinstance(document, dict) else document
    is_old = isinstance(document, list) and bool(document) and _is_interaction(document[0])
    if not isinstance(entries, list) or not (isinstance(document, dict) or is_old):
        raise CassetteError("it is not a cassette")
    if isinstance(document, dict) and document.get("version", 1) not in (1, "1"):
        raise CassetteError("it is a cassette of a version that is not known here")
    for number, given in enumerate(entries, 1):
        call = ""
        try:
            if not _is_interaction(given):
                raise CassetteError("it is not a request and a response")
            request, response = given["request"], given["response"]
            address = _address(request)
            host, path = address.netloc, address.path
            call = f"{_text(request.get('method'), 'method').upper()} {host}{path}"
            yield number, _interaction(request, response, address), call
        except CassetteError as error:
            yield number, error, call


def _is_interaction(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("request"), dict)
        and isinstance(value.get("response"), dict)
    )


def _interaction(request: Any, response: Any, address: SplitResult) -> Interaction:
    request_headers = _headers(request.get("headers"))
    headers = _headers(response.get("headers"))
    body, is_as_sent = _body(request, "body")
    length = dict(request_headers).get("content-length", "")
    is_changed = is_as_sent and _is_changed(body, length)
    is_old = "parsed_body" not in response and "body" not in response  # of httpx, before vcrpy 6
    answer, is_as_sent = _body(response, "content" if is_old else "body")
    method = _text(request.get("method"), "method").upper()
    if is_as_sent and method != "HEAD":
        answer = _decompress(answer, dict(headers))
    return Interaction(
        *(method, address.netloc, address.path, address.query, request_headers, body),
        *(_status(response), headers, answer, address.scheme, is_changed),
    )


def _address(request: Mapping[str, Any]) -> SplitResult:
    """Without a port that is the default, without a person's name, and with a path."""
    uri = request.get("uri", request.get("url"))
    if uri is None and "host" in request:  # before 1.0
        scheme, port = request.get("protocol", "http"), request.get("port")
        place = "" if port in (None, 80, 443) else f":{port}"
        uri = f"{scheme}://{request['host']}{place}{request.get('path', '/')}"
    try:
        parts = urlsplit(_text(uri, "uri"))
        port = parts.port
    except ValueError:
        raise CassetteError("its address is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CassetteError("it is not a call over HTTP")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default = port in (None, {"http": 80, "https": 443}[parts.scheme])
    return SplitResult(
        parts.scheme, host if is_default else f"{host}:{port}", parts.path or "/", parts.query, ""
    )


def _text(value: Any, name: str) -> str:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str) or not value:
        raise CassetteError(f"its {name} is not there")
    return value


def _headers(given: Any) -> tuple[tuple[str, str], ...]:
    """Names in lower case; values in cassettes are texts or lists of texts."""
    if given is None:
        return ()
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, dict):
        pairs = list(given.items())
    elif isinstance(given, list):  # of lines, or of pairs
        for one in given:
            if isinstance(one, str):
                name, _, value = one.partition(":")
                pairs.append((name, value))
            elif isinstance(one, list) and len(one) == 2:
                pairs.append((one[0], one[1]))
    else:
        raise CassetteError("its headers are neither an object nor a list")
    return tuple(
        (_as_text(name).strip().lower(), _as_text(value).strip())
        for name, values in pairs
        for value in (values if isinstance(values, list) else [values])
    )


def _as_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else "" if value is None else str(value)


def _status(response: Mapping[str, Any]) -> int:
    status = response.get("status", response.get("status_code"))
    if isinstance(status, dict):
        status = status.get("code")
    if isinstance(status, str) and _LENGTH.fullmatch(status):
        status = int(status)
    if not isinstance(status, int) or not 100 <= status <= 599:
        raise CassetteError("the answer has no status")
    return status


def _body(holder: Mapping[str, Any], name: str) -> tuple[bytes, bool]:
    """A body, and whether it is byte for byte what was sent."""
    value = holder.get(name)
    if value is None and "parsed_body" in holder:  # as pydantic-ai's own serializer writes it
        return _json_bytes(holder["parsed_body"]), False
    if isinstance(value, dict):
        names = set(value) - {"encoding"}
        if names in ({"base64_string"}, {"base64"}):
            return _from_base64(value[names.pop()]), True
        if names != {"string"}:
            return _json_bytes(value), False
        value = value["string"]
    match value:
        case None:
            return b"", True
        case bytes():
            return value, True
        case str():
            return _encode_text(value), True
        case [*pieces] if pieces and all(isinstance(piece, bytes) for piece in pieces):
            return b"".join(pieces), True
    return _json_bytes(value), False


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise CassetteError("a body has characters that cannot be sent") from None


def _from_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(_as_text(value), validate=False)
    except (ValueError, binascii.Error):
        raise CassetteError("a body is not the base64 that it should be") from None


def _json_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        raise CassetteError("a body is neither text nor JSON") from None


def _is_changed(body: bytes, length: str) -> bool:
    """Whether a body is not the one that was sent: a filter or a hand was at it.

    It is taken all the same. A hand that changes a cassette changes its test, too.

    Raises:
        CassetteError: Nothing is left of it.
    """
    if not _LENGTH.fullmatch(length) or int(length) == len(body):
        return False
    if not body:
        raise CassetteError("what was asked is not in the cassette: the body was filtered out")
    try:
        value = json.loads(body)  # a filter writes JSON anew, even where it changes nothing
        lengths = {len(json.dumps(value, **how).encode()) for how in _SPELLINGS}
    except (ValueError, RecursionError):
        lengths = set()
    return int(length) not in lengths


def _decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """An answer's body as its client saw it."""
    codings = [coding.strip() for coding in headers.get("content-encoding", "").lower().split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if codings and body and not _is_text(body):
        for coding in reversed(codings):
            body = _decode(body, coding)
        return body
    length = headers.get("content-length", "")
    if not codings and _LENGTH.fullmatch(length) and len(body) < int(length) and not is_json(body):
        raise CassetteError(f"the answer is cut off: {len(body)} of {length} bytes are there")
    return body


def _is_text(body: bytes) -> bool:
    """Whether a body that should be compressed is not: some versions kept the header all the same."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_json(body: bytes) -> bool:
    """Whether a body is JSON."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def _decode(body: bytes, coding: str) -> bytes:
    try:
        if coding in ("gzip", "x-gzip"):
            return _inflate(body, zlib.MAX_WBITS | 16)
        if coding == "deflate":
            is_wrapped = body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
            return _inflate(body, zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS)
        if coding == "br":
            return _with_module(body, ("brotli", "brotlicffi"), coding)
        if coding == "zstd":
            return _with_module(body, ("zstandard",), coding)
    except zlib.error:
        raise CassetteError(f"the answer is not the {coding} that it should be") from None
    raise CassetteError(f"the answer is in an encoding that is not known here: {coding[:40]!r}")


def _inflate(body: bytes, window: int) -> bytes:
    decoder = zlib.decompressobj(window)
    data = decoder.decompress(body, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise CassetteError(_TOO_LARGE)
    if not decoder.eof:
        raise CassetteError(_CUT_OFF)
    return data


def _with_module(body: bytes, names: tuple[str, ...], coding: str) -> bytes:
    for name in names:
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        try:
            return _unpack_zstd(module, body) if coding == "zstd" else _unpack_brotli(module, body)
        except CassetteError:
            raise
        except Exception:  # noqa: BLE001 - each has errors of its own
            raise CassetteError(f"the answer is not the {coding} that it should be") from None
    raise CassetteError(f"the answer is compressed with {coding}: install {names[0]} to import it")


def _unpack_brotli(module: Any, body: bytes) -> bytes:
    decoder = module.Decompressor()
    if not hasattr(decoder, "can_accept_more_data"):
        raise CassetteError("the answer is compressed with br: install brotli 1.2 or later to import it")
    data = b""
    while not decoder.is_finished():
        piece: bytes = decoder.process(b"" if data else body, output_buffer_limit=_STEP)
        data += piece
        if len(data) > MAX_BYTES:
            raise CassetteError(_TOO_LARGE)
        if not piece and not decoder.is_finished():
            raise CassetteError(_CUT_OFF)
    return data


def _unpack_zstd(module: Any, body: bytes) -> bytes:
    reader = module.ZstdDecompressor().stream_reader(body)
    size = 0
    while piece := reader.read(_STEP):  # how much it is, before it is all there
        size += len(piece)
        if size > MAX_BYTES:
            raise CassetteError(_TOO_LARGE)
    decoder = module.ZstdDecompressor().decompressobj()
    data: bytes = decoder.decompress(body)
    if not decoder.eof:
        raise CassetteError(_CUT_OFF)
    return data
