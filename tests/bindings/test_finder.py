"""Known values are found as wholes, in every spelling, and nowhere else."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from cortex_replay.bindings import Binder, BindingRules
from cortex_replay.bindings.finder import Finder
from cortex_replay.bindings.rules import PlaceRule, ValueRule
from cortex_replay.bindings.shapes import SHAPES
from cortex_replay.types import LlmMessage, LlmRequest
from tests.bindings.ann import NOW, bind, surroundings
from tests.growth import grows_linearly

SIZE = 10_000


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("/srv/ann", "⟦home⟧"),
        ("in /srv/ann.", "in ⟦home⟧."),
        ('"/srv/ann"', '"⟦home⟧"'),
        ("(/srv/ann)", "(⟦home⟧)"),
        ("cd /srv/ann&& ls", "cd ⟦home⟧&& ls"),
        ("/srv/ann:/bin", "⟦home⟧:/bin"),
        ("/srv/ann/.config", "⟦home⟧/.config"),
        ("HOME=/srv/ann", "HOME=⟦home⟧"),
        ("-I/srv/ann/include", "-I⟦home⟧/include"),
        ("-/srv/ann/a\n+/srv/ann/b", "-⟦home⟧/a\n+⟦home⟧/b"),
        (r'{"out": "line\n/srv/ann"}', r'{"out": "line\n⟦home⟧"}'),
        ("\x1b[32m/srv/ann\x1b[0m", "\x1b[32m⟦home⟧\x1b[0m"),
        ("作業は/srv/annです", "作業は⟦home⟧です"),
        ("/srv/ann/My Shop/a.py", "⟦cwd⟧/a.py"),
    ],
)
def test_a_path_is_bound_as_a_whole(text: str, stored: str) -> None:
    assert bind(text) == stored


@pytest.mark.parametrize(
    "text",
    [
        *(
            "/srv/ann2",
            "/srv/ann-old",
            "/srv/ann_x",
            "/srv/ann.git",
            "/srv/ann~",
            "/srv/ann%20b",
            "/srv/anné",
        ),
        *("/mnt/srv/ann", "x/srv/ann", "./srv/ann", "~/srv/ann", "srv/ann", "/srv/Ann"),
    ],
)
def test_a_path_within_another_is_not_bound(text: str) -> None:
    assert bind(text) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("file:///srv/ann/My%20Shop/a", "file://⟦cwd:url⟧/a"),
        ("file:///srv/ann/x", "file://⟦home:url⟧/x"),
        ("?d=%2Fsrv%2Fann%2FMy%20Shop&", "?d=⟦cwd:query⟧&"),
        ("projects/-srv-ann-My-Shop/memory", "projects/⟦cwd:slug⟧/memory"),
        ("-srv-ann-My-Shop-src", "⟦cwd:slug⟧-src"),
        ("-srv-ann2 x-srv-ann", "-srv-ann2 x-srv-ann"),
        ("/srv/ann/.gemini/tmp/my-shop/memory", "⟦home⟧/.gemini/tmp/⟦cwd:name⟧/memory"),
        ("/srv/ann/.cache/My Shop", "⟦home⟧/.cache/My Shop"),
        ("/srv/ann/src/my-shop my-shop", "⟦home⟧/src/my-shop my-shop"),
    ],
)
def test_a_path_is_bound_in_other_forms(text: str, stored: str) -> None:
    assert bind(text) == stored


def test_what_is_escaped_in_json_is_bound() -> None:
    known = surroundings(cwd='/srv/ann/a"é')

    assert bind('{"p": "/srv/ann/a\\"é/x"}', known=known) == '{"p": "⟦cwd:json⟧/x"}'
    assert bind('"{\\"p\\": \\"/srv/ann/a\\\\\\"é\\"}"', known=known) == '"{\\"p\\": \\"⟦cwd:json2⟧\\"}"'
    assert bind('"/srv/ann/a\\"\\u00e9"', known=known) == '"⟦cwd:ascii⟧"'


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("annabel@host", "⟦user⟧@host"),
        ("/mnt/annabel/x", "/mnt/⟦user⟧/x"),
        (
            "annabella annabel-2 x-annabel annabel_1 annabel.lee",
            "annabella annabel-2 x-annabel annabel_1 annabel.lee",
        ),
        ("buildbox-77.corp.example", "⟦host⟧"),
        ("buildbox-77 buildbox-77.local", "⟦host⟧ ⟦host⟧.local"),
        ("buildbox-771", "buildbox-771"),
        ("in Europe/Berlin", "in ⟦tz⟧"),
    ],
)
def test_a_name_is_bound_as_a_word(text: str, stored: str) -> None:
    assert bind(text) == stored


def test_the_longest_value_is_bound() -> None:
    known = surroundings(cwd="/srv/ann/work", TMPDIR="/srv/ann/work/tmp")

    assert bind("/srv/ann/work/tmp/x /srv/ann/work/y /srv/ann/z", known=known) == "⟦tmp⟧/x ⟦cwd⟧/y ⟦home⟧/z"


def test_of_two_names_for_one_value_the_first_counts() -> None:
    assert bind("/srv/ann", known=surroundings(cwd="/srv/ann", TMPDIR="/srv/ann")) == "⟦cwd⟧"


def test_what_is_off_is_not_bound() -> None:
    rules = BindingRules(off=("home", "uuid", "date"), shapes=("uuid",))
    text = "/srv/ann 2026-11-05 0b9d3c1e-7a52-4c1f-9f0e-5d2f6a7b8c9d"

    assert bind(text, rules) == text


def test_a_configured_value_is_bound() -> None:
    rules = BindingRules(values={"build": ValueRule(env="BUILD_ID"), "site": ValueRule(value="staging-eu-7")})

    assert bind("b-4711 at staging-eu-7", rules, surroundings(BUILD_ID="b-4711")) == "⟦build⟧ at ⟦site⟧"


def test_a_second_spelling_of_a_form_has_a_name_of_its_own() -> None:
    assert bind("buildbox-77.corp.example buildbox-77") == "⟦host⟧ ⟦host:alt⟧"
    assert bind("buildbox-77 buildbox-77.corp.example") == "⟦host⟧ ⟦host:alt⟧"


def test_what_is_found_once_is_found_again() -> None:
    text = "x" * 1000 + " /srv/ann"

    assert bind(text) == bind(text) == "x" * 1000 + " ⟦home⟧"


@pytest.mark.parametrize(
    "place",
    [
        *(
            "/srv/ann-",
            "/srv/ann/.",
            "2026-",
            "2026-11-05T",
            "-0b9d-4c1f-",
            "01",
            "1793870",
            "Nov 5 ",
            "\x1b[m",
        ),
        *("took ", "took 1", "took /a/", "⟦cwd", "⟦=" * 3),
    ],
)
def test_the_time_to_look_grows_with_the_text(place: str) -> None:
    rules = BindingRules(rules=tuple(PlaceRule(bind=bind, before="took ") for bind in SHAPES))
    finder = Finder(rules, surroundings().current())

    def look(size: int) -> None:
        finder.find(f"{random.random()}{place * (size // len(place))}")

    assert grows_linearly(lambda: look(SIZE), lambda: look(2 * SIZE))


def test_a_request_in_which_nothing_is_bound_is_the_same_request() -> None:
    request = LlmRequest("m", system="s", messages=[LlmMessage("user", "hello")], tools=[{"name": "t"}])
    bound = Binder(BindingRules(), surroundings()).bind(request)

    assert bound.request is request
    assert bound.names == ()


def test_the_values_of_another_day_do_not_stay() -> None:
    known = surroundings(now=NOW + timedelta(days=40))

    assert bind("2026-11-05 2026-12-15", known=known) == "2026-11-05 ⟦date⟧"
