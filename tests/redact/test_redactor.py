"""Texts, pieces and JSON: what is cut out, what stays, and that doing it again changes nothing."""

from __future__ import annotations

import json
from functools import cache
from random import Random

import pytest
from hypothesis import given, strategies as st

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.patterns import PATTERNS, SHORT_PATTERNS, Pattern
from cortex_replay.redact.redactor import Hit, Redactor
from cortex_replay.redact.search import rule_names
from tests.cases import each
from tests.property.strategies import effort, json_values
from tests.redact.kinds import ALNUM, HEX, IN_CONTEXT, KINDS, Secret, some
from tests.redact.planted import ENCODINGS, fixture, pieces_of

RANDOM = Random(6)
GITHUB = "gh" + "p_" + some(RANDOM, ALNUM, 36)
OPENAI = "sk-" + "proj-" + some(RANDOM, ALNUM, 60)
WITH_PATTERN = Redactor(["known/value+08"], {"mine": r"aB3\S+"})
AWKWARD = Redactor(["known/value+08", "n\\aB3aB3aB3", 'u00e9"""""', "nvapi---known"])
ALL_KINDS = KINDS | IN_CONTEXT
OTHER_RULES = {"deepseek": "openai", "google-client": "google-oauth"}


def rule_of(kind: str) -> str:
    """The rule that finds a kind: of its own name, or of the service's."""
    return kind if kind in rule_names() else OTHER_RULES.get(kind, kind.partition("-")[0])


planted = st.builds(
    lambda kind, encoding, seed: ENCODINGS[encoding](Random(seed), ALL_KINDS[kind](Random(seed))).text,
    st.sampled_from(sorted(ALL_KINDS)),
    st.sampled_from(sorted(ENCODINGS)),
    st.integers(0, 2**32),
)
loose = st.text(st.sampled_from('aB3 \\"%n=:/-_.+@{}[]\n\x00é'), max_size=12)
texts = st.lists(loose | planted | st.sampled_from(["[REDACTED:openai]", GITHUB, "[REDACTED:", "sk-"])).map(
    "".join
)


@each(ALL_KINDS)
def test_each_kind_is_cut_out_under_its_name(kind: str) -> None:
    """What stands around it stays, but for the padding of base64 and the lines of a key file."""
    for seed in range(20):
        secret = ALL_KINDS[kind](Random(f"{kind}/{seed}"))
        redacted, hits = Redactor().text(f"It was: {secret.whole}\nand no more.")

        name = rule_of(kind)
        before, after = ("", "") if kind == "private-key" else (secret.before, secret.after)
        if kind == "aws-secret-key" and Hit("aws-access-key", 1) in hits:
            before = "[REDACTED:aws-access-key] "
        assert Hit(name, 1) in hits
        assert redacted == f"It was: {before}[REDACTED:{name}]{after}\nand no more."


def test_a_text_without_secrets_is_given_back_as_it_is() -> None:
    """The same object: there was nothing to make anew."""
    text = "Nothing to see here, neither key nor token nor password."
    document: JsonValue = {"a": [text], "b": 1.5, "c": None}

    assert Redactor().text(text)[0] is text
    assert Redactor().json(document) == (document, [])
    assert Redactor().json(document)[0] is document
    assert Redactor().pieces([text, ""]) == ([text, ""], [])
    assert Redactor().pieces([]) == ([], [])


def test_hits_are_counted_by_rule() -> None:
    """In the order in which they were met."""
    text = f"{GITHUB} {OPENAI} {GITHUB}"

    assert Redactor().text(text)[1] == [Hit("github", 2), Hit("openai", 1)]
    assert Redactor().json({"a": text, "b": [GITHUB]})[1] == [Hit("github", 3), Hit("openai", 1)]


def test_a_secret_over_several_pieces_is_replaced_in_the_first() -> None:
    """The others lose their part, and none is lost."""
    pieces, hits = Redactor().pieces(["so ", f"it is {GITHUB[:9]}", "", GITHUB[9:20], GITHUB[20:] + " then"])

    assert pieces == ["so ", "it is [REDACTED:github]", "", "", " then"]
    assert hits == [Hit("github", 1)]


@given(text=texts, seed=st.integers(0, 2**32))
@effort(100)
def test_pieces_are_redacted_as_their_text(text: str, seed: int) -> None:
    """However a text was cut up, the same is cut out of it."""
    redactor = Redactor(["known/value+08"])
    cut = pieces_of(Random(seed), text)
    pieces, hits = redactor.pieces(cut)

    assert len(pieces) == len(cut)
    assert ("".join(pieces), hits) == redactor.text(text)


@given(text=texts)
@effort(100)
def test_redacting_again_changes_nothing(text: str) -> None:
    """A placeholder is no secret, nor is anything beside it that was none before."""
    once, _ = WITH_PATTERN.text(text)

    assert WITH_PATTERN.text(once) == (once, [])


