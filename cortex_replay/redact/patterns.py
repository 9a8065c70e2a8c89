"""What secrets of well-known services look like.

Each pattern starts from a short text that every match holds. The words of a text are looked up among the
words that these begin with, so that most texts are told apart at the price of splitting them; only then
is an expression compiled and run. Expressions take time linear in any text: they begin with that literal,
what repeats is possessive or bounded, and what one attempt reads before it fails the next attempt does
not read again. A test holds each to it.

A match that is plainly an example (``your-key-here``, ``xxxxxxxx``) is no secret. The shapes follow the
public documentation of each service; `docs/redaction.md` has the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from cortex_replay.redact.randomness import has_digit, is_example, is_mixed, is_random
from cortex_replay.redact.views import Span, ascii_bytes, decode_base64
from cortex_replay.secret_names.values import is_dummy
from cortex_replay.secret_names.wordlike import spells_words

__all__ = ["PATTERNS", "SHORT_PATTERNS", "URL_PASSWORD", "Pattern", "PatternTable"]

URL_PASSWORD: Final = "url-password"  # noqa: S105 - the name of a rule

_WORD: Final = "[A-Za-z0-9_-]"
_ALNUM: Final = "[A-Za-z0-9]"
_HEX: Final = "[0-9a-fA-F]"
_BASE64: Final = "[A-Za-z0-9+/]"
_BEARER: Final = [f"{word}{mark}" for word in ("Bearer", "bearer", "BEARER") for mark in " +:"]
_HARNESS: Final = ("pat", "sat")
_AZURE_KEYS: Final = ("AccountKey", "SharedAccessKey")
_BEARER_VALUE: Final = "[ +:]{0,2}+([A-Za-z0-9._~+/=-]{20,}+)"
_HEADER_VALUE: Final = (
    r"""["']?[ ]{0,4}[:=][ ]{0,4}["']?(?:[Bb]earer|[Tt]oken)[ +]{1,2}([A-Za-z0-9._~+/=-]{20,}+)"""
)

_AFTER_PORT: Final = re.compile(r"[0-9]{2,5}[^\w%]+([A-Za-z.:_-]+)")
"""In a list, where the address of a server is followed by that of a person."""
_START: Final = 2
_FIRST_WORD: Final = re.compile("[A-Za-z0-9]{2,}")
_ALNUM_ONLY: Final = bytes(code if chr(code).isalnum() and code < 128 else ord(" ") for code in range(256))


class Pattern(NamedTuple):
    """How one kind of secret is found."""

    name: str
    anchor: str
    """Stands in, or right before, every match."""
    find: Callable[[str], Iterator[Span]]
    """Where in a text such secrets stand."""


