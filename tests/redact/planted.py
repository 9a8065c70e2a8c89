"""Secrets that never were: of the shapes that services give out, in the encodings in which they travel.

Nothing here is, or ever was, a key. Prefixes stand apart from what follows them, so that no scanner takes
this file for a leak. Everything comes from a seed.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import quote, quote_plus

ALNUM: Final = string.ascii_letters + string.digits
WORD: Final = ALNUM + "_-"
BASE64: Final = ALNUM + "+/"
HEX: Final = "0123456789abcdef"
BASE32: Final = string.ascii_uppercase + "234567"
LETTERS: Final = string.ascii_letters


@dataclass(frozen=True)
class Secret:
    """A secret, and what stands around it so that it is one."""

    text: str
    before: str = ""
    after: str = ""

    @property
    def whole(self) -> str:
        return self.before + self.text + self.after


def some(random: Random, characters: str, count: int) -> str:
    return "".join(random.choices(characters, k=count))


def token(prefix: str, characters: str, count: int, suffix: str = "") -> Callable[[Random], Secret]:
    return lambda random: Secret(prefix + some(random, characters, count) + suffix)


def one_of(*kinds: Callable[[Random], Secret]) -> Callable[[Random], Secret]:
    return lambda random: random.choice(kinds)(random)


def _base64_of(data: str) -> str:
    return base64.b64encode(data.encode()).decode()


def _urlsafe(data: str | bytes) -> str:
    data = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(random: Random) -> Secret:
    head = {"alg": random.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"}
    body = {"sub": some(random, string.digits, 10), "iat": random.randrange(10**9), "name": "Jo"}
    parts = [_urlsafe(json.dumps(part)) for part in (head, body)]
    return Secret(".".join([*parts, _urlsafe(random.randbytes(32))]))


def _private_key(random: Random) -> Secret:
    kind = random.choice(["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED "])
    body = base64.b64encode(random.randbytes(random.randrange(120, 600))).decode()
    lines = [body[i : i + 64] for i in range(0, len(body), 64)]
    fence = "-----"
    end = random.choice(["\n", "\r\n"])
    return Secret(
        end.join(lines),
        f"{fence}BEGIN {kind}PRIVATE KEY{fence}{end}",
        f"{end}{fence}END {kind}PRIVATE KEY{fence}",
    )


def _basic(random: Random) -> Secret:
    pair = f"{random.choice(['admin', 'ci', 'deploy', 'jane'])}:{some(random, ALNUM + '!$', 14)}"
    return Secret(_base64_of(pair), "Authorization: Basic ")


def _bearer(random: Random) -> Secret:
    return Secret(some(random, ALNUM, random.randrange(28, 64)), "Authorization: Bearer ")


def _url_password(random: Random) -> Secret:
    scheme = random.choice(["postgres", "mysql", "amqp", "redis", "https", "mongodb+srv"])
    return Secret(some(random, ALNUM + "_.!", 16), f"{scheme}://app:", "@db.internal.corp:5432/main")


def _assignment(random: Random) -> Secret:
    name = random.choice(["api_key", "API_KEY", "apiKey", "client_secret", "DB_PASSWORD", "access_token"])
    mark = random.choice(['="', " = '", ': "', "="])
    after = '"' if '"' in mark else "'" if "'" in mark else "\n"
    return Secret(some(random, random.choice([ALNUM, HEX]), random.randrange(32, 48)), name + mark, after)


def _aws_secret(random: Random) -> Secret:
    before = random.choice(
        ["AWS_SECRET_ACCESS_KEY=", "aws_secret_access_key = ", f"AKI{'A'}{some(random, BASE32, 16)} "]
    )
    return Secret(some(random, BASE64, 40), before, "\n")


def _discord(random: Random) -> Secret:
    number = some(random, "123456789", 1) + some(random, string.digits, 17)
    parts = [_urlsafe(number), some(random, WORD, 6), some(random, WORD, 38)]
    return Secret(".".join(parts))


def _telegram(random: Random) -> Secret:
    return Secret("AA" + some(random, WORD, 33), some(random, "123456789", 9) + ":", " ")


def _slack_webhook(random: Random) -> Secret:
    path = f"T{some(random, BASE32, 10)}/B{some(random, BASE32, 10)}/{some(random, ALNUM, 24)}"
    return Secret(path, "https://hooks.slack.com/" + "services/")


KINDS: Final[dict[str, Callable[[Random], Secret]]] = {
    "anthropic": token("sk-" + "ant-api03-", WORD, 93, "AA"),
    "anthropic-oauth": token("sk-" + "ant-oat01-", WORD, 86, "-AA"),
    "openai-old": lambda r: Secret(f"sk-{some(r, ALNUM, 20)}T3Blbk{'FJ'}{some(r, ALNUM, 20)}"),
    "openai-project": lambda r: Secret(f"sk-{'proj'}-{some(r, WORD, 74)}T3Blbk{'FJ'}{some(r, WORD, 74)}"),
    "openai-service": lambda r: Secret(f"sk-{'svcacct'}-{some(r, WORD, 58)}T3Blbk{'FJ'}{some(r, WORD, 58)}"),
    "deepseek": token("sk" + "-", HEX, 32),
    "openrouter": token("sk-" + "or-v1-", HEX, 64),
    "google": token("AI" + "za", WORD[:-2], 35),
    "google-oauth": token("ya" + "29.", WORD, 120),
    "aws-access-key": token("AK" + "IA", BASE32, 16),
    "aws-secret-key": _aws_secret,
    "github": one_of(*(token(f"gh{kind}_", ALNUM, 36) for kind in "pousr")),
    "github-fine-grained": lambda r: Secret(f"github{'_pat_'}{some(r, ALNUM, 22)}_{some(r, ALNUM, 59)}"),
    "gitlab": token("gl" + "pat-", WORD[:-1], 20),
    "slack-bot": lambda r: Secret(
        f"xo{'xb'}-{some(r, string.digits, 12)}-{some(r, string.digits, 12)}-{some(r, ALNUM, 24)}"
    ),
    "slack-app": lambda r: Secret(
        f"xa{'pp'}-1-A{some(r, BASE32, 10)}-{some(r, string.digits, 13)}-{some(r, HEX, 64)}"
    ),
    "slack-webhook": _slack_webhook,
    "stripe": one_of(token("sk_" + "live_", ALNUM, 24), token("rk_" + "test_", ALNUM, 99)),
    "twilio": token("S" + "K", HEX, 32),
    "sendgrid": lambda r: Secret(f"S{'G'}.{some(r, WORD, 22)}.{some(r, WORD[:-2], 43)}"),
    "mailgun": token("key" + "-", HEX, 32),
    "npm": token("np" + "m_", ALNUM, 36),
    "pypi": token("pypi-" + "AgEIcHlwaS5vcmc", WORD, 120),
    "huggingface": token("h" + "f_", LETTERS, 34),
    "groq": token("gs" + "k_", ALNUM, 52),
    "perplexity": token("pp" + "lx-", ALNUM, 48),
    "xai": token("xa" + "i-", ALNUM, 80),
    "replicate": token("r" + "8_", ALNUM, 37),
    "nvidia": token("nv" + "api-", WORD, 64),
    "databricks": token("da" + "pi", HEX, 32),
    "digitalocean": token("do" + "p_v1_", HEX, 64),
    "shopify": token("shp" + "at_", HEX, 32),
    "telegram": _telegram,
    "discord": _discord,
    "azure-storage": lambda r: Secret(
        base64.b64encode(r.randbytes(64)).decode(), "DefaultEndpointsProtocol=https;AccountName=x;AccountKey="
    ),
    "azure-client-secret": lambda r: Secret(
        f"{some(r, ALNUM, 3)}8Q{'~'}{some(r, ALNUM + '_~.-', 34)}", "client = '", "'"
    ),
    "vault": token("hv" + "s.", WORD, 95),
    "jwt": _jwt,
    "private-key": _private_key,
    "bearer": _bearer,
    "basic": _basic,
    "url-password": _url_password,
    "assignment": _assignment,
}
"""By what they are; the rule that finds one may have another name."""


@dataclass(frozen=True)
class Encoded:
    """A secret as it travels."""

    text: str
    units: tuple[str, ...]
    """How each of its characters is written there; for base64, the characters that hold it."""
    telling: int = 8
    """How many of them in a row give a part of it away."""
    is_split: bool = False


Spell = Callable[[str], str]


def _spelled(secret: Secret, spell: Spell) -> Encoded:
    units = tuple(map(spell, secret.text))
    around = ("".join(map(spell, text)) for text in (secret.before, secret.after))
    return Encoded("".join(units).join(around), units)


def plain(random: Random, secret: Secret) -> Encoded:
    return _spelled(secret, str)


def url(random: Random, secret: Secret) -> Encoded:
    """As a browser does it, every character, a mix of both, or escaped once more."""
    share = random.choice([0, 1, 0.4, 0.7])
    is_twice = share == 0.7

    def spell(character: str) -> str:
        if random.random() < share:
            code = "".join(f"%{byte:02x}" for byte in character.encode())
            code = code.upper() if random.random() < 0.5 else code
        else:
            code = quote(character, safe="")
        return quote(code, safe="") if is_twice else code

    return _spelled(secret, spell)


def in_base64(random: Random, secret: Secret) -> Encoded:
    """Inside something larger, at any alignment, in either alphabet, padded or not."""
    before = some(random, ALNUM, random.randrange(4)) + random.choice(["user:", '{"t": "', "\n", "k "])
    after = random.choice(["", "\n", '"}', " and so on, for a while"])
    data = (before + secret.whole + after).encode()
    text = base64.b64encode(data).decode()
    if random.random() < 0.5:
        text = text.translate(str.maketrans("+/", "-_"))
    if random.random() < 0.5:
        text = text.rstrip("=")
    first = len((before + secret.before).encode()) * 8
    last = first + len(secret.text.encode()) * 8
    return Encoded(text, tuple(text[-(-first // 6) : last // 6]), 10)


def json_twice(random: Random, secret: Secret) -> Encoded:
    text = json.dumps(json.dumps({"value": secret.whole, "note": 'she said "no"'}))
    return Encoded(text, tuple(json.dumps(json.dumps(c)[1:-1])[1:-1] for c in secret.text))


def unicode_escapes(random: Random, secret: Secret) -> Encoded:
    """All characters or some, behind one backslash or two."""
    backslash = random.choice(["\\", "\\\\"])
    share = random.choice([1.0, 0.5, 0.1])

    def spell(character: str) -> str:
        if random.random() >= share:
            return character
        code = character.encode("utf-16-be").hex()
        code = code.upper() if random.random() < 0.5 else code
        return "".join(f"{backslash}u{code[i : i + 4]}" for i in range(0, len(code), 4))

    return _spelled(secret, spell)


def split(random: Random, secret: Secret) -> Encoded:
    return Encoded(secret.whole, tuple(secret.text), is_split=True)


def query(random: Random, secret: Secret) -> Encoded:
    host = random.choice(["https://api.example.com/v1/items", "http://127.0.0.1:8080/hook"])
    encoded = _spelled(secret, quote_plus)
    return Encoded(f"{host}?page=2&q={encoded.text}&sort=asc", encoded.units)


ENCODINGS: Final[dict[str, Callable[[Random, Secret], Encoded]]] = {
    "plain": plain,
    "url": url,
    "base64": in_base64,
    "json-twice": json_twice,
    "unicode-escapes": unicode_escapes,
    "split": split,
    "query": query,
}

_PROSE: Final = [
    "Please look at this and tell me what is wrong: {} Thanks, and be brief.",
    "My configuration was\n\n```\n{}\n```\n\nand it failed at once.",
    "I found {} in the log of yesterday's run. What should I do next?",
    "{}",
    "> {}\n\nThat is what it printed. Nothing else was there.",
]
_HEADERS: Final = (
    "POST /v1/messages HTTP/1.1\nhost: api.example.com\nx-request-id: req_01\nx-trace: {}\n"
    "content-type: application/json\ncontent-length: 812\n"
)


def fixture(random: Random, encoded: Encoded) -> dict[str, Any]:
    """A recording in which it stands somewhere: prompt, tool arguments, headers, answer, stream."""
    document: dict[str, Any] = {
        "request_match": {"model": "m", "prompt_hash": some(random, HEX, 64)},
        "request": {"system": "Be brief.", "messages": [{"role": "user", "content": "What is this?"}]},
        "response": {"text": "A short answer.", "usage": {"prompt_tokens": 12, "completion_tokens": 3}},
    }
    where = 4 if encoded.is_split else random.randrange(5)
    text = (_HEADERS if where == 2 else random.choice(_PROSE)).format(encoded.text)
    if where == 0:
        document["request"]["messages"][0]["content"] = text
    elif where == 1:
        arguments = {"command": "run", "input": text, "retries": 3}
        document["response"]["tool_calls"] = [{"id": "toolu_01", "name": "shell", "arguments": arguments}]
    elif where == 2:
        message = {"role": "tool", "content": text, "tool_call_id": "toolu_01"}
        document["request"]["messages"].append(message)
    elif where == 3:
        document["response"]["text"] = text
    else:
        document["response"]["text"] = text
        document["stream"] = [
            {"at_ms": 10 * i, "delta": piece} for i, piece in enumerate(pieces_of(random, text))
        ]
    return document


def pieces_of(random: Random, text: str) -> list[str]:
    """The text in pieces of a few characters, some of them empty."""
    pieces = []
    while text:
        size = random.randrange(7)
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, ""]


def texts_in(document: Any) -> list[str]:
    """The texts of a fixture as a reader sees them, the stream put together."""
    if isinstance(document, str):
        return [document]
    if isinstance(document, list):
        if document and isinstance(document[0], dict) and "delta" in document[0]:
            return ["".join(chunk["delta"] for chunk in document)]
        return [text for item in document for text in texts_in(item)]
    if isinstance(document, dict):
        return [text for item in document.values() for text in texts_in(item)]
    return []


def survives(encoded: Encoded, document: Any) -> bool:
    """Whether a part of the secret worth eight of its characters is still to be read somewhere."""
    width = min(encoded.telling, len(encoded.units))
    windows = ["".join(encoded.units[i : i + width]) for i in range(len(encoded.units) - width + 1)]
    return any(window in text for text in texts_in(document) for window in windows)
