"""What is known of a run, and what of it is too common to be bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.bindings import NOWHERE, Binder, BindingRules, Surroundings
from cortex_replay.bindings.rules import ValueRule
from cortex_replay.bindings.surroundings import KNOWN
from cortex_replay.types import LlmRequest
from tests.bindings.ann import ENVIRONMENT, NOW, PLAIN_RULES, bind, surroundings
from tests.bindings.test_repository import ONE, make


def plain(known: Surroundings) -> dict[str, str]:
    return {name: forms[""] for name, forms in known.values.items()}


def test_the_values_of_a_command_are_known(tmp_path: Path) -> None:
    root = make(tmp_path.resolve())
    (root / "src").mkdir()
    (root / ".git/config").write_text("[user]\nname = Ann Example\nemail = ann@corp.example\n")
    found = plain(surroundings(str(root / "src")).current())

    assert found["cwd"] == str(root / "src")
    assert found["repo"] == str(root)
    assert found["home"] == "/srv/ann"
    assert found["tmp"] == "/var/folders/q7/T"
    assert found["user"] == "annabel"
    assert found["host"] == "buildbox-77.corp.example"
    assert (found["author"], found["email"]) == ("Ann Example", "ann@corp.example")
    assert found["branch"] == "fix/login-7"
    assert found["commit"] == ONE
    assert found["tz"] == "Europe/Berlin"
    assert found["date"] == "2026-11-05"
    assert {"os", "kernel"} < set(found) <= set(KNOWN)


@pytest.mark.parametrize(
    ("variable", "value", "name", "reason"),
    [
        ("USER", "root", "user", "root is too common"),
        ("USER", "runner", "user", "runner is too common"),
        ("USER", "Mark", "user", "Mark is too common"),
        ("USER", "mia", "user", "mia is too short"),
        ("TMPDIR", "/tmp", "tmp", "/tmp is too common"),
        ("TMPDIR", "/", "tmp", "/ is too common"),
        ("HOME", "/a", "home", "/a is too short"),
        ("TZ", "UTC", "tz", "UTC is too common"),
    ],
)
def test_a_value_that_is_too_short_or_too_common_is_left_out(
    variable: str, value: str, name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_replay.bindings.machine._account", lambda: None)
    monkeypatch.setattr("cortex_replay.bindings.machine._zones_of_system", lambda: ())
    known = surroundings("/srv/ann/shop", NOW, **{variable: value})

    assert known.left_out == {name: reason}
    assert name not in known.values
    assert known.tokens()[name] == value
    assert bind(f"in {value} x", known=known) == f"in {value} x"


@pytest.mark.parametrize("branch", ["main", "master", "refactor", "v1"])
def test_a_branch_that_is_a_word_is_left_out(branch: str, tmp_path: Path) -> None:
    known = surroundings(str(make(tmp_path, head=f"ref: refs/heads/{branch}\n")))

    assert "branch" in known.left_out


def test_the_home_of_root_is_bound_as_a_path() -> None:
    assert bind("/root/x, root", known=surroundings(HOME="/root")) == "⟦home⟧/x, root"


def test_links_are_known_with_and_without(tmp_path: Path) -> None:
    real, link = tmp_path.resolve() / "real-shop", tmp_path.resolve() / "link-shop"
    real.mkdir()
    link.symlink_to(real)
    known = surroundings(str(real), PWD=str(link), HOME=str(link))

    assert bind(f"{real}/a", known=known) == "⟦cwd⟧/a"
    assert bind(f"{link}/a", known=known) == "⟦cwd⟧/a"
    assert bind(f"{link}/a {real}/b", known=known) == "⟦cwd⟧/a ⟦cwd:alt⟧/b"


def test_a_pwd_that_is_another_folder_does_not_count() -> None:
    assert bind("/srv/other", known=surroundings(PWD="/srv/other")) == "/srv/other"


def test_a_commit_is_bound_whole_and_short(tmp_path: Path) -> None:
    commit = "a9c2b3a43b4b57176318092d275eb5e91a1422bf"
    known = surroundings(str(make(tmp_path, head=f"{commit}\n")))
    text = f"{commit} a9c2b3a v1-3-ga9c2b3a a9c2b3a43b4b a9c2b3 xa9c2b3a"

    assert bind(text, known=known) == "⟦commit⟧ ⟦commit:7⟧ v1-3-g⟦commit:7⟧ ⟦commit:12⟧ a9c2b3 xa9c2b3a"


def test_a_commit_of_the_run_is_bound(tmp_path: Path) -> None:
    """An agent that commits says so in its next question."""
    root = make(tmp_path, **{"logs/HEAD": f"{'0' * 40} {ONE} A <a> 1 +0000\n"})
    known = surroundings(str(root))
    before = known.state()
    new = "a9c2b3a43b4b57176318092d275eb5e91a1422bf"
    with (root / ".git/logs/HEAD").open("a") as log:
        log.write(f"{ONE} {new} A <a> 1 +0000\tcommit: b\n")

    assert known.state() != before
    assert bind("git hash a9c2b3a", known=known) == "git hash ⟦commit:7⟧"
    assert bind(f"{ONE[:7]} a9c2b3a", known=known) == "⟦commit:7⟧ ⟦commit:7alt⟧"


def test_a_configured_value_of_the_environment_is_known() -> None:
    rules = BindingRules(values={name: ValueRule(env=name.upper()) for name in ("build", "none", "short")})
    known = Surroundings.of(ENVIRONMENT | {"BUILD": "b-4711", "SHORT": "7"}, "/srv/ann", NOW, rules)

    assert known.values["build"][""] == "b-4711"
    assert {name: known.left_out.get(name) for name in rules.values} == {
        "build": None,
        "none": "NONE is not set",
        "short": "7 is too short",
    }


def test_a_secret_is_never_bound_or_filled() -> None:
    """Neither by the name of its variable nor by its look: a recording may be a stranger's."""
    key = "sk-ant-api03-Zk3vQx8LmN2pR7tY5wB9cD1fG4hJ6kS0"
    rules = BindingRules(values={"a": ValueRule(env="MY_API_KEY"), "b": ValueRule(env="SERVER")})
    server = "https://ann:hunter2secret9@db.example/x"
    known = Surroundings.of({"MY_API_KEY": key, "SERVER": server}, "/srv/ann", NOW, rules)
    filling = Binder(rules, known).bind(LlmRequest("m")).filling

    assert known.left_out["a"] == "MY_API_KEY holds a secret"
    assert known.left_out["b"] == "SERVER holds a secret"
    assert filling.text("⟦a⟧ ⟦b⟧", ["a", "b"]) == "⟦a⟧ ⟦b⟧"


def test_a_constant_is_known_nowhere_and_all_else_is_not() -> None:
    rules = BindingRules(values={"site": ValueRule(value="staging-eu-7"), "build": ValueRule(env="HOME")})

    assert bind("staging-eu-7 /srv/ann 2026-11-05", rules, NOWHERE) == "⟦site⟧ /srv/ann 2026-11-05"


def test_two_runs_have_the_same_names_for_the_same_thing() -> None:
    here = Binder(PLAIN_RULES, surroundings())
    there = Binder(PLAIN_RULES, surroundings("/mnt/w", HOME="/root", TMPDIR="/mnt/tmp", USER="zacharias"))
    texts = ("/srv/ann/My Shop/a -srv-ann-My-Shop /srv/ann/.x annabel", "/mnt/w/a -mnt-w /root/.x zacharias")
    bound = [
        binder.bind(LlmRequest("m", system=text)) for binder, text in zip((here, there), texts, strict=True)
    ]

    assert bound[0].request == bound[1].request
    assert bound[1].filling.text(bound[0].request.system, bound[0].names) == texts[1]
