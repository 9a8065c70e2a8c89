"""Whose cassette it is: told from its place, from a test file, and found again by the running test."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.cassettes import CassetteScopes
from cortex_replay.engine.owners import owner_of_test
from tests.cassettes.conftest import Imported, interaction, said, write

TESTS = """
import pytest, vcr

def test_plain(): ...

async def test_async(): ...

class TestOuter:
    class TestInner:
        def test_deep(self): ...

@pytest.mark.default_cassette("shared.yaml")
def test_by_name(): ...

@pytest.mark.vcr("shared.yaml")
@pytest.mark.parametrize("x", [1, 2])
def test_by_name_too(x): ...

def test_within():
    with vcr.use_cassette("tests/cassettes/test_m/inner.yaml"):
        ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_m.py").write_text(TESTS)
    return tmp_path


@pytest.mark.parametrize(
    ("cassette", "tests"),
    [
        ("cassettes/test_m/test_plain.yaml", ["tests/test_m.py::test_plain"]),
        ("cassettes/test_m/test_async", ["tests/test_m.py::test_async"]),
        ("cassettes/test_m/TestInner.test_deep.yaml", ["tests/test_m.py::TestInner::test_deep"]),
        ("cassettes/test_m/test_plain[1.5-a-b].yaml", ["tests/test_m.py::test_plain[1.5-a-b]"]),
        ("cassettes/test_m/inherited.yaml", ["tests/test_m.py::inherited"]),
        (
            "cassettes/test_m/shared.yaml",
            ["tests/test_m.py::test_by_name", "tests/test_m.py::test_by_name_too"],
        ),
        ("cassettes/test_m/inner.yaml", ["tests/test_m.py::test_within"]),
        ("cassettes/test_plain.yaml", ["tests/test_m.py::test_plain"]),
        ("data/vcr/test_m/test_plain.json", ["tests/test_m.py::test_plain"]),
        ("cassettes/shared.yaml", ["tests/test_m.py::test_by_name", "tests/test_m.py::test_by_name_too"]),
    ],
)
def test_a_cassette_is_that_of_its_test(project: Path, cassette: str, tests: list[str]) -> None:
    assert CassetteScopes().of(project / "tests" / cassette) == (tests, True)


def test_a_cassette_of_no_test_is_called_by_its_path(project: Path) -> None:
    found = CassetteScopes().of(project / "tests/cassettes/some_other.yaml")

    assert found == (["tests/cassettes/some_other.yaml"], False)


def test_ids_are_relative_to_the_root_of_pytest(project: Path) -> None:
    """As its configuration tells, or a person."""
    cassette = project / "tests/cassettes/test_m/test_plain.yaml"

    assert CassetteScopes(project / "tests").of(cassette)[0] == ["test_m.py::test_plain"]
    (project / "tests/pytest.ini").touch()
    assert CassetteScopes().of(cassette)[0] == ["test_m.py::test_plain"]


@pytest.mark.parametrize("content", ["def (", "(" * 9000, "\0", "x = '" + "a" * 10_000_000])
def test_whatever_a_test_file_holds_nothing_is_run(project: Path, content: str) -> None:
    (project / "tests/test_m.py").write_text(content)

    found = CassetteScopes().of(project / "tests/cassettes/test_m/test_plain.yaml")
    assert found == (["tests/test_m.py::test_plain"], True)


def test_one_cassette_of_several_tests_is_stored_once(
    project: Path, imported: Imported, tmp_path: Path
) -> None:
    write(project / "tests/cassettes/test_m/shared.yaml", interaction(answer=said("Shared.")))
    write(project / "tests/cassettes/test_m/test_plain.yaml", interaction(answer=said("Own.")))
    report = imported(project / "tests")
    store = Store.open(tmp_path / "store")
    (item,) = store.list()

    def text(test: str) -> str:
        owner = owner_of_test(f"tests/test_m.py::{test}", store.scopes)
        return store.get(item.model, item.prompt_hash, owner).answers[0].text

    assert (report["exit"], report["answers"], report["interactions"]) == (0, 2, 2)
    assert [text(test) for test in ("test_by_name", "test_by_name_too[1]", "test_plain")] == [
        "Shared.",
        "Shared.",
        "Own.",
    ]
    assert len(report["added"]) == 2


def test_cassettes_of_no_test_are_told(project: Path, imported: Imported) -> None:
    file = write(project / "tests/cassettes/other.yaml", interaction())

    assert imported(file)["without_test"] == [str(file)]
