"""Secrets that never were, one kind for each service that documents its format.

Nothing here is, or ever was, a key. Prefixes are put together at run time, so that no scanner takes this
file for a leak. Each maker draws every character of the documented alphabet at every place the format
allows: keys that begin or end with a dash, keys that spell a word, keys of one case.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["IN_CONTEXT", "KINDS", "Maker", "Secret"]


@dataclass(frozen=True)
class Secret:
    """A secret, and what stands around it so that it is one."""

    text: str
    before: str = ""
    after: str = ""

    @property
    def whole(self) -> str:
        return self.before + self.text + self.after


Maker = Callable[[Random], Secret]

DIGITS: Final = string.digits
LOWER: Final = string.ascii_lowercase
UPPER: Final = string.ascii_uppercase
LETTERS: Final = string.ascii_letters
ALNUM: Final = LETTERS + DIGITS
WORD: Final = ALNUM + "_-"
HEX: Final = "0123456789abcdef"
BASE32: Final = UPPER + "234567"
BASE64: Final = ALNUM + "+/"
BECH32: Final = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


def some(random: Random, characters: str, count: int) -> str:
    return "".join(random.choices(characters, k=count))


def token(prefix: str, characters: str, least: int, most: int | None = None, suffix: str = "") -> Maker:
    """A maker for a prefix and as many characters, or a number of them between two."""

    def make(rng: Random) -> Secret:
        return Secret(prefix + some(rng, characters, rng.randint(least, most or least)) + suffix)

    return make


def any_of(*makers: Maker) -> Maker:
    return lambda rng: rng.choice(makers)(rng)


def joined(separator: str, *makers: Maker) -> Maker:
    return lambda rng: Secret(separator.join(make(rng).text for make in makers))


def behind(before: str, make: Maker) -> Maker:
    """A maker for what is a secret because of what stands before it."""
    return lambda rng: Secret(make(rng).text, before)


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _base64(prefix: str, least: int, most: int, start: bytes = b"") -> Maker:
    """A maker for base64 of random bytes, padding included."""

    def make(rng: Random) -> Secret:
        data = start + rng.randbytes(rng.randint(least, most))
        return Secret(prefix + base64.b64encode(data).decode())

    return make


def _uuid(rng: Random) -> str:
    return "-".join(some(rng, HEX, count) for count in (8, 4, 4, 4, 12))


def _jwt(rng: Random) -> Secret:
    head = {"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"}
    body = {"sub": some(rng, DIGITS, rng.randint(1, 20)), "iat": rng.randrange(10**9, 2 * 10**9)}
    parts = [_urlsafe(json.dumps(part, separators=(",", ":")).encode()) for part in (head, body)]
    return Secret(".".join([*parts, _urlsafe(rng.randbytes(rng.choice([32, 64, 256])))]))


def _private_key(rng: Random) -> Secret:
    kind = rng.choice(["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED ", "DSA "])
    body = base64.b64encode(rng.randbytes(rng.randrange(90, 700))).decode()
    end = rng.choice(["\n", "\r\n"])
    lines = end.join(body[i : i + 64] for i in range(0, len(body), 64))
    fence = "-" * 5
    return Secret(
        lines, f"{fence}BEGIN {kind}PRIVATE KEY{fence}{end}", f"{end}{fence}END {kind}PRIVATE KEY{fence}"
    )


def _discord(rng: Random) -> Secret:
    number = some(rng, "123456789", 1) + some(rng, DIGITS, rng.choice([16, 17, 18]))
    parts = [_urlsafe(number.encode()), some(rng, WORD, 6), some(rng, WORD, rng.choice([27, 38]))]
    return Secret(".".join(parts))


def _telegram(rng: Random) -> Secret:
    number = some(rng, "123456789", rng.randint(8, 10))
    return Secret("A" + "A" + some(rng, WORD, 33), f"{number}:")


def _sentry(rng: Random) -> Secret:
    body = {
        "iat": rng.randrange(10**9, 2 * 10**9) / 7,
        "url": "https://sentry.io",
        "org": some(rng, LOWER, 6),
    }
    text = base64.b64encode(json.dumps(body).encode()).decode()
    return Secret(f"sntry{'s_'}{text}_{some(rng, BASE64, 43)}")


def _slack_webhook(rng: Random) -> Secret:
    parts = [f"T{some(rng, BASE32, 10)}", f"B{some(rng, BASE32, 10)}", some(rng, ALNUM, 24)]
    return Secret("/".join(parts), "https://hooks.slack.com" + "/services/")


def _teams_webhook(rng: Random) -> Secret:
    path = f"webhookb2/{_uuid(rng)}@{_uuid(rng)}/IncomingWebhook/{some(rng, HEX, 32)}/{_uuid(rng)}"
    return Secret(path, f"https://{some(rng, LOWER, 8)}.webhook.office" + ".com/")


def _url_password(rng: Random) -> Secret:
    scheme = rng.choice(["postgres", "mysql", "amqp", "redis", "https", "mongodb+srv"])
    return Secret(some(rng, ALNUM + "_.!~-", 20), f"{scheme}://app:", "@db.internal.corp:5432/main")


def _basic(rng: Random) -> Secret:
    pair = f"{rng.choice(['admin', 'ci', 'deploy', 'jane'])}:{some(rng, ALNUM + '!$', 14)}"
    return Secret(base64.b64encode(pair.encode()).decode(), "Authorization: Basic ")


def _assignment(rng: Random) -> Secret:
    name = rng.choice(["api_key", "API_KEY", "apiKey", "client_secret", "DB_PASSWORD", "access_token"])
    mark = rng.choice(['="', " = '", ': "', "="])
    after = '"' if '"' in mark else "'" if "'" in mark else "\n"
    return Secret(some(rng, rng.choice([ALNUM, HEX]), rng.randrange(32, 48)), name + mark, after)


def _aws_secret(rng: Random) -> Secret:
    before = rng.choice(
        ["AWS_SECRET_ACCESS_KEY=", "aws_secret_access_key = ", f"AKI{'A'}{some(rng, BASE32, 16)} "]
    )
    return Secret(some(rng, BASE64, 40), before, "\n")


KINDS: Final[dict[str, Maker]] = {
    # Providers of models.
    "anthropic": any_of(
        token("sk-" + "ant-api03-", WORD, 93, suffix="AA"),
        token("sk-" + "ant-admin01-", WORD, 93, suffix="AA"),
    ),
    "anthropic-oauth": token("sk-" + "ant-oat01-", WORD, 93, suffix="AA"),
    "openai": joined("T3Blbk" + "FJ", token("sk" + "-", ALNUM, 20), token("", ALNUM, 20)),
    "openai-project": joined("T3Blbk" + "FJ", token("sk-" + "proj-", WORD, 74), token("", WORD, 74)),
    "openai-service": joined("T3Blbk" + "FJ", token("sk-" + "svcacct-", WORD, 58), token("", WORD, 58)),
    "openai-admin": joined("T3Blbk" + "FJ", token("sk-" + "admin-", WORD, 58), token("", WORD, 58)),
    "deepseek": token("sk" + "-", HEX, 32),
    "openrouter": token("sk-" + "or-v1-", HEX, 64),
    "langfuse": lambda rng: Secret(f"sk-{'lf'}-{_uuid(rng)}"),
    "google": token("AI" + "za", WORD, 35),
    "google-oauth": token("ya" + "29.", WORD, 60, 200),
    "google-client": token("GOC" + "SPX-", WORD, 28),
    "groq": token("gs" + "k_", ALNUM, 52),
    "perplexity": token("pp" + "lx-", ALNUM, 48),
    "xai": token("xa" + "i-", ALNUM, 80),
    "replicate": token("r" + "8_", ALNUM, 37),
    "nvidia": token("nv" + "api-", WORD, 64),
    "cerebras": token("cs" + "k-", LOWER + DIGITS, 48),
    "fireworks": token("f" + "w_", ALNUM, 22, 24),
    "together": token("tg" + "p_v1_", WORD, 43),
    "huggingface": token("h" + "f_", LETTERS, 34),
    "elevenlabs": token("s" + "k_", HEX, 48),
    "voyage": token("p" + "a-", WORD, 43),
    "jina": joined("", token("ji" + "na_", HEX, 32), token("", WORD, 28)),
    "langsmith": lambda rng: Secret(
        f"lsv{'2_'}{rng.choice(['pt', 'sk'])}_{some(rng, HEX, 32)}_{some(rng, HEX, 10)}"
    ),
    "tavily": token("tv" + "ly-", ALNUM, 32),
    "tavily-dev": token("tv" + "ly-dev-", ALNUM, 32),
    "pinecone": joined("_", token("pc" + "sk_", ALNUM, 5, 6), token("", ALNUM, 63)),
    "firecrawl": token("f" + "c-", HEX, 32),
    "e2b": token("e2" + "b_", HEX, 40),
    "weights-and-biases": token("wan" + "db_v1_", ALNUM, 77),
    # Clouds.
    "aws-access-key": any_of(*(token(f"A{kind}", BASE32, 16) for kind in ("KIA", "SIA", "BIA", "CCA"))),
    "aws-session-token": _base64("", 300, 700, base64.b64decode("IQoJb3Jp" + "Z2luX2Vj")),
    "aws-bedrock": _base64("AB" + "SK", 96, 99, b"BedrockAPIKey-"),
    "azure-client-secret": lambda rng: Secret(
        f"{some(rng, ALNUM, 3)}{some(rng, DIGITS, 1)}Q{'~'}{some(rng, ALNUM + '_~.-', rng.randint(31, 34))}"
    ),
    "azure-storage": behind(
        "DefaultEndpointsProtocol=https;AccountName=x;Account" + "Key=", _base64("", 64, 64)
    ),
    "alibaba": token("LT" + "AI", ALNUM, 20),
    "digitalocean": any_of(*(token(f"do{kind}_v1_", HEX, 64) for kind in "por")),
    "databricks": token("da" + "pi", HEX, 32),
    "databricks-numbered": lambda rng: Secret("da" + "pi" + some(rng, HEX, 32), after="-2"),
    "heroku": token("HRKU" + "-AA", WORD, 58),
    "fly-io": any_of(token("fo" + "1_", WORD, 43), _base64("fm2" + "_", 200, 300)),
    "planetscale": any_of(*(token(f"pscale{kind}", ALNUM + "_-.=", 43) for kind in ("_tkn_", "_pw_"))),
    "supabase": any_of(token("sb" + "p_", HEX, 40), token("sb_" + "secret_", WORD, 31)),
    "netlify": token("nf" + "p_", ALNUM, 36),
    "scalingo": token("tk-" + "us-", WORD, 48),
    "pulumi": token("pu" + "l-", HEX, 40),
    "vault": token("hv" + "s.", WORD, 90, 110),
    "terraform": joined(".atlas" + "v1.", token("", ALNUM, 14), token("", ALNUM + "_=-", 60, 70)),
    "doppler": token("dp.p" + "t.", ALNUM, 43),
    "1password": _base64("ops" + "_", 260, 260, b'{"sign'),
    "openshift": token("sha" + "256~", WORD, 43),
    "cloudflare-origin": lambda rng: Secret(f"v1{'.0'}-{some(rng, HEX, 24)}-{some(rng, HEX, 146)}"),
    # Code and packages.
    "github": any_of(*(token(f"gh{kind}_", ALNUM, 36) for kind in "pousr")),
    "github-fine-grained": joined("_", token("github" + "_pat_", ALNUM, 22), token("", ALNUM, 59)),
    "gitlab": any_of(*(token(f"gl{kind}-", WORD, 20) for kind in ("pat", "rt", "dt", "ft", "oas"))),
    "gitlab-routable": lambda rng: Secret(
        f"gl{'pat'}-{some(rng, WORD, 27)}.{some(rng, DIGITS, 2)}.{some(rng, LOWER + DIGITS, 9)}"
    ),
    "npm": token("np" + "m_", ALNUM, 36),
    "pypi": token("pypi-" + "AgEIcHlwaS5vcmc", WORD, 50, 160),
    "docker": token("dckr" + "_pat_", WORD, 27),
    "rubygems": token("ruby" + "gems_", HEX, 48),
    "crates-io": token("ci" + "o", ALNUM, 32),
    "artifactory": token("AKC" + "p", ALNUM, 69),
    "clojars": token("CLO" + "JARS_", LOWER + DIGITS, 60),
    "sourcegraph": lambda rng: Secret(f"sg{'p_'}{some(rng, HEX, 16)}_{some(rng, HEX, 40)}"),
    "octopus-deploy": token("AP" + "I-", UPPER + DIGITS, 26),
    "postman": lambda rng: Secret(f"PMA{'K-'}{some(rng, HEX, 24)}-{some(rng, HEX, 34)}"),
    "age": token("AGE-SECRET" + "-KEY-1", BECH32, 58),
    # Messages, money, teams.
    "slack-bot": joined(
        "-", token("xo" + "xb-", DIGITS, 10, 13), token("", DIGITS, 10, 13), token("", ALNUM, 24)
    ),
    "slack-user": joined(
        "-", token("xo" + "xp-", DIGITS, 12), token("", DIGITS, 12), token("", DIGITS, 12), token("", HEX, 32)
    ),
    "slack-app": joined(
        "-", token("xa" + "pp-1-A", UPPER + DIGITS, 10), token("", DIGITS, 13), token("", HEX, 64)
    ),
    "slack-webhook": _slack_webhook,
    "teams-webhook": _teams_webhook,
    "discord": _discord,
    "discord-webhook": behind(
        "https://discord.com" + "/api/webhooks/",
        joined("/", token("", "123456789", 18, 19), token("", WORD, 68)),
    ),
    "telegram": _telegram,
    "stripe": any_of(
        *(token(f"{kind}k_{place}_", ALNUM, 24, 99) for kind in "sr" for place in ("live", "test"))
    ),
    "stripe-webhook": token("wh" + "sec_", ALNUM, 32),
    "twilio": token("S" + "K", HEX, 32),
    "sendgrid": joined(".", token("S" + "G.", WORD, 22), token("", WORD, 43)),
    "sendinblue": joined("-", token("xkey" + "sib-", HEX, 64), token("", ALNUM, 16)),
    "mailgun": token("ke" + "y-", HEX, 32),
    "shopify": any_of(*(token(f"shp{kind}_", HEX, 32) for kind in ("at", "ca", "pa", "ss"))),
    "square": any_of(token("sq0" + "atp-", WORD, 22), token("sq0" + "csp-", WORD, 43)),
    "facebook": token("EAA" + "C", ALNUM, 100, 200),
    "flutterwave": token("FLWSECK" + "_TEST-", HEX, 32, suffix="-X"),
    "easypost": any_of(token("EZ" + "AK", ALNUM, 54), token("EZ" + "TK", ALNUM, 54)),
    "duffel": token("duffel" + "_live_", ALNUM + "_-=", 43),
    "shippo": token("shippo" + "_live_", HEX, 40),
    "notion": any_of(token("nt" + "n_", ALNUM, 46), token("sec" + "ret_", ALNUM, 43)),
    "linear": token("lin" + "_api_", ALNUM, 40),
    "atlassian": token("ATAT" + "T3", ALNUM + "_=-", 186),
    "figma": token("fi" + "gd_", WORD, 40),
    "airtable": joined(".", token("pa" + "t", ALNUM, 14), token("", HEX, 64)),
    "sentry": _sentry,
    "sentry-user": token("sntry" + "u_", HEX, 64),
    "grafana": joined("_", token("gls" + "a_", ALNUM, 32), token("", HEX, 8)),
    "grafana-cloud": _base64("gl" + "c_", 60, 100, b'{"o":"'),
    "newrelic": token("NRA" + "K-", UPPER + DIGITS, 27),
    "dynatrace": joined(".", token("dt0c" + "01.", BASE32, 24), token("", BASE32, 64)),
    "contentful": token("CFP" + "AT-", WORD, 43),
    "typeform": token("tf" + "p_", ALNUM + "-_.=", 59),
    "readme": token("rd" + "me_", LOWER + DIGITS, 70),
    "prefect": token("pn" + "u_", ALNUM, 36),
    "adobe": token("p8" + "e-", ALNUM, 32),
    "defined-networking": joined("-", token("dn" + "key-", WORD, 26), token("", WORD, 52)),
    "frame-io": token("fi" + "o-u-", WORD, 64),
    "harness": joined(".", token("p" + "at.", WORD, 22), token("", ALNUM, 24), token("", ALNUM, 20)),
    "infracost": token("ic" + "o-", ALNUM, 32),
    "intra42": token("s-s4t2" + "ud-", HEX, 64),
    "settlemint": token("sm_" + "aat_", ALNUM, 16),
    # Of no one service.
    "jwt": _jwt,
    "private-key": _private_key,
    "url-password": _url_password,
}
"""By what they are. Each is a secret by its own shape, wherever it stands."""

IN_CONTEXT: Final[dict[str, Maker]] = {
    "assignment": _assignment,
    "aws-secret-key": _aws_secret,
    "basic": _basic,
    "bearer": behind("Authorization: Bearer ", token("", ALNUM, 28, 63)),
}
"""Those that only a name beside them makes a secret."""
