"""Every planted bug can be planted, and tests see a sample of them that changes with the commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import machine
from tests import sampling
from tests.mutants import __main__ as program, catalogue, generate, report
from tests.mutants.catalogue import Mutant, NoMutant
from tests.mutants.copies import Copy, Finish
from tests.mutants.trials import Trial, Verdict, _try_one, _without_bugs, try_all

GROUPS = 2
MUTANTS = catalogue.load()
A_MUTANT = Mutant(
    name="takes-away",
    bug="It subtracts.",
    origin="own",
    file="product/sums.py",
    old="return a + b",
    new="return a - b",
    tests=("tests/test_sums.py",),
    part="sums",
)


def test_every_bug_can_be_planted() -> None:
    assert catalogue.problems(MUTANTS) == []


def test_there_are_many_and_tests_see_nearly_all() -> None:
    assert len(MUTANTS) >= 150
    assert sum(mutant.survives is None for mutant in MUTANTS) >= report.SHARE * len(MUTANTS)
    assert {mutant.origin for mutant in MUTANTS} == set(catalogue.ORIGINS)


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_sample_of_them_is_seen(group: int) -> None:
    chosen = catalogue.sample(MUTANTS, 20, sampling.seed())[group::GROUPS]

    assert report.faults(try_all(chosen)) == []


def test_a_sample_changes_with_the_seed_and_leaves_out_what_no_test_sees() -> None:
    many = [replace(A_MUTANT, name=f"bug-{number:02}") for number in range(40)]
    many[7] = replace(many[7], survives="It is the same function, written otherwise.")

    assert catalogue.sample(many, 20, "a") == catalogue.sample(list(reversed(many)), 20, "a")
    assert catalogue.sample(many, 20, "a") != catalogue.sample(many, 20, "b")
    assert many[7] not in catalogue.sample(many, 40, "a")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A product of one file, with a test that fails anyway."""
    head = "from product.sums import half, total\n\n\n"
    for name, text in {
        "product/sums.py": "def total(a, b):\n    return a + b\n\n\ndef half(a):\n    return a / 2\n",
        "pytest.ini": "[pytest]\naddopts = -p no:cortex_replay\n",
        "tests/test_half.py": f"{head}def test_half():\n    assert half(1) == 0\n",
        "tests/test_none.py": "",
        "tests/test_one.py": f"{head}def test_one():\n    assert total(1, 0) == 1\n",
        "tests/test_sums.py": f"{head}def test_sum():\n    assert total(2, 2) == 4\n",
    }.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


