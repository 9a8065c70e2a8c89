"""Laws of bound values: filling gives back every text, and another place gives the same one."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from hypothesis import given, strategies as st

from cortex_replay.bindings import Binder, BindingRules, PlaceRule
from cortex_replay.types import LlmMessage, LlmRequest
from tests.bindings.ann import NOW, surroundings
from tests.property.strategies import effort, texts

RULES = {
    "all": BindingRules(
        rules=(PlaceRule(bind="duration", before="took "), PlaceRule(bind="number", after=" ok"))
    ),
    "known": BindingRules(shapes=()),
}
LATER = NOW + timedelta(days=40)
PLACES = {
    "here": surroundings(),
    "odd": surroundings('/srv/ann/a"b\\é ⟦cwd⟧'),
    "there": surroundings("/mnt/w", LATER, HOME="/root", USER="zacharias", TZ="Asia/Tokyo"),
}


@cache
def binder(place: str, rules: str = "all") -> Binder:
    return Binder(RULES[rules], PLACES[place])


@cache
def values(place: str) -> list[str]:
    known = PLACES[place].current().values
    return sorted({text for forms in known.values() for text in forms.values()})


PIECES = (
    *("⟦cwd⟧", "⟦=cwd⟧", "⟦", "⟧", "⟦uuid#1⟧", "⟦cwd|0-3⟧", "⟦escape⟧", "⟦date:s1⟧", "=", "|", "/", "-", " "),
    *("0b9d3c1e-7a52-4c1f-9f0e-5d2f6a7b8c9d", "01K9ZZZZZZZZZZZZZZZZZZZZZZ", "took 1.5 s", "12 ok", "file://"),
    *(
        f"{NOW:%Y-%m-%dT%H:%M:%SZ}",
        f"{NOW.timestamp():.0f}",
        "T09:20:11.5Z",
        "/.gemini/tmp/my-shop",
        ".",
        "x",
    ),
    "\\n",
)


@given(data=st.data(), place=st.sampled_from(sorted(PLACES)))
@effort(200)
def test_filling_gives_back_the_text(data: st.DataObject, place: str) -> None:
    """Also the answer, bound behind its request, where a replay knows the request alone."""
    piece = st.sampled_from(PIECES) | texts | st.sampled_from(values(place))
    question, answer = (data.draw(st.lists(piece, max_size=8).map("".join)) for _ in range(2))
    request = LlmRequest("m", messages=[LlmMessage("user", question)])
    bound = binder(place).bind(request)

    assert bound.filling.text(bound.request.messages[0].content, bound.names) == question
    recorded, replayed = (binder(place, "known").bind(request) for _ in range(2))
    recorded.binding.is_escaping = True
    stored = recorded.binding.text(answer)
    assert replayed.filling.text(stored, recorded.names) == answer


@given(data=st.data())
@effort(100)
def test_another_place_gives_the_same_request(data: st.DataObject) -> None:
    """The same names, each with its value of there, in the same text."""
    names = ("cwd", "home", "tmp", "user", "host", "cwd:slug", "date", "date:wmdy", "date:js")
    template = data.draw(st.lists(st.sampled_from([*names, "a word", "42"]), max_size=8))
    stored = []
    for place in ("here", "there"):
        tokens = PLACES[place].current().tokens()
        text = "; ".join(tokens.get(part, part) for part in template)
        stored.append(binder(place).bind(LlmRequest("m", system=text)).request.system)

    assert stored[0] == stored[1] == "; ".join(f"⟦{part}⟧" if part in names else part for part in template)