@given(value=json_values)
@effort(100)
def test_json_keeps_its_shape(value: JsonValue) -> None:
    """Nothing but strings changes, and names do not."""
    redacted, _ = Redactor([], {"all": "."}).json(value)

    assert _without_strings(redacted) == _without_strings(value)


def _without_strings(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return "*" if value else ""
    if isinstance(value, list):
        return [_without_strings(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_strings(item) for name, item in value.items()}
    return value


@each(ALL_KINDS)
def test_arguments_stay_json_and_say_the_same_in_both_forms(kind: str) -> None:
    """Cut out of the text of a tool call or of its parsed arguments, the result is the same JSON."""
    redactor = Redactor()
    for seed in range(10):
        random = Random(seed)
        secret = ALL_KINDS[kind](random)
        arguments: JsonValue = {"input": f"x {secret.whole} y", "list": [secret.whole], "n": 1}
        written = json.dumps(arguments, ensure_ascii=random.random() < 0.5)
        pieces, _ = redactor.pieces(pieces_of(random, written))

        assert json.loads("".join(pieces)) == redactor.json(arguments)[0]


@given(text=texts)
@effort(100)
def test_the_text_of_json_stays_json(text: str) -> None:
    """No half of an escape is left behind, whatever is cut out."""
    for value in (text, f'{text}\nvapi---known\\nvapi---known\\n\\aB3aB3aB3u00e9"""""{text}'):
        written = json.dumps({"a": value, "b": [value]})

        assert set(json.loads(AWKWARD.text(written)[0])) == {"a", "b"}


def test_objects_say_by_a_name_what_is_secret() -> None:
    """A random value under such a name is one, an id or a word is not."""
    value = some(RANDOM, ALNUM, 32)
    document: dict[str, JsonValue] = {
        "api_key": value,
        "auth": {"client_secret": value, "user": "jo", "password": "correct horse"},
        "next_page_token": value,
        "token_count": value,
        "id": value,
        "access_token": "see the vault of the project",
    }
    redacted, hits = Redactor().json(document)

    assert hits == [Hit("assignment", 2)]
    assert redacted == {
        **document,
        "api_key": "[REDACTED:assignment]",
        "auth": {"client_secret": "[REDACTED:assignment]", "user": "jo", "password": "correct horse"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-api03-your-key-here-your-key-here",
        "export OPENAI_API_KEY=sk-" + "x" * 48,
        "AK" + "IAIOSFODNN7EXAMPLE",
        "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE_PLEASE",
        "Basic authentication is basic indeed",
        "Authorization: Basic <credentials>",
        "postgres://user:password@localhost/db and redis://:${REDIS_PASSWORD}@cache",
        "https://jo:s3cretpassword@example.com/",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "class sk-toggleable__content-and-more-of-it is from scikit-learn",
        f"task-{some(RANDOM, HEX, 32)} and desk-{some(RANDOM, ALNUM, 40)}",
        f"secret_key={'make' * 6}_2(token)",
        'config = {"password": get_password_from_vault_v2}',
        f"next_page_token={some(RANDOM, ALNUM, 40)}",
        "secret: x509DefaultTokenExchangeTimeout",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    """Examples, templates, identifiers, ids."""
    assert Redactor().text(text) == (text, [])


def test_own_patterns() -> None:
    """Found in every encoding too; group 1 is what is cut out."""
    redactor = Redactor(extra_patterns={"ticket": r"TICKET-(\d{4})", "word": "^swordfish"})

    assert redactor.text("a TICKET-1234 b") == ("a TICKET-[REDACTED:ticket] b", [Hit("ticket", 1)])
    assert redactor.text("%54ICKET-1%3234")[0] == "%54ICKET-[REDACTED:ticket]"
    assert redactor.json({"a": "swordfish", "b": "no swordfish"})[0] == {
        "a": "[REDACTED:word]",
        "b": "no swordfish",
    }
    assert redactor.found_in({"a": "swordfish"}) == [("a", "word")]


@pytest.mark.parametrize(
    ("patterns", "reason"),
    [
        ({"x": "("}, "no regular expression"),
        ({"X]": "a"}, "cannot name"),
        ({"": "a"}, "cannot name"),
        ({"openai": "a"}, "there is a rule of that name"),
        ({"known-value": "a"}, "there is a rule of that name"),
    ],
)
def test_own_patterns_are_checked(patterns: dict[str, str], reason: str) -> None:
    """A name must fit into a placeholder and be its own."""
    with pytest.raises(ValueError, match=reason):
        Redactor(extra_patterns=patterns)


def test_only_some_rules() -> None:
    """For a use in which the rest is to stay."""
    text = f"{GITHUB} {OPENAI} mine-1 api_key='{some(RANDOM, ALNUM, 32)}' at value-of-mine"
    redactor = Redactor(["value-of-mine"], {"mine": r"mine-\d"}, only=["github", "mine"])

    expected = text.replace(GITHUB, "[REDACTED:github]").replace("mine-1", "[REDACTED:mine]")
    assert redactor.text(text)[0] == expected
    assert redactor.json({"api_key": OPENAI})[0] == {"api_key": OPENAI}
    with pytest.raises(ValueError, match="no rule 'nothing'"):
        Redactor(only=["nothing"])


def test_the_known_is_named_before_the_pattern_and_the_telling_before_the_general() -> None:
    """Where several rules find the same, there is one placeholder."""
    line = f"Authorization: Bearer {OPENAI}"

    assert Redactor().text(line)[0] == "Authorization: Bearer [REDACTED:openai]"
    assert Redactor([OPENAI]).text(line)[0] == "Authorization: Bearer [REDACTED:known-value]"
    assert Redactor(extra_patterns={"mine": "Bearer .*"}).text(line)[0] == "Authorization: [REDACTED:mine]"


def test_strange_texts_are_taken() -> None:
    """Half a surrogate pair, a number beyond 64 bits: nothing is refused here."""
    document: JsonValue = {"a": f"\ud83d {GITHUB}", "n": 2**70}
    redacted, hits = Redactor(["\ude00known-value"]).json(document)

    assert redacted == {"a": "\ud83d [REDACTED:github]", "n": 2**70}
    assert hits == [Hit("github", 1)]


def test_no_rule_matches_a_placeholder() -> None:
    """Of any name, after any word that a rule begins with."""
    redactor = Redactor()
    words = [
        "",
        "api_key=",
        'password: "',
        "Bearer ",
        "Basic ",
        "postgres://jo:",
        *(r.anchor for r in PATTERNS.patterns),
    ]
    for name in rule_names():
        text = "\n".join(f"{word}[REDACTED:{name}]@host" for word in words)
        assert redactor.text(text) == (text, [])


def test_every_rule_has_a_kind_planted_or_is_of_the_common_form() -> None:
    """What is odd about a rule is tried out; the others differ only in prefix and length."""
    odd = {rule.name for rule in SHORT_PATTERNS} | {"jwt", "bearer", "aws-access-key", "slack", "sendgrid"}

    assert odd <= set(map(rule_of, ALL_KINDS))
    assert len(rule_names()) > 80


@each(PATTERNS.patterns, lambda rule: f"{rule.name} {rule.anchor}")
def test_every_rule_finds_something(rule: Pattern) -> None:
    """Its prefix and enough random characters of one of the usual alphabets."""
    befores = (" ", "?", "acme", "a1b2c3d4e5f6g7", "x eyJhbGciOiJIUzI1NiJ9")
    made = [f"{before}{rule.anchor}{tail}" for before in befores for tail in _tails()]
    text = next(text for text in made if any(True for _ in rule.find(text)))

    assert rule in PATTERNS.candidates_in(text)
    assert Redactor().text(text)[1] != []


@cache
def _tails() -> list[str]:
    random = Random(2)
    upper = ALNUM[26:52] + "0123456789"
    made = [
        some(random, letters, length)
        for letters in (ALNUM, HEX, upper)
        for length in (16, 17, 20, 26, 32, 35, 58, 120, 240)
    ]
    joined = [
        f"{some(random, HEX, 32)}:{some(random, HEX, 32)}",
        f"{some(random, HEX, 24)}-{some(random, HEX, 34)}",
        f"{some(random, ALNUM, 14)}.{some(random, HEX, 64)}",
        f"1-A{some(random, upper, 10)}-{'7012' * 3}-{some(random, HEX, 64)}",
        f"services/T{some(random, upper, 10)}/B{some(random, upper, 10)}/{some(random, ALNUM, 24)}",
        f"{'8012' * 5}/{some(random, ALNUM, 68)}",
        f"webhookb2/{some(random, HEX, 32)}@{some(random, HEX, 32)}/x",
        f"{some(random, ALNUM, 43)}=",
        f"{some(random, ALNUM, 20)}.{some(random, ALNUM, 40)}",
        f": token {some(random, ALNUM, 40)}",
        f"{some(random, ALNUM, 22)}.{some(random, ALNUM, 24)}.{some(random, ALNUM, 20)}",
    ]
    return made + joined


def test_a_planted_fixture_is_what_a_recorder_would_hand_over() -> None:
    """The generator's own promise: the secret stands in it somewhere."""
    secret = Secret("value-of-mine-2")
    for name, encode in ENCODINGS.items():
        for seed in range(20):
            random = Random(seed)
            document = fixture(random, encode(random, secret))
            assert Redactor([secret.text]).left_in(document) != [], name
