"""Bindings in hostile hands: places, prompts, models, recordings, configurations, repositories."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Final

import pytest
from click.testing import CliRunner

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.bindings.rules import ValueRule
from cortex_replay.canonical import JsonValue
from cortex_replay.cli.main import main
from cortex_replay.engine.bound_answers import bind_answer
from cortex_replay.engine.http.engine import MISS_STATUS
from cortex_replay.run import Run
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import FakeProvider
from tests.builder import ask as request_for
from tests.engine.http.harness import PATHS, Got, ask, run_over
from tests.growth import costs_at_most, grows_linearly
from tests.property.places import Place
from tests.sampling import IS_TORTURE
from tests.security.test_bound_residue import ALL, HERE, THERE, call, decoded, server, told_at

__all__ = ["server"]  # a fixture

CHAT: Final = PATHS["openai-chat"]
ODD: Final = [
    "/work/⟦home⟧ ]] ⟧",
    '/work/"q"\\b\\\\n',
    "/work/new\nline\tx",
    "/work/(a+)+$|[b]*%2F",
    "/work/⟦home⟧/it",
    "/work/⟦cwd⟧",
    "/work/⟦=cwd|0-3⟧]]",
    "/work/⟧/⟦",
    '/work/"quoted"/it',
    "/work/back\\slash\\",
    "/work/back\\\\n",
    "/work/new\nline/x",
    "/work/tab\there\r",
    "/work/]]>{{x}}",
    "/work/(a+)+$",
    "/work/[a-z]*|.?",
    "/work/%2F%20+",
    "/work/a#1:url~a",
    "/work/e\u0301 and \u00e9",
    "/work/\u202egnp.exe",
    "/work/\U0001f980 crab",
    "/work/ends ",
    "/work/-/-",
    "/work/\\u00e9\\t",
]
NASTY: Final = ODD if IS_TORTURE else ODD[:4]


def at(cwd: str) -> Place:
    return replace(HERE, cwd=cwd, home="/work/home/of zelda")


def test_a_folder_may_have_any_name(server: FakeProvider, tmp_path: Path) -> None:
    """Recorded there and replayed elsewhere, and the other way round; what comes back is what is so there."""
    roots = {place: tmp_path / str(number) for number, place in enumerate([THERE, *map(at, NASTY)])}
    for here, root in roots.items():
        with run_over(root, "once", server.url, surroundings=here.surroundings()) as run:
            for is_stream in (False, True):
                ask(run, *call("openai-chat", here, is_stream=is_stream))
        stored = "".join(path.read_text() for path in root.rglob("*.json"))
        assert json.dumps(here.cwd)[1:-1] not in stored
        assert json.dumps(here.cwd, ensure_ascii=False)[1:-1] not in stored
    for place, own in roots.items():
        for root in (roots[THERE], own):
            with run_over(root, surroundings=place.surroundings()) as run:
                for is_stream in (False, True):
                    got = ask(run, *call("openai-chat", place, is_stream=is_stream))
                    said = decoded("openai-chat", got.body, is_stream=is_stream)
                    assert said == told_at(place, "openai-chat", is_stream=is_stream)
    hashes = {frozenset(item.prompt_hash for item in Store.open(root).list()) for root in roots.values()}
    assert len(hashes) == 1, "what is recorded in one of them is the same in all"


def test_what_is_filled_in_is_escaped_where_it_stands(server: FakeProvider, tmp_path: Path) -> None:
    """In JSON, and in a tool's arguments, which are JSON in JSON and come in pieces."""
    there = at('/work/"q"\\b/n\n/\\u0041/é')
    with run_over(tmp_path, "once", server.url, surroundings=THERE.surroundings()) as run:
        for protocol, is_stream in ALL:
            ask(run, *call(protocol, THERE, is_stream=is_stream))
    with run_over(tmp_path, surroundings=there.surroundings()) as run:
        for protocol, is_stream in ALL:
            got = ask(run, *call(protocol, there, is_stream=is_stream))
            told = told_at(there, protocol, is_stream=is_stream)
            assert decoded(protocol, got.body, is_stream=is_stream) == told, protocol


@pytest.mark.parametrize("name", ["c++17", "a.b|c", "x*y{2}[a]", "$(id)^\\d+"])
def test_a_user_and_a_host_may_have_any_name(name: str, server: FakeProvider, tmp_path: Path) -> None:
    here = replace(HERE, user=name, host=f"{name}-box")
    with run_over(tmp_path, "once", server.url, surroundings=here.surroundings()) as run:
        ask(run, *call("openai-chat", here, is_stream=False))
    with run_over(tmp_path, surroundings=THERE.surroundings()) as run:
        got = ask(run, *call("openai-chat", THERE, is_stream=False))
    assert decoded("openai-chat", got.body, is_stream=False) == told_at(THERE, "openai-chat", is_stream=False)