class PatternTable:
    """Patterns by the word that their secrets begin with."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.patterns = tuple(patterns)
        self._by_word: dict[bytes, list[Pattern]] = {}
        self._by_start: dict[bytes, list[Pattern]] = {}
        for pattern in self.patterns:
            match = _FIRST_WORD.search(pattern.anchor)
            if match is None:
                raise ValueError(f"the anchor of {pattern.name} has no word")
            word = match[0].encode()
            if match.end() < len(pattern.anchor):
                self._by_word.setdefault(word, []).append(pattern)
            else:  # the word goes on
                self._by_start.setdefault(word[:_START], []).append(pattern)
        self._words = frozenset(self._by_word)
        self._starts = frozenset(self._by_start)

    def candidates_in(self, text: str) -> Iterator[Pattern]:
        """The patterns whose anchor stands in a text."""
        words = set(ascii_bytes(text).translate(_ALNUM_ONLY).split())
        patterns = [pattern for word in words & self._words for pattern in self._by_word[word]]
        starts = {word[:_START] for word in words if len(word) > _START}  # a dash may follow the anchor
        patterns += [pattern for start in starts & self._starts for pattern in self._by_start[start]]
        return (pattern for pattern in patterns if pattern.anchor in text)


def _anything(_: str) -> bool:
    return True


@cache
def _compile(expression: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(expression, flags)


def _pattern(
    name: str,
    anchor: str,
    following: str,
    check: Callable[[str], bool] = _anything,
    *,
    preceding: str | None = None,
    lead: int = 0,
) -> Pattern:
    """A pattern for a literal and what stands around it; the secret is group 1, or all of it.

    What is ``preceding`` has one length, of which the last ``lead`` characters belong to the secret;
    by default it is anything but a letter or digit. It is asked for after the literal was found,
    because an expression that begins with a question is tried everywhere.
    """
    literal = re.escape(anchor)
    before = f"(?<![A-Za-z0-9]{literal})" if preceding is None else f"(?<={preceding}{literal})"
    expression = f"{literal}{before}{following}"

    def find(text: str) -> Iterator[Span]:
        for match in _compile(expression).finditer(text):
            start, end = match.span(match.lastindex or 0)
            shown = text[max(start, match.start() + len(anchor)) : end]
            if not is_example(shown) and check(shown):
                yield start - lead, end

    return Pattern(name, anchor, find)


def _tokens(name: str, characters: str, least: int, *anchors: str) -> Iterator[Pattern]:
    """Patterns for tokens that begin with a fixed prefix and go on as long as their characters do."""
    check = is_mixed if characters == _WORD else _anything  # words with dashes are not meant
    for anchor in anchors:
        yield _pattern(name, anchor, f"{characters}{{{least},}}+", check)


def _exact(name: str, characters: str, length: int, *anchors: str) -> Iterator[Pattern]:
    """Patterns for tokens of one length; a longer one is something else."""
    for anchor in anchors:
        yield _pattern(name, anchor, f"{characters}{{{length}}}(?![A-Za-z0-9])")


def _is_bearer(value: str) -> bool:
    """Whether what follows the word is a token, and not the rest of a path or a sentence."""
    return is_random(value) and not ("/" in value and value.islower())


def _is_basic(value: str) -> bool:
    """Whether a Basic header's value is a name and a password."""
    decoded = decode_base64(value.rstrip("="))
    return b":" in decoded and decoded.isascii() and decoded.decode().isprintable()


def _passwords(text: str) -> Iterator[Span]:
    """The password in ``scheme://name:password@host``."""
    expression = _compile(
        r"""://[^\s/:@"'<>\\\x00]{0,128}+:([^\s/@"'<>\\\x00]{6,256}+)@(?=[A-Za-z0-9\[_.-])"""
        r"(?!(?:[a-z0-9-]{1,30}\.){0,3}(?:example(?:\.(?:com|org|net))?|test)(?![A-Za-z0-9.-]))",
        re.ASCII,
    )
    for match in expression.finditer(text):
        after_port = _AFTER_PORT.fullmatch(match[1])
        if not is_dummy(match[1]) and (after_port is None or not spells_words(after_port[1])):
            yield match.span(1)


def _web_tokens(text: str) -> Iterator[Span]:
    """JSON web tokens. From the middle part outward: a long run before a dot is then read only once."""
    after = 0
    for match in _compile(r"\.ey[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+").finditer(text):
        low = max(after, match.start() - 2048)
        before = text[low : match.start()]
        head = len(before.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))
        begin = before.find("ey", head)
        if begin >= 0 and len(before) - begin >= 10:
            after = match.end()
            yield low + begin, after


def _private_keys(text: str) -> Iterator[Span]:
    """From ``BEGIN`` to ``END``, or as far as it goes on like a key where the end was cut off."""
    expression = _compile(
        r"""-----BEGIN[A-Z0-9 +_]{0,48}PRIVATE[ +_]KEY(?:[ +_]BLOCK)?-----
        (?: ( (?: [^-\x00]++ | -(?!----) )*+ ) -----END[A-Z0-9 +_]{0,64}-----
          | ( (?: (?: \s | \\{1,8}[nr] ){0,8}+ [A-Za-z0-9+/=]{16,}+ )++ ) )""",
        re.VERBOSE,
    )
    for match in expression.finditer(text):
        body = match[1] or match[2] or ""
        if re.search(r"[A-Za-z0-9+/]{16}", body) and not is_example(body[-64:]):
            yield match.span()


