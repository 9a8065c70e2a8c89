"""``python -m tests.mutants.generate``: bugs of a mutation tool (Cosmic Ray), as entries of the list.

They are for a person to look at: which tests are the narrowest, and whether one that survives is a bug.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.mutants.catalogue import PACKAGE, ROOT, Mutant

_DULL: Final = ("no_op", "Variable")
"""Operators that change nothing, or want to be told a variable."""
_TRIES: Final = 40


def generate(files: Sequence[str], count: int, seed: str) -> Iterator[Mutant]:
    """Bugs that compile and are no change of an annotation, evenly from all files.

    Args:
        files: Of the product, as ``cortex_replay/store/trust.py``.
        count: How many, at most.
        seed: What the choice depends on.
    """
    # Not at the top: only who makes new ones needs the tool.
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator, operator_names  # noqa: PLC0415

    chance = random.Random(seed)
    kinds = defaultdict(list)  # or most of them would replace one binary operator by another
    for name in sorted(operator_names()):
        if not any(dull in name for dull in _DULL):
            kinds[name.partition("_")[0]].append(get_operator(name)())
    made = 0
    names: set[str] = set()
    while files and made < count:
        for file in list(files):
            source = (ROOT / file).read_text()
            nodes = list(ast_nodes(get_ast(source)))
            for _ in range(_TRIES):
                operator = chance.choice(kinds[chance.choice(list(kinds))])
                places = sum(len(list(operator.mutation_positions(node))) for node in nodes)
                if not places:
                    continue
                changed = mutate_code(source, operator, chance.randrange(places))
                mutant = changed and _mutant(file, source, changed)
                if mutant and mutant.name not in names:
                    names.add(mutant.name)
                    yield mutant
                    made += 1
                    break
            if made == count:
                return


def _mutant(file: str, source: str, changed: str) -> Mutant | None:
    """The entry for a changed source, unless it means the same, or nothing."""
    try:
        if _meaning(source) == _meaning(changed):
            return None
    except SyntaxError:
        return None
    before, after = source.split("\n"), changed.split("\n")
    begin = next(number for number, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    end = 1
    while end < min(len(before), len(after)) - begin and before[-end] == after[-end]:
        end += 1
    place = _place(source, begin + 1)
    first, last = begin, len(before) - end + 1
    while source.count("\n".join(before[first:last])) > 1 and first:
        first -= 1
    old, new = "\n".join(before[first:last]), "\n".join(after[first : len(after) - end + 1])
    if "'''" in old + new or source.count(old) != 1:
        return None
    was, now = _difference(
        *(
            " ".join("".join(lines).split())
            for lines in (before[begin:last], after[begin : len(after) - end + 1])
        )
    )
    stem = re.sub(r"[^a-z0-9]+", "-", f"{Path(file).stem}-{place}-{begin + 1}".lower()).strip("-")
    return Mutant(
        name=f"tool-{stem}",
        bug=f"In {place}, `{was}` has become `{now}`.",
        origin="tool",
        file=file,
        old=old,
        new=new,
        tests=tests_of(file),
        part="tool",
    )


def _difference(was: str, now: str) -> tuple[str, str]:
    """The parts of two lines that differ, with the words around them."""
    begin = _common(was, now)
    end = min(_common(was[::-1], now[::-1]), len(was) - begin, len(now) - begin)
    begin = was.rfind(" ", 0, max(begin - 12, 0)) + 1
    behind = was.find(" ", len(was) - max(end - 12, 0))
    end = len(was) - behind if behind >= 0 else 0
    return was[begin : len(was) - end], now[begin : len(now) - end]


def _common(one: str, other: str) -> int:
    return next((number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def _meaning(source: str) -> str:
    """A source without what no program notices: annotations, and what guards against mistakes of ours."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(value=None)
        if isinstance(node, ast.Call):
            node.keywords = [one for one in node.keywords if one.arg not in ("frozen", "slots", "strict")]
    return ast.dump(tree)


def _place(source: str, line: int) -> str:
    """The innermost function, or else the module, that a line is in."""
    found = "the module"
    for node in ast.walk(ast.parse(source)):
        is_named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_named and node.lineno <= line <= (node.end_lineno or 0):  # type: ignore[attr-defined]
            found = node.name  # type: ignore[attr-defined]
    return found


def tests_of(file: str) -> tuple[str, ...]:
    """The tests that mirror a file, else those of the folder that it is in."""
    inner = Path(file).relative_to(PACKAGE)
    mirror = Path("tests") / inner.parent / f"test_{inner.stem}.py"
    while not (ROOT / mirror).exists():
        mirror = mirror.parent
    return (mirror.as_posix(),)


def render(mutant: Mutant) -> str:
    """An entry of the list."""
    values: dict[str, Any] = {
        "name": mutant.name,
        "bug": mutant.bug,
        "origin": mutant.origin,
        "file": mutant.file,
    }
    lines = [f"{name} = {_quote(value)}" for name, value in values.items()]
    lines += [f"{name} = '''\n{value}'''" for name, value in (("old", mutant.old), ("new", mutant.new))]
    lines.append(f"tests = [{', '.join(map(_quote, mutant.tests))}]")
    return "[[mutant]]\n" + "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the entries."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.generate",
        description="Prints bugs of a mutation tool in some files, as entries of tests/mutants/tool.toml.",
        epilog="Example: python -m tests.mutants.generate --seed 7 --count 5 cortex_replay/canonical.py",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--count", type=int, default=40, help="how many (default: 40)")
    parser.add_argument("--seed", default="0", help="what the choice depends on (default: 0)")
    options = parser.parse_args(arguments)
    for file in options.files:
        if not file.startswith(PACKAGE) or not (ROOT / file).is_file():
            parser.error(f"{file} is no file of the product; name it from the top, as {PACKAGE}canonical.py")
    sys.stdout.write("\n".join(map(render, generate(options.files, options.count, options.seed))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