@pytest.mark.parametrize("word", ["root", "user", "test", "mark", "will", "with", "home", "me", "a", "the"])
def test_a_common_word_is_no_user(word: str) -> None:
    """Where somebody is called like a word, the word is still a word."""
    binder = Binder(BindingRules(), replace(HERE, user=word, host=word).surroundings())
    text = f"As {word} said, {word} is at {word}."
    bound = binder.bind(request_for(text))

    assert bound.request.messages[0].content == text


LITERALS: Final = [
    "⟦cwd⟧",
    "⟦=cwd⟧",
    "⟦==cwd⟧",
    "⟦cwd|0-3⟧⟦cwd|3-⟧",
    "⟦cwd~a⟧",
    "⟦uuid#1⟧ ⟦uuid#2⟧",
    "⟦home:slug⟧",
    "⟦nobody⟧",
    "⟦⟧ ⟦ ⟧ ⟦cwd",
    "⟦escape⟧ ⟦=escape⟧",
    "⟦uuid#999999⟧ ⟦uuid#99999999999⟧ ⟦cwd|999999-⟧ ⟦cwd|9-2⟧",
]


def test_text_that_looks_like_a_placeholder_is_text(server: FakeProvider, tmp_path: Path) -> None:
    """Whoever says it, the user or the model; the very bytes come back, and nothing is filled in."""

    def texts(place: Place) -> list[str]:
        bound = f" I work in {place.cwd}, session {place.ids[0]}."
        return [literal + more for literal in LITERALS for more in ("", bound)]

    def asked(run: Run, place: Place) -> list[tuple[str, Got, bool]]:
        wire = WIRES["openai-chat"]
        return [
            (text, ask(run, "POST", CHAT, wire.lower(request_for(text), stream=is_stream)), is_stream)
            for text in texts(place)
            for is_stream in (False, True)
        ]

    with run_over(tmp_path, "once", server.url, surroundings=HERE.surroundings()) as run:
        live = asked(run, HERE)
    with run_over(tmp_path, surroundings=HERE.surroundings()) as run:
        again = asked(run, HERE)
    assert [got.json for _, got, is_stream in again if not is_stream] == [
        got.json for _, got, is_stream in live if not is_stream
    ]
    with run_over(tmp_path, surroundings=THERE.surroundings()) as run:
        for text, got, is_stream in asked(run, THERE):
            assert decoded("openai-chat", got.body, is_stream=is_stream).strip("\n") == text


@pytest.mark.parametrize("literal", ["⟦cwd⟧", "⟦=cwd⟧"])
def test_text_that_looks_like_a_placeholder_is_not_what_was_bound(
    literal: str, server: FakeProvider, tmp_path: Path
) -> None:
    """Nor is what was bound such text: these are two questions."""
    real, fake = (
        {"model": "m", "messages": [{"role": "user", "content": f"List {folder}, please."}]}
        for folder in (HERE.cwd, literal)
    )
    for number, (recorded, asked) in enumerate([(real, fake), (fake, real)]):
        root = tmp_path / str(number)
        with run_over(root, "once", server.url, surroundings=HERE.surroundings()) as run:
            ask(run, "POST", CHAT, recorded)
        with run_over(root, surroundings=HERE.surroundings()) as run:
            assert ask(run, "POST", CHAT, asked).status == MISS_STATUS


@pytest.mark.parametrize(
    "bindings", ["cwd", 7, {"cwd": 1}, [7, None, ["cwd"]], ["cwd"] * 1000, ["\x1b[31m", "⟦cwd⟧", ""], None]
)
def test_a_recording_that_says_nonsense_of_its_bindings_is_served(
    bindings: JsonValue, tmp_path: Path
) -> None:
    """What is no name of a binding is none."""
    request = LlmRequest("m", "", "Where?", None, None)
    store = Store.create(tmp_path)
    store.add(Fixture.of(request, Answer("In ⟦cwd⟧.", finish_reason="stop"), meta={"bindings": bindings}))
    store.commit()
    with run_over(tmp_path, surroundings=HERE.surroundings()) as run:
        got = ask(run, "POST", CHAT, {"model": "m", "messages": [{"role": "user", "content": "Where?"}]})

    assert got.status == 200
    said = decoded("openai-chat", got.body, is_stream=False)
    assert said == (
        "In ⟦cwd⟧." if not isinstance(bindings, list) or "cwd" not in bindings else f"In {HERE.cwd}."
    )


SECRETS: Final = {
    "INNOCENT": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "DATABASE": "postgres://admin:hunter2-9f8a7b6c@db.example.com/x",
    "SETTINGS": '{"api_key": "sk-ant-api03-' + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD-AA" + '"}',
}