_PATTERNS: Final[tuple[Pattern, ...]] = (
    # The most telling first: where two patterns find the same, the first gives its name.
    *_tokens("anthropic", _WORD, 20, "sk-ant-"),
    *_tokens("openrouter", _WORD, 20, "sk-or-"),
    *_tokens("langfuse", _WORD, 20, "sk-lf-"),
    *_tokens("openai", _WORD, 20, "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-service-", "sk-None-"),
    _pattern("openai", "sk-", f"{_WORD}{{20,}}+", is_random),
    *_tokens("openai", _ALNUM, 36, "sess-"),
    *_exact("google", _WORD, 35, "AIza"),
    *_tokens("google-oauth", _WORD, 20, "ya29.", "GOCSPX-"),
    *_exact("aws-access-key", "[A-Z0-9]", 16, "AKIA", "ASIA", "ABIA", "ACCA"),
    _pattern("aws-access-key", "A3T", "[A-Z0-9]{17}(?![A-Za-z0-9])"),
    *_tokens("aws-session-token", "[A-Za-z0-9+/=]", 100, "IQoJb3JpZ2lu", "FwoGZXIvYXdz"),
    *_tokens("aws-bedrock", "[A-Za-z0-9+/=]", 100, "ABSK"),
    *_tokens("aws-bedrock", "[A-Za-z0-9+/=]", 40, "bedrock-api-key-"),
    *_tokens("github", _ALNUM, 36, "ghp_", "gho_", "ghu_", "ghr_"),
    *_tokens("github", "[A-Za-z0-9_.-]", 36, "ghs_"),
    *_tokens("github", "[A-Za-z0-9_]", 36, "github_pat_"),
    *_tokens(
        "gitlab",
        "[A-Za-z0-9_.-]",
        20,
        *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-"),
        *("glsoat-", "glffct-", "GR1348941"),
    ),
    *(_pattern("slack", f"xox{kind}-", "[A-Za-z0-9-]{12,}+", has_digit) for kind in "abcdeoprs"),
    *(_pattern("slack", f"xoxe.xox{kind}-", "[A-Za-z0-9-]{12,}+", has_digit) for kind in "bp"),
    _pattern("slack", "xapp-", r"\d-[A-Z0-9]{6,32}-\d{6,20}-[a-z0-9]{16,}+"),
    _pattern("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,}+)"),
    _pattern("discord-webhook", "discord.com/api/webhooks/", rf"(\d{{15,22}}/{_WORD}{{40,}}+)"),
    _pattern("discord-webhook", "discordapp.com/api/webhooks/", rf"(\d{{15,22}}/{_WORD}{{40,}}+)"),
    _pattern(
        "teams-webhook", ".webhook.office.com/", r"(webhookb2/[A-Za-z0-9@/-]{60,}+)", preceding="[A-Za-z0-9]"
    ),
    *_tokens("stripe", _ALNUM, 16, "sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"),
    *_tokens("stripe", _BASE64, 32, "whsec_"),
    *_tokens("elevenlabs", "[0-9a-f]", 40, "sk_"),
    _pattern("twilio", "SK", r"[0-9a-fA-F]{32}(?![A-Za-z0-9])"),
    _pattern("twilio", "AC", r"[0-9a-f]{32}:([0-9a-f]{32})(?![A-Za-z0-9])"),
    *_tokens("sendgrid", "[A-Za-z0-9=_.-]", 50, "SG."),
    *_tokens("sendinblue", "[0-9a-zA-Z-]", 64, "xkeysib-"),
    # "cache-key-" and a digest is none.
    _pattern("mailgun", "key-", "[0-9a-f]{32}(?![A-Za-z0-9])", preceding="(?<![A-Za-z0-9-])"),
    *_exact("mailgun", "[0-9a-f]", 32, "pubkey-"),
    *_tokens("npm", _ALNUM, 36, "npm_"),
    *_tokens("pypi", _WORD, 50, "pypi-AgE"),
    *_tokens("huggingface", _ALNUM, 30, "hf_", "api_org_"),
    *_tokens("groq", _ALNUM, 32, "gsk_"),
    *_tokens("perplexity", _ALNUM, 32, "pplx-"),
    *_tokens("xai", _ALNUM, 40, "xai-"),
    *_tokens("replicate", _ALNUM, 36, "r8_"),
    *_tokens("nvidia", _WORD, 40, "nvapi-"),
    *_tokens("cerebras", _ALNUM, 32, "csk-"),
    *_tokens("fireworks", _ALNUM, 22, "fw_"),
    *_tokens("together", _WORD, 40, "tgp_v1_"),
    *_tokens("langsmith", "[0-9a-z_]", 32, "lsv2_pt_", "lsv2_sk_"),
    *_tokens("tavily", _WORD, 28, "tvly-"),
    *_tokens("pinecone", "[A-Za-z0-9_]", 40, "pcsk_"),
    *_tokens("voyage", _WORD, 40, "pa-"),
    *_tokens("jina", _WORD, 50, "jina_"),
    *_tokens("firecrawl", "[0-9a-f]", 32, "fc-"),
    *_tokens("e2b", "[0-9a-f]", 40, "e2b_"),
    *_tokens("weights-and-biases", _WORD, 40, "wandb_v1_"),
    *_tokens("databricks", "[0-9a-f]", 32, "dapi"),
    *_tokens("digitalocean", "[0-9a-f]", 64, "dop_v1_", "doo_v1_", "dor_v1_"),
    *_tokens("shopify", _HEX, 32, "shpat_", "shpca_", "shppa_", "shpss_"),
    *(_pattern("azure-storage", f"{word}=", "([A-Za-z0-9+/]{40,}+={0,2})") for word in _AZURE_KEYS),
    _pattern("azure-sas", "sig=", "((?:[A-Za-z0-9+/]|%2[BbFf]){43}(?:=|%3[Dd]))", preceding="[?&;]"),
    *_tokens("notion", _ALNUM, 40, "ntn_"),
    _pattern("notion", "secret_", f"{_ALNUM}{{40,}}+", is_mixed),
    *_tokens("linear", _ALNUM, 32, "lin_api_", "lin_oauth_"),
    *_tokens("figma", _WORD, 36, "figd_", "figdr_"),
    _pattern("airtable", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    *_tokens("sentry", "[A-Za-z0-9+/=_]", 60, "sntrys_", "sntryu_"),
    *_tokens("grafana", "[A-Za-z0-9+/=_]", 32, "glsa_", "glc_"),
    *_tokens("newrelic", "[A-Z0-9]", 26, "NRAK-"),
    *_tokens("vault", _WORD, 80, "hvs.", "hvb."),
    *_tokens(
        "doppler", "[A-Za-z0-9._-]", 40, "dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."
    ),
    *_tokens("docker", _WORD, 26, "dckr_pat_", "dckr_oat_"),
    *_tokens("rubygems", "[0-9a-f]", 48, "rubygems_"),
    *_exact("crates-io", _ALNUM, 32, "cio"),
    *_tokens("square", _WORD, 22, "sq0atp-", "sq0csp-"),
    *_tokens("facebook", _ALNUM, 100, "EAAM", "EAAC"),
    _pattern("postman", "PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}"),
    *_tokens("supabase", _WORD, 24, "sbp_", "sb_secret_"),
    *_tokens("netlify", _WORD, 36, "nfp_"),
    *_tokens("heroku", _WORD, 58, "HRKU-AA"),
    *_tokens("fly-io", "[A-Za-z0-9+/=_-]", 40, "fo1_", "fm2_", "fm1a_", "fm1r_"),
    *_tokens("pulumi", "[0-9a-f]", 40, "pul-"),
    *_tokens("contentful", _WORD, 40, "CFPAT-"),
    *_tokens("dynatrace", "[A-Z0-9.]", 80, "dt0c01."),
    *_tokens("1password", "[A-Za-z0-9+/=]", 200, "ops_eyJ"),
    *_exact("age", "[A-Z0-9]", 58, "AGE-SECRET-KEY-1"),
    *_exact("alibaba", _ALNUM, 20, "LTAI"),
    *_tokens("artifactory", _ALNUM, 69, "AKCp"),
    *_tokens("openshift", _WORD, 43, "sha256~"),
    *_tokens("prefect", _ALNUM, 36, "pnu_", "pnb_"),
    *_tokens("readme", "[a-z0-9]", 70, "rdme_"),
    *_tokens("shippo", "[0-9a-f]", 40, "shippo_live_", "shippo_test_"),
    *_tokens("sourcegraph", "[0-9a-fA-F_]", 40, "sgp_"),
    *_tokens("easypost", _ALNUM, 54, "EZAK", "EZTK"),
    *_tokens("adobe", _ALNUM, 32, "p8e-"),
    *_tokens("clojars", _ALNUM, 60, "CLOJARS_"),
    *_tokens("cloudflare", "[0-9a-f-]", 100, "v1.0-"),
    *_tokens("defined-networking", _WORD, 60, "dnkey-"),
    *_tokens("flutterwave", "[0-9a-zA-Z-]", 20, "FLWSECK_TEST-", "FLWSECK-"),
    *_tokens("frame-io", _WORD, 60, "fio-u-"),
    *(
        _pattern("harness", f"{word}.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}")
        for word in _HARNESS
    ),
    *_tokens("infracost", _ALNUM, 32, "ico-"),
    *_tokens("intra42", "[0-9a-f]", 64, "s-s4t2ud-", "s-s4t2af-"),
    *_exact("octopus-deploy", "[A-Z0-9]", 26, "API-"),
    *_tokens("scalingo", _WORD, 40, "tk-us-"),
    *_tokens("settlemint", _ALNUM, 16, "sm_aat_", "sm_pat_", "sm_sat_"),
    Pattern("jwt", ".ey", _web_tokens),
    *(_pattern("bearer", word, _BEARER_VALUE, _is_bearer) for word in _BEARER),
    *(_pattern("bearer", word, _HEADER_VALUE, is_mixed) for word in ("Authorization", "authorization")),
)

PATTERNS: Final = PatternTable(_PATTERNS)
"""Patterns for secrets that hold a run of :data:`~cortex_replay.redact.views.SHORTEST_RUN`."""

SHORT_PATTERNS: Final[tuple[Pattern, ...]] = (
    _pattern(
        "azure-client-secret", "~", "[A-Za-z0-9_~.-]{31,34}", preceding="[A-Za-z0-9_~.]{3}[0-9]Q", lead=5
    ),
    # In these an equals sign or a dot may stand anywhere, so that no part of them need be long.
    _pattern("planetscale", "pscale_", "(?:tkn|oauth|pw)_[A-Za-z0-9_=.-]{32,}+"),
    *_tokens("typeform", "[A-Za-z0-9_.=-]", 40, "tfp_"),
    _pattern("duffel", "duffel_", "(?:live|test)_[A-Za-z0-9_=-]{40,}+"),
    _pattern("atlassian", "TT3", "[A-Za-z0-9_=-]{100,}+", preceding="AT[AC]", lead=3),
    _pattern("terraform", ".atlasv1.", "[A-Za-z0-9_=-]{60,}+", preceding="[A-Za-z0-9]{14}", lead=14),
    Pattern("private-key", "-----BEGIN", _private_keys),
    Pattern(URL_PASSWORD, "@", _passwords),
    _pattern("basic", "asic", r"[ +]{1,3}+([A-Za-z0-9+/_-]{8,}+={0,2})", _is_basic, preceding="[Bb]"),
)
"""Patterns for secrets that may be shorter, asked of every text."""
