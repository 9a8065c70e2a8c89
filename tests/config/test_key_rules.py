"""What a request becomes before it is hashed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from cortex_replay.config import KeyRules, Normaliser, Redaction, Settings, key_rules, key_rules_for
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest, PromptCachePlan
from tests.config.conftest import Project
from tests.property.strategies import effort, requests

DATE = Normaliser(r"\d{4}-\d\d-\d\d", "<date>")
RULES = KeyRules({"date": DATE}, {"ticket": r"TICKET-\d+"})
TODAY, TOMORROW = "2026-10-17", "2026-10-18"


def applied(rules: KeyRules = RULES, **fields: Any) -> tuple[LlmRequest, list[str]]:
    return rules.apply(LlmRequest("m", **fields))


def message(**fields: Any) -> LlmMessage:
    request, _ = applied(messages=[{"role": "user", "content": ""} | fields])
    return request.messages[0]


def test_requests_that_differ_in_what_changes_have_one_key() -> None:
    """In system and messages alike."""
    today, names = applied(system=f"It is {TODAY}.", messages=f"Close TICKET-17 by {TODAY}")
    tomorrow, _ = applied(system=f"It is {TOMORROW}.", messages=f"Close TICKET-9 by {TOMORROW}")

    assert today.prompt_hash() == tomorrow.prompt_hash()
    assert today.system == "It is <date>."
    assert today.messages[0].content == "Close [REDACTED:ticket] by <date>"
    assert names == ["ticket", "date"]


def test_a_request_that_no_rule_concerns_is_the_very_same() -> None:
    """No copy, no names; and without rules nothing is even looked at."""
    request = LlmRequest("m", f"It is {TODAY}", "hello")
    plain = LlmRequest("m", "be terse", "hello")

    assert RULES.apply(plain) == (plain, [])
    assert RULES.apply(plain)[0] is plain
    assert KeyRules().apply(request)[0] is request
    assert not KeyRules()
    assert RULES


def test_only_the_rules_that_changed_something_are_named() -> None:
    """In their order, not that of the text."""
    assert applied(system=TODAY)[1] == ["date"]
    assert applied(system=f"{TODAY} TICKET-1")[1] == ["ticket", "date"]
    same = KeyRules({"zero": Normaliser("0", "0"), "one": Normaliser("1", "I")})
    assert applied(same, system="0")[1] == []
    assert applied(same, system="01")[1] == ["one"]


def test_rules_apply_in_their_order() -> None:
    """Each to what the one before it left."""
    first = KeyRules({"ab": Normaliser("ab", "<x>"), "a": Normaliser("a", "<y>")})
    second = KeyRules({"a": Normaliser("a", "<y>"), "ab": Normaliser("ab", "<x>")})

    assert applied(first, system="ab a")[0].system == "<x> <y>"
    assert applied(second, system="ab a")[0].system == "<y>b <y>"


def test_secrets_go_before_normalisers_can_spoil_them() -> None:
    """Else half a secret would be stored."""
    rules = KeyRules({"number": Normaliser(r"\d+", "<n>")}, {"pin": r"pin-\d{4}-[a-z]+"})

    assert applied(rules, system="pin-1234-abc 5")[0].system == "[REDACTED:pin] <n>"


def test_a_placeholder_is_taken_as_it_is() -> None:
    """No references to groups."""
    rules = KeyRules({"x": Normaliser("(a)", r"\1\g<1>")})

    assert applied(rules, system="bab")[0].system == r"b\1\g<1>b"


def test_what_matches_nothing_puts_nothing() -> None:
    """A pattern that only looks around."""
    rules = KeyRules({"x": Normaliser(r"(?=b)|a", "<x>")})

    assert applied(rules, system="abc")[0].system == "<x>bc"


def test_content_and_its_parts_stay_one_text() -> None:
    """The content is the parts' text, also when a match would reach over two of them."""
    changed = message(
        content=f"on {TODAY} and 2026-10-18",
        parts=[
            {"type": "text", "text": f"on {TODAY} and 2026-"},
            {"type": "image", "url": "https://example.com/a.png"},
            {"type": "text", "text": "10-18"},
        ],
    )

    assert changed.parts[0] == {"type": "text", "text": "on <date> and 2026-"}
    assert changed.parts[2] == {"type": "text", "text": "10-18"}
    assert changed.content == "on <date> and 2026-10-18"