@pytest.mark.parametrize("variable", list(SECRETS))
def test_no_configuration_hands_out_a_variable_that_holds_a_secret(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's configuration names it, and his recording says it: a command is not to have it."""
    for name, value in {**SECRETS, "SHOWN": "a harmless text"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("cortex-replay.toml").write_text(
        f'[bindings.values]\nmine = {{ env = "{variable}" }}\nshown = {{ env = "SHOWN" }}\n'
    )
    store = Store.create("llm")
    request, answer = (
        LlmRequest("m", "", "Give!", None, None),
        Answer("⟦mine⟧ and ⟦shown⟧", finish_reason="stop"),
    )
    store.add(Fixture.of(request, answer, meta={"bindings": ["mine", "shown"]}))
    store.commit()

    listed = CliRunner().invoke(main, ["config", "--store", "llm"])
    assert SECRETS[variable] not in listed.output
    assert variable in listed.output
    with run_over(Path("llm"), environment=os.environ) as run:
        got = ask(run, "POST", CHAT, {"model": "m", "messages": [{"role": "user", "content": "Give!"}]})
    assert decoded("openai-chat", got.body, is_stream=False) == "⟦mine⟧ and a harmless text"


def test_a_repository_leads_nowhere_and_does_not_hang(tmp_path: Path) -> None:
    """A ``.git`` of a stranger: links, pipes, devices, paths that lead out, files without an end."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "HEAD").write_text("0123456789abcdef0123456789abcdef01234567\n")
    (secret / "other").write_text("fedcba9876543210fedcba9876543210fedcba98\n")

    def pipe(git: Path) -> None:
        git.mkdir()
        os.mkfifo(git / "HEAD")

    def link(git: Path) -> None:
        git.mkdir()
        (git / "HEAD").symlink_to(secret / "HEAD")

    def outside(git: Path) -> None:
        git.mkdir()
        (git / "HEAD").write_text("ref: refs/heads/../../../../secret/other\n")

    def linked_refs(git: Path) -> None:
        (git / "refs").mkdir(parents=True)
        (git / "refs" / "heads").symlink_to(secret)
        (git / "HEAD").write_text("ref: refs/heads/other\n")

    def device(git: Path) -> None:
        git.mkdir()
        (git / "HEAD").symlink_to("/dev/zero")

    def large(git: Path) -> None:
        git.mkdir()
        (git / "HEAD").write_bytes(b"0" * 10_000_000)

    def text(git: Path) -> None:
        git.mkdir()
        (git / "HEAD").write_bytes(b"ref: refs/heads/\xff\x00\x1b[31m\n")

    for make in (
        pipe,
        link,
        outside,
        linked_refs,
        device,
        large,
        text,
        lambda git: git.symlink_to(secret),
        lambda git: git.write_text(f"gitdir: {secret}\n"),
        lambda git: git.write_text("gitdir: ../secret\n"),
        os.mkfifo,
    ):
        folder = tmp_path / f"repository {id(make)}"
        folder.mkdir()
        make(folder / ".git")
        found = Surroundings.of({"HOME": "/nowhere/home"}, folder)
        assert "commit" not in found.values, make
        assert found.values.get("branch", {}).get("", "") in ("", "other"), make


def test_a_value_that_is_configured_is_bound_only_where_it_says_something() -> None:
    """A stranger's configuration cannot make half a text a value."""
    rules = BindingRules(values={word: ValueRule(value=word) for word in ("the", "e", "no", "true")})
    binder = Binder(rules, HERE.surroundings())
    text = "the end of the true story: no"

    assert binder.bind(request_for(text)).request.messages[0].content == text


def test_a_time_far_away_is_no_error() -> None:
    binder = Binder(BindingRules(), replace(HERE, day=date(9999, 12, 31)).surroundings())
    for text in (
        "9999-12-31T99:99:99Z",
        "99999999999",
        "1" * 5000,
        "9999-12-31T23:59:59+23:59",
        "0000-00-00",
    ):
        binder.bind(request_for(text))


@pytest.mark.parametrize(
    "unit",
    [
        "{cwd} ",
        "{cwd}",
        "{home}/.a/",
        "{user} ",
        "{iso} ",
        "{iso}",
        "{id1} ",
        "-1111-4111-8111-",
        "01",
        "⟦",
        "⟦=",
        "⟦cwd⟧",
        "⟦cwd|0-1⟧⟦cwd|1-⟧",
        "/",
        "\\",
    ],
)
def test_no_text_makes_binding_slow(unit: str) -> None:
    """Twice the text costs twice as much, in a request and in its answer."""
    surroundings = HERE.surroundings()
    text = unit.format(**HERE.marks())
    short, long = (text * (size // len(text)) for size in (10_000, 20_000))

    def bind(text: str) -> None:
        bound = Binder(BindingRules(), surroundings).bind(request_for(text))  # it remembers long texts
        bind_answer(Answer(text, finish_reason="stop"), bound.binding, "m")

    assert grows_linearly(lambda: bind(short), lambda: bind(long))


def test_no_number_of_ids_makes_an_answer_slow() -> None:
    """Each of them is looked for; that costs about as much as it took to find them."""
    random, surroundings = Random("ids"), HERE.surroundings()
    text = " ".join(Place.random(random).ids[0] for _ in range(2000))
    request, answer = request_for(text), Answer(text, finish_reason="stop")
    binding = Binder(BindingRules(), surroundings).bind(request).binding

    assert costs_at_most(
        5,
        lambda: bind_answer(answer, binding, "m"),
        lambda: Binder(BindingRules(), surroundings).bind(request),
    )
