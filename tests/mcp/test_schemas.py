"""Schemas that changed, and arguments that no longer fit."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.mcp.schemas import compare_schemas, problem_of_arguments, problems_of


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
NODE: dict[str, Any] = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}

INPUTS: dict[str, tuple[Any, Any, str, bool]] = {
    "added": (of(), of(a=TEXT), "a: added", False),
    "added and required": (of(), of(a=TEXT) | {"required": ["a"]}, "a: added, and required", True),
    "became required": (of(a=TEXT), of(a=TEXT) | {"required": ["a"]}, "a: became required", True),
    "no longer required": (of(a=TEXT) | {"required": ["a"]}, of(a=TEXT), "a: is no longer required", False),
    "removed": (of(a=TEXT), of(), "a: removed", False),
    "type": (of(a=TEXT), of(a={"type": "integer"}), "a: type string became integer", True),
    "wider type": (
        of(a={"type": "integer"}),
        of(a={"type": "number"}),
        "a: type integer became number",
        False,
    ),
    "narrower type": (
        of(a={"type": "number"}),
        of(a={"type": "integer"}),
        "a: type number became integer",
        True,
    ),
    "any": (of(a={}), of(a=TEXT), "a: type any became string", True),
    "optional": (
        of(a=TEXT),
        of(a={"anyOf": [TEXT, {"type": "null"}]}),
        "a: type string became null|string",
        False,
    ),
    "enum": (of(a={"enum": [1, 2]}), of(a={"enum": [1]}), "a: no longer allows 2", True),
    "wider enum": (of(a={"enum": [1]}), of(a={"enum": [1, "x"]}), 'a: allows "x", too', False),
    "only": (of(a=TEXT), of(a=TEXT | {"enum": ["x"]}), 'a: allows only "x" now', True),
    "bound": (of(a={"maximum": 9}), of(a={"maximum": 3}), "a: maximum 9 became 3", True),
    "wider bound": (of(a={"minimum": 9}), of(a={"minimum": 3}), "a: minimum 9 became 3", False),
    "new bound": (of(a=TEXT), of(a=TEXT | {"maxLength": 3}), "a: maxLength nothing became 3", True),
    "pattern": (of(a=TEXT), of(a=TEXT | {"pattern": "x+"}), "a: pattern changed", True),
    "closed": (of(), of() | {"additionalProperties": False}, "further properties are refused", True),
    "default": (of(a={"default": 3}), of(a={"default": 4}), "a: default 3 became 4", False),
    "within": (of(a=of(b=TEXT)), of(a=of(b={"type": "null"})), "a.b: type string became null", True),
    "items": (of(a={"items": TEXT}), of(a={"items": of()}), "a[]: type string became object", True),
    "words": (
        of(a=TEXT | {"description": "Where the file is"}),
        of(a=TEXT | {"description": "Where the image is"}),
        'a: description "Where the file is" became "Where the image is"',
        False,
    ),
    "reference": (
        of(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": TEXT}},
        of(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": {"type": "null"}}},
        "a: type string became null",
        True,
    ),
    "no schema": (of(a=False), of(a=3), "a: changed", True),
}


@pytest.mark.parametrize("name", INPUTS)
def test_what_a_tool_takes(name: str) -> None:
    before, after, text, is_breaking = INPUTS[name]

    assert compare_schemas(before, after) == [(text, is_breaking)]
    assert compare_schemas(before, before) == []


@pytest.mark.parametrize(
    ("before", "after", "is_breaking"),
    [
        (of(a=TEXT), of(), True),
        (of(), of(a=TEXT), False),
        (of(a=TEXT) | {"required": ["a"]}, of(a=TEXT), True),
        (of(a={"type": "integer"}), of(a={"type": "number"}), True),
        (of(a={"enum": [1, 2]}), of(a={"enum": [1]}), False),
    ],
)
def test_what_a_tool_gives_breaks_the_other_way_round(before: Any, after: Any, is_breaking: bool) -> None:
    [change] = compare_schemas(before, after, is_output=True)

    assert change.is_breaking == is_breaking


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    other = NODE | {"properties": {**NODE["properties"], "name": TEXT}}

    assert compare_schemas(NODE, other) == [("name: added", False)]
    loop: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert [change.text for change in compare_schemas(loop, NODE)] == ["changed"]


def test_arguments_that_fit_and_that_do_not() -> None:
    schema = of(path=TEXT, mode={"enum": ["r"]}) | {"required": ["path"]}

    assert problem_of_arguments({"path": "x"}, schema) is None
    assert problem_of_arguments(None, of()) is None
    assert "path" in str(problem_of_arguments({}, schema))
    assert "mode: " in str(problem_of_arguments({"path": "x", "mode": "w"}, schema))
    assert problem_of_arguments({}, {"$ref": "https://example.com/schema"}) == "the schema is none"
    assert problem_of_arguments({}, {"type": "nothing"}) == "the schema is none"
    assert problem_of_arguments({}, None) is None


def test_no_value_stands_in_a_message() -> None:
    """It may be a secret."""
    schema = of(path={"type": "integer"})

    assert "hunter2" not in str(problem_of_arguments({"path": "hunter2"}, schema))


def test_a_schema_that_holds_one_value_against_thousands_is_not_used() -> None:
    """Down into a value it may go as deep as it likes, also in circles."""
    wide: dict[str, Any] = {"anyOf": [{"const": at} for at in range(3000)]}
    doubling: dict[str, Any] = {
        f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at - 1}"}] * 2} for at in range(1, 30)
    }
    bomb: Any = {"$defs": {"a0": {}, **doubling}, "items": {"$ref": "#/$defs/a29"}}
    tree: Any = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "size": {"type": "integer"}}}
    deep: Any = {"left": {"right": {"left": {"size": "many"}}}}

    assert problems_of([1], bomb) == []
    assert problems_of(-1, wide) == []
    assert [problem.path for problem in problems_of(deep, tree)] == [("left", "right", "left", "size")]
    assert [problem.path for problem in problems_of({}, {"required": ["a", "b"]})] == [("a",), ("b",)]
    assert problems_of({"x": 1}, {"properties": {"a": {}}, "additionalProperties": False})[0].path == ("x",)