def test_content_beside_parts_that_hold_no_text() -> None:
    """As the text after a thought."""
    changed = message(content=TODAY, parts=[{"type": "thinking", "thinking": TOMORROW, "signature": TODAY}])

    assert changed.content == "<date>"
    assert changed.parts == ({"type": "thinking", "thinking": "<date>", "signature": TODAY},)


def test_content_that_is_not_the_text_of_its_parts() -> None:
    """Somebody made it by hand; each is changed for itself."""
    changed = message(content=TODAY, parts=[{"type": "text", "text": f"other {TODAY}"}])

    assert (changed.content, changed.parts[0]) == ("<date>", {"type": "text", "text": "other <date>"})


def test_tool_calls_and_results() -> None:
    """Every text of the arguments, at any depth, but no name, no id and no number."""
    call = {
        "id": TODAY,
        "name": f"f-{TODAY}",
        "arguments": {TODAY: [{"type": TODAY, "n": 20261017}, TODAY], "deep": {"id": TODAY, "ok": True}},
    }
    changed = message(role="assistant", tool_calls=[call])
    assert changed.tool_calls[0].to_dict() == {
        "id": TODAY,
        "name": f"f-{TODAY}",
        "arguments": {
            TODAY: [{"type": "<date>", "n": 20261017}, "<date>"],
            "deep": {"id": "<date>", "ok": True},
        },
    }
    raw = message(role="assistant", tool_calls=[{"name": "f", "arguments": f"not json {TODAY}"}])
    assert raw.tool_calls[0].arguments == "not json <date>"
    result = message(role="tool", content=f"done {TODAY}", tool_call_id=TODAY, is_error=True)
    assert (result.content, result.tool_call_id, result.is_error) == ("done <date>", TODAY, True)


def test_blocks_of_every_kind() -> None:
    """Texts change wherever they stand; ids, types and bytes do not."""
    data_url = f"data:text/plain;base64,{TODAY}"
    changed = message(
        parts=[
            {"type": "document", "title": TODAY, "data": TODAY, "media_type": "text/plain"},
            {"type": "image", "url": data_url},
            {"type": "image", "url": f"https://example.com/{TODAY}.png"},
            {"type": "tool_use", "id": TODAY, "name": TODAY, "input": {"type": TODAY}},
            {"type": "tool_result", "tool_use_id": TODAY, "content": [{"type": "text", "text": TODAY}]},
            {"type": "verbatim", "verbatim": {"type": "x", "call_id": TODAY, "output": TODAY}},
            {"type": "fields", "fields": {"phase": TODAY}},
            TODAY,
        ]
    )

    assert changed.parts == (
        {"type": "document", "title": "<date>", "data": TODAY, "media_type": "text/plain"},
        {"type": "image", "url": data_url},
        {"type": "image", "url": "https://example.com/<date>.png"},
        {"type": "tool_use", "id": TODAY, "name": TODAY, "input": {"type": "<date>"}},
        {"type": "tool_result", "tool_use_id": TODAY, "content": [{"type": "text", "text": "<date>"}]},
        {"type": "verbatim", "verbatim": {"type": "x", "call_id": TODAY, "output": "<date>"}},
        {"type": "fields", "fields": {"phase": "<date>"}},
        "<date>",
    )


def test_the_system_s_blocks_change_with_the_system() -> None:
    """Where they are more than text, the wires keep them beside it."""
    blocks = [{"type": "text", "text": TODAY, "citations": {"enabled": True}}]
    changed, _ = applied(system=TODAY, extra={"system": blocks, "other": TODAY})

    assert changed.extra == {
        "system": [{"type": "text", "text": "<date>", "citations": {"enabled": True}}],
        "other": TODAY,
    }


def test_everything_else_stays() -> None:
    """Model, parameters, tools, plan, and the local names of messages."""
    plan = PromptCachePlan(cache_system=True)
    before = LlmRequest(
        f"m-{TODAY}",
        TODAY,
        [LlmMessage("user", "x", id="first")],
        temperature=0.5,
        max_tokens=3,
        json_schema={"title": TODAY},
        timeout_ms=7,
        tools=[{"name": "f", "description": TODAY}],
        stop=TODAY,
        seed=3,
        cache=plan,
    )
    after, _ = RULES.apply(before)

    assert after.system == "<date>"
    assert after.cache is plan
    assert after.messages[0].id == "first"
    assert after.timeout_ms == 7
    assert before.to_dict() | {"system": "<date>"} == after.to_dict()


