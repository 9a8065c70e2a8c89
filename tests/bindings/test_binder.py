"""Requests are bound as a whole: structure stays, literals come back, stored placeholders stay."""

from __future__ import annotations

from cortex_replay.bindings import NOWHERE, Binder, BindingRules, PlaceRule
from cortex_replay.bindings.placeholders import ESCAPE
from cortex_replay.types import LlmMessage, LlmRequest
from tests.bindings.ann import PLAIN_RULES, bind, surroundings

A = "0b9d3c1e-7a52-4c1f-9f0e-5d2f6a7b8c9d"
B = "1c9d3c1e-7a52-7c1f-9f0e-5d2f6a7b8c9d"


def key(text: str, cwd: str = "/srv/ann/shop") -> str:
    return Binder(PLAIN_RULES, surroundings(cwd)).bind(LlmRequest("m", system=text)).request.prompt_hash()


def test_two_places_give_one_key() -> None:
    assert key("in /srv/ann/shop/a") == key("in /mnt/b/a", cwd="/mnt/b")
    assert key("in /srv/ann/shop/a") != key("in /mnt/b/b", cwd="/mnt/b")


def test_equal_ids_stay_equal_and_different_ones_different() -> None:
    assert key(f"{A} {A}") == key(f"{B} {B}")
    assert key(f"{A} {B}") == key(f"{B} {A}")
    assert key(f"{A} {A}") != key(f"{A} {B}")


def test_all_texts_of_a_request_are_bound() -> None:
    path = "/srv/ann/x"
    request = LlmRequest(
        "m",
        system=path,
        messages=[
            LlmMessage("user", path, parts=[{"type": "text", "text": path}]),
            LlmMessage("assistant", "", tool_calls=[{"id": "c", "name": "t", "arguments": {"p": [path]}}]),
        ],
        tools=[{"name": path, "description": path}],
        json_schema={"description": path},
        extra={"metadata": {"p": path}},
    )
    bound = Binder(PLAIN_RULES, surroundings()).bind(request)

    assert str(bound.request.to_dict()).count("⟦home⟧/x") == 7
    assert bound.request.tools[0]["name"] == path  # type: ignore[index,call-overload]
    assert bound.names == ("home",)


def test_literals_come_back() -> None:
    assert bind("⟦cwd⟧ and /srv/ann") == "⟦=cwd⟧ and ⟦home⟧"
    assert bind("⟦=cwd⟧ ⟦cwd|0-7⟧ ⟦nothing⟧ ⟦uuid#1⟧") == "⟦==cwd⟧ ⟦=cwd|0-7⟧ ⟦=nothing⟧ ⟦=uuid#1⟧"
    assert bind("⟦nothing⟧ ⟦e⟧") == "⟦nothing⟧ ⟦e⟧"


def test_a_value_that_looks_like_a_placeholder_is_no_way_in() -> None:
    known = surroundings(cwd="/srv/ann/⟦home⟧")

    assert bind("/srv/ann/⟦home⟧/x ⟦home⟧", known=known) == "⟦cwd⟧/x ⟦=home⟧"


def test_an_answer_names_a_spelling_that_its_request_lacks() -> None:
    """What the request has first is plain; another one of the answer has the name of its own."""
    known = surroundings()
    for request, answer, stored in [
        ("buildbox-77", "buildbox-77 buildbox-77.corp.example", "⟦host⟧ ⟦host:s0⟧"),
        ("", "buildbox-77 buildbox-77.corp.example", "⟦host:s1⟧ ⟦host⟧"),
        ("", "11/5/2026 05/11/2026", "⟦date:numeric⟧ ⟦date:numerics3⟧"),
        ("05/11/2026", "11/5/2026 05/11/2026", "⟦date:numerics0⟧ ⟦date:numeric⟧"),
    ]:
        binding = Binder(PLAIN_RULES, known).bind(LlmRequest("m", system=request)).binding
        assert binding.text(answer) == stored
        again = Binder(PLAIN_RULES, known).bind(LlmRequest("m", system=request))
        assert again.filling.text(stored, ["host", "date"]) == answer


def test_an_answer_is_filled_with_a_value_that_is_too_common_to_be_bound() -> None:
    bound = Binder(PLAIN_RULES, surroundings(USER="root")).bind(LlmRequest("m"))

    assert bound.filling.text("chown ⟦user⟧", ["user"]) == "chown root"


RULE = BindingRules(rules=(PlaceRule(bind="hex-id", before="Chunk ID: "),))


def stored(text: str, names: list[str]) -> tuple[str, tuple[str, ...]]:
    bound = Binder(RULE, NOWHERE).bind_stored(LlmRequest("m", system=text), names)
    return bound.request.system, bound.names


def test_placeholders_of_a_stored_request_stay() -> None:
    text = "⟦cwd⟧ ⟦uuid#1⟧ ⟦uuid#2⟧ ⟦uuid#1⟧ ⟦cwd:slug⟧"

    assert stored(text, ["cwd", "uuid"]) == (text, ("cwd", "uuid"))


def test_new_finds_are_numbered_among_those_of_a_stored_request() -> None:
    """As they would be if the request were bound anew."""
    text = "Chunk ID: e5539b ⟦hex-id#1⟧ Chunk ID: e5539b ⟦hex-id#2⟧ ⟦hex-id#1⟧"

    assert stored(text, ["hex-id"])[0] == (
        "Chunk ID: ⟦hex-id#1⟧ ⟦hex-id#2⟧ Chunk ID: ⟦hex-id#1⟧ ⟦hex-id#3⟧ ⟦hex-id#2⟧"
    )


def test_binding_a_stored_request_twice_changes_nothing_more() -> None:
    first, names = stored(f"Chunk ID: e5539b {A} ⟦x⟧", [])

    assert first == "Chunk ID: ⟦hex-id#1⟧ ⟦uuid#1⟧ ⟦x⟧"
    assert stored(first, [*names]) == (first, names)


def test_text_of_a_stored_request_that_only_looks_bound_is_escaped() -> None:
    text, names = stored("⟦uuid#1⟧ Chunk ID: e5539b", [])

    assert text == "⟦=uuid#1⟧ Chunk ID: ⟦hex-id#1⟧"
    assert names == (ESCAPE, "hex-id")
    assert stored(text, [*names]) == (text, names)


def test_a_recording_is_told_where_its_values_are_common() -> None:
    """Recorded by annabel, asked for by root."""
    there = Binder(PLAIN_RULES, surroundings())
    recorded = there.bind(LlmRequest("m", system="annabel is no root in /srv/ann"))
    here = Binder(PLAIN_RULES, surroundings(USER="root", HOME="/mnt/r"))
    asked = here.bind(LlmRequest("m", system="root is no root in /mnt/r"))

    assert asked.request.prompt_hash() != recorded.request.prompt_hash()
    assert here.unbind_common(recorded.request, recorded.names) == asked.request
    assert here.unbind_common(recorded.request, ["home"]) is recorded.request


def test_nothing_is_found_within_a_placeholder() -> None:
    rules = BindingRules(rules=(PlaceRule(bind="number", before="uuid#"),))
    request = LlmRequest("m", system="⟦uuid#1⟧ uuid#1")

    assert Binder(rules, NOWHERE).bind_stored(request, ["uuid"]).request.system == "⟦uuid#1⟧ uuid#⟦number#1⟧"