def test_each_bug_has_its_verdict_and_the_tree_is_untouched(tree: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    heard: list[Trial] = []
    mutants = [
        A_MUTANT,
        replace(A_MUTANT, name="seen-later", tests=("tests/test_one.py", "tests/test_sums.py")),
        replace(A_MUTANT, name="unseen", new="return b + a"),
        replace(A_MUTANT, name="nowhere", old="return a * b"),
        replace(A_MUTANT, name="fails-anyway", old="a / 2", new="a / 3", tests=("tests/test_half.py",)),
        replace(A_MUTANT, name="no-such-test", tests=("tests/test_sums.py::test_gone",)),
        replace(A_MUTANT, name="no-tests", tests=("tests/test_none.py",)),
        replace(A_MUTANT, name="no-import", old="def total(", new="def totals("),
    ]

    trials = try_all(mutants, 2, root=tree, tell=heard.append)

    assert {trial.mutant.name: (trial.verdict, trial.by) for trial in trials} == {
        "takes-away": (Verdict.CAUGHT, "tests/test_sums.py::test_sum"),
        "seen-later": (Verdict.CAUGHT, "tests/test_sums.py::test_sum"),
        "unseen": (Verdict.SURVIVED, ""),
        "nowhere": (Verdict.UNPLANTED, "nowhere: what it replaces occurs 0 times in product/sums.py"),
        "fails-anyway": (Verdict.BROKEN, "tests/test_half.py::test_half"),
        "no-such-test": (Verdict.BROKEN, "tests/test_sums.py::test_gone"),
        "no-tests": (Verdict.BROKEN, "tests/test_none.py has no tests"),
        "no-import": (Verdict.CAUGHT, "tests/test_sums.py"),
    }
    assert sorted(trial.mutant.name for trial in heard) == sorted(mutant.name for mutant in mutants)
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_a_run_that_is_stopped_leaves_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither processes nor copies."""
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    made: list[Copy] = []
    make = Copy.__init__

    def note(copy: Copy, place: Path, source: Path) -> None:
        make(copy, place, source)
        made.append(copy)

    def stop(trial: Trial) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Copy, "__init__", note)
    with pytest.raises(KeyboardInterrupt):
        try_all([replace(A_MUTANT, name=f"bug-{number}") for number in range(9)], root=tree, tell=stop)

    [copy] = made
    assert not copy.root.exists()
    with pytest.raises(RuntimeError, match="closed"):
        copy.run(["tests/test_sums.py"], 300)
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


class FakeCopy:
    """Runs nothing: its tests hang while a bug is planted."""

    def __init__(self, *, without: int | None) -> None:
        self.without, self.plants, self.runs = without, 0, 0

    def planted(self, mutant: Mutant) -> FakeCopy:
        return self

    def __enter__(self) -> None:
        self.plants += 1

    def __exit__(self, *_: object) -> None:
        self.plants -= 1

    def run(self, tests: Sequence[str], limit: float, *, stop: bool = True) -> Finish:
        return Finish(None if self.plants else self.without, (), 0.0)


@pytest.mark.parametrize(("without", "verdict"), [(0, Verdict.CAUGHT), (None, Verdict.BROKEN)])
def test_a_bug_that_makes_tests_hang_is_caught_if_they_end_without_it(
    without: int | None, verdict: Verdict
) -> None:
    copy = cast("Copy", FakeCopy(without=without))

    [trial] = _without_bugs(copy, [_try_one(copy, A_MUTANT, 1)], 1)

    assert (trial.verdict, trial.by) == (verdict, "tests/test_sums.py")


class FlakyCopy(FakeCopy):
    """Its test fails once, with the bug or without."""

    def run(self, tests: Sequence[str], limit: float, *, stop: bool = True) -> Finish:
        self.runs += 1
        return Finish(1, ("tests/test_sums.py::test_sum",), 0.0) if self.runs == 1 else Finish(0, (), 0.0)


@pytest.mark.parametrize(("is_sure", "verdict"), [(True, Verdict.SURVIVED), (False, Verdict.CAUGHT)])
def test_a_test_that_fails_by_chance_sees_nothing(is_sure: bool, verdict: Verdict) -> None:
    copy = cast("Copy", FlakyCopy(without=0))

    assert _try_one(copy, A_MUTANT, 1, is_sure=is_sure).verdict is verdict


def test_a_bug_that_only_a_later_test_sees_is_seen(tree: Path) -> None:
    """What it leaves behind does no harm to a test that runs alone."""
    (tree / "tests/test_twice.py").write_text(
        "from product.sums import seen\n\n\n"
        "def test_first():\n    seen.append(1)\n    seen.clear()\n\n\n"
        "def test_second():\n    assert seen == []\n"
    )
    with (tree / "product/sums.py").open("a") as source:
        source.write("\n\nclass Seen(list):\n    def clear(self):\n        del self[:]\n\n\nseen = Seen()\n")
    bug = replace(A_MUTANT, old="del self[:]", new="pass", tests=("tests/test_twice.py",))

    [trial] = try_all([bug], root=tree, is_sure=True)

    assert (trial.verdict, trial.by) == (Verdict.CAUGHT, "tests/test_twice.py")


def test_a_run_that_takes_too_long_is_ended(tree: Path, tmp_path: Path) -> None:
    (tree / "tests/test_long.py").write_text("import signal\n\n\ndef test_long():\n    signal.pause()\n")

    with Copy(tmp_path / "copy", tree) as copy:
        assert copy.run(["tests/test_long.py"], 0.1).code is None
        assert copy.run(["tests/test_sums.py"], 300).code == 0


def test_a_bug_that_cannot_be_planted_is_a_problem(tree: Path) -> None:
    (tree / "cortex_replay").mkdir()
    (tree / "cortex_replay/sums.py").write_text((tree / "product/sums.py").read_text())
    good = replace(A_MUTANT, file="cortex_replay/sums.py")
    bad = [
        replace(good, name="twice", old="return"),
        replace(good, name="same", new=good.old),
        replace(good, name="no-code", new="return a +"),
        replace(good, name="elsewhere", file="product/sums.py"),
        replace(good, name="gone", file="cortex_replay/gone.py"),
        replace(good, name="no-tests", tests=()),
        replace(good, name="missing-tests", tests=("tests/test_gone.py::test_it",)),
        replace(good, name="itself", tests=("tests/test_mutants.py",)),
        replace(good, name="no-sentence", bug="subtracts"),
        replace(good, name="no-origin", origin="heaven"),
        replace(good, name="no-reason", survives="so"),
    ]

    assert catalogue.problems([good], tree) == []
    found = catalogue.problems([*bad, good, good], tree)
    assert [line.partition(":")[0] for line in found] == ["takes-away", *(mutant.name for mutant in bad)]


def test_a_list_that_says_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part.toml").write_text('[[mutant]]\nname = "a"\ntests = []\ntypo = 1\n')

    with pytest.raises(NoMutant, match=r"part\.toml: a: .*typo"):
        catalogue.load(tmp_path)
    (tmp_path / "part.toml").write_text("[[mutant]]name")
    with pytest.raises(NoMutant, match=r"part\.toml: Expected newline"):
        catalogue.load(tmp_path)


def test_a_tool_makes_entries_that_can_be_planted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["cortex_replay/hashing.py", "cortex_replay/strict_json.py"]
    arguments = ["--count", "4", "--seed", "7", *files]

    assert generate.main(arguments) == 0
    (tmp_path / "tool.toml").write_text(capsys.readouterr().out)

    made = catalogue.load(tmp_path)
    assert catalogue.problems(made) == []
    assert [mutant.file for mutant in made] == files * 2
    assert {(mutant.origin, mutant.part) for mutant in made} == {("tool", "tool")}
    generate.main(arguments)
    assert capsys.readouterr().out == (tmp_path / "tool.toml").read_text()
    with pytest.raises(SystemExit):
        generate.main(["tests/builder.py"])


def test_a_change_that_no_program_notices_is_no_bug() -> None:
    source = "def f(a: int | None) -> int:\n    return dict(zip(a, a, strict=True))\n"

    assert generate._mutant("x.py", source, source.replace("|", "&")) is None
    assert generate._mutant("x.py", source, source.replace("True", "False")) is None
    assert generate._mutant("x.py", source, source.replace("return", "retrun")) is None


def test_a_report_says_what_is_wrong() -> None:
    explained = replace(A_MUTANT, name="explained", survives="It is the same function, written otherwise.")
    caught = [
        Trial(replace(A_MUTANT, name=f"bug-{number}"), Verdict.CAUGHT, "a test") for number in range(40)
    ]

    assert report.faults([*caught, Trial(explained, Verdict.SURVIVED)]) == []
    assert report.faults([*caught, Trial(A_MUTANT, Verdict.SURVIVED)]) == [
        "takes-away: no test sees it: It subtracts. (tests/test_sums.py)"
    ]
    assert report.faults([*caught, Trial(explained, Verdict.CAUGHT, "a test")]) == [
        "explained: a test sees it now; drop the reason why no test does"
    ]
    assert report.faults([*caught[:10], Trial(explained, Verdict.SURVIVED)]) == [
        "only 10 of 11 are caught, fewer than 97%"
    ]
    assert [len(report.faults([*caught, Trial(A_MUTANT, verdict)])) for verdict in Verdict] == [0, 1, 1, 1]


def test_the_program_lists_bugs_and_refuses_unknown_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = MUTANTS[0]

    assert program.main(["--list", "--only", first.name]) == 0
    assert capsys.readouterr().out.split() == [first.part, first.name, *first.bug.split()]
    for wrong in (["--only", "no-such-bug"], ["--part", "no-such-part"]):
        with pytest.raises(SystemExit) as ended:
            program.main(wrong)
        assert ended.value.code == 2
    assert "there is no bug called no-such-bug" in capsys.readouterr().err


def test_the_program_tells_how_it_went(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = MUTANTS[0]
    monkeypatch.setattr(program, "try_all", lambda mutants, *_, **__: [Trial(first, Verdict.SURVIVED)])

    assert program.main(["--only", first.name, "--json", str(tmp_path / "out.json")]) == 1

    assert f"{first.name}: no test sees it" in capsys.readouterr().err
    document = json.loads((tmp_path / "out.json").read_text())
    assert (document["bugs"], document["caught"]) == (1, 0)
    assert document["trials"][0]["verdict"] == "survived"


def test_a_run_that_was_stopped_goes_on_with_what_it_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the same commit, and only there."""
    first, second = MUTANTS[:2]
    path, tried = tmp_path / "out.json", list[tuple[list[str], list[str]]]()

    def attempt(mutants: Sequence[Mutant], *_: object, **options: Any) -> list[Trial]:
        tried.append(([one.name for one in mutants], [one.mutant.name for one in options["earlier"]]))
        for mutant in mutants:
            options["tell"](Trial(mutant, Verdict.CAUGHT, "a test"))
            if len(tried) == 1:
                raise KeyboardInterrupt
        return [Trial(one, Verdict.CAUGHT, "a test", is_checked=True) for one in (first, second)]

    monkeypatch.setattr(program, "try_all", attempt)
    run = ["--only", first.name, second.name, "--json", str(path)]
    monkeypatch.setattr(machine, "commit", lambda: "0123")
    with pytest.raises(KeyboardInterrupt):
        program.main(run)
    assert not json.loads(path.read_text())["trials"][0]["is_checked"]
    assert program.main(run) == 0
    assert f"1 of 2 are in {path}" in capsys.readouterr().out
    assert program.main(run) == 0
    for other in ("4567", "0123 with changes"):
        monkeypatch.setattr(machine, "commit", lambda other=other: other)
        assert program.main(run) == 0
    path.write_text("{")
    assert program.main(run) == 0

    both = [first.name, second.name]
    begun = [(both, []), (both[1:], both[:1]), ([], both)]
    assert tried == [*begun, *[(both, [])] * 3]


def test_what_was_found_earlier_is_checked_with_the_rest(tree: Path) -> None:
    earlier = [
        Trial(A_MUTANT, Verdict.CAUGHT, "tests/test_half.py::test_half"),
        Trial(A_MUTANT, Verdict.CAUGHT, "tests/test_sums.py::test_sum"),
        Trial(A_MUTANT, Verdict.CAUGHT, "tests/test_gone.py", is_checked=True),
    ]

    trials = try_all([], root=tree, earlier=earlier)

    assert [trial.verdict for trial in trials] == [Verdict.BROKEN, Verdict.CAUGHT, Verdict.CAUGHT]
    assert all(trial.is_checked for trial in trials)
    assert try_all([], root=tree, earlier=trials) == trials