@effort(60)
@given(requests)
def test_rules_keep_what_a_request_is(plain: dict[str, Any]) -> None:
    """The result is a sound request, the same each time, and finished: applying them again does nothing."""
    marks, digits = Normaliser("[!-&]+", "~~"), Normaliser("[0-9]", "@")
    rules = KeyRules({"marks": marks, "digits": digits}, {"angles": "[<-?]"})
    request = LlmRequest(**plain)
    once, names = rules.apply(request)

    assert (once, names) == rules.apply(LlmRequest(**plain))
    assert rules.apply(once) == (once, [])
    assert LlmRequest.from_dict(once.to_dict() | {"model": "m"}).prompt_hash() == once.prompt_hash()
    assert (once is request) == (not names)


@pytest.mark.parametrize(
    ("normalisers", "secrets", "field", "reason"),
    [
        ({"n": Normaliser("<n>|x", "<n><n>")}, {}, "normalisers.n", "would change <n><n>"),
        ({"n": Normaliser("[A-Z]+", "<n>")}, {"k": "k-."}, "normalisers.n", r"would change \[REDACTED:k\]"),
        (
            {"a": Normaliser("x", "yyy")},
            {"y": "yy"},
            "redaction.extra_patterns.y",
            "stands for what a has found",
        ),
        ({"k": Normaliser("x", "y")}, {"k": "z"}, "normalisers.k", "has the same name"),
    ],
)
def test_rules_that_do_not_agree(
    normalisers: dict[str, Normaliser], secrets: dict[str, str], field: str, reason: str
) -> None:
    """A stored request would get another key the next time it is computed."""
    with pytest.raises(InvalidRequest, match=reason) as caught:
        KeyRules(normalisers, secrets)

    assert field == caught.value.field


def test_rules_from_settings() -> None:
    """The patterns that redact_key names, in its order."""
    settings = Settings(
        redaction=Redaction(extra_patterns={"a": "x", "b": "y", "c": "z"}, redact_key=("c", "a")),
        normalisers={"date": DATE},
    )

    assert KeyRules({"date": DATE}, {"c": "z", "a": "x"}) == key_rules(settings)
    assert list(key_rules(settings).redact_key) == ["c", "a"]


def test_the_rules_of_a_store_are_those_above_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From wherever a program runs, whatever its environment says."""
    store = project.root / "tests/llm"
    assert not key_rules_for(store)

    project.write("[normalisers]\ndate = '\\d{4}-\\d\\d-\\d\\d'")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cortex-replay.toml").write_text("[normalisers]\nall = '.+'")
    (elsewhere / "link").symlink_to(store)
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("CORTEX_REPLAY_MODE", "nonsense")
    store.mkdir(parents=True)
    for path in (store, Path("../project/tests/llm"), elsewhere / "link"):
        assert KeyRules({"date": DATE}) == key_rules_for(path)


def test_a_change_of_the_file_is_seen(project: Project) -> None:
    """Also one within the same second, of the same length."""
    for name in ("one", "two"):
        project.write(f"normalisers.{name} = 'x'")
        assert [name] == list(key_rules_for(project.root).normalisers)


def test_rules_of_a_store_that_are_not_sound(project: Project) -> None:
    """The place is in the file."""
    project.write(
        "[tool.cortex-replay.normalisers]\na = { pattern = 'a', placeholder = 'aa' }", "pyproject.toml"
    )
    with pytest.raises(InvalidRequest, match="would change aa") as caught:
        key_rules_for(project.root)

    assert caught.value.field == "pyproject.toml: tool.cortex-replay.normalisers.a"


def test_rules_survive_the_way_to_another_process() -> None:
    """As test runners send them."""
    again = pickle.loads(pickle.dumps(RULES))

    assert again == RULES
    assert again.apply(LlmRequest("m", TODAY)) == RULES.apply(LlmRequest("m", TODAY))
