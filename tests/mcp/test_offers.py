"""What a server offers, and how that changed."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.mcp.offers import Change, Offer, compare_offers

READ: dict[str, Any] = {
    "name": "read",
    "description": "Read a file from the disk, whole or in part.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def offer(*tools: dict[str, Any]) -> Offer:
    return Offer.of_pages([("tools/list", {"tools": [*tools]})])


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, bool]]:
    found = compare_offers(offer(before), offer(after))
    return [(change.what, change.text, change.is_breaking) for change in found]


def test_pages_are_joined() -> None:
    pages: Any = [
        ("tools/list", {"tools": [READ], "nextCursor": "2"}),
        ("tools/list", {"tools": [{"name": "b"}]}),
    ]

    assert list(Offer.of_pages(pages).tools) == ["read", "b"]
    assert compare_offers(Offer.of_pages(pages), offer({"name": "b"}, READ)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"description": "Read a file from the network, whole or in part."},
            ("description", '"… from the disk, whole or …" became "… from the network, whole or …"', False),
        ),
        ({"title": "Read"}, ("title", 'added: "Read"', False)),
        (
            {"annotations": {"readOnlyHint": True}},
            ("annotations", 'nothing became {"readOnlyHint":true}', False),
        ),
        (
            {"inputSchema": {"type": "object"}},
            ("input", "path: removed", False),
        ),
        ({"outputSchema": {"type": "object"}}, ("output", "has a schema now", False)),
    ],
)
def test_one_change(change: dict[str, Any], told: tuple[str, str, bool]) -> None:
    assert changes(READ, READ | change) == [told]
    assert changes(READ | change, READ | change) == []


def test_annotations_are_told_one_by_one() -> None:
    before = READ | {"annotations": {"readOnlyHint": True, "title": "R"}}
    after = READ | {"annotations": {"readOnlyHint": False, "title": "R"}}

    assert changes(before, after) == [("annotations", "readOnlyHint true became false", False)]


def test_tools_come_and_go() -> None:
    found = compare_offers(offer(READ), offer({"name": "list", "inputSchema": {"type": "object"}}))

    assert found == [
        Change("tool", "read", "removed", "is not there any more", is_breaking=True),
        Change("tool", "list", "added", "is new", is_breaking=False),
    ]


def test_a_tool_under_another_name() -> None:
    [renamed, described] = compare_offers(
        offer(READ), offer(READ | {"name": "read_file", "description": READ["description"] + " Text."})
    )

    assert (renamed.what, renamed.name, renamed.new_name, renamed.is_breaking) == (
        "renamed",
        "read",
        "read_file",
        True,
    )
    assert (described.what, described.name) == ("description", "read")


def test_prompts_and_templates() -> None:
    def both(required: bool, mime: str) -> Offer:
        prompts: Any = [{"name": "ask", "arguments": [{"name": "city", "required": required}]}]
        templates: Any = [{"uriTemplate": "file:///{path}", "name": "File", "mimeType": mime}]
        return Offer.of_pages(
            [
                ("prompts/list", {"prompts": prompts}),
                ("resources/templates/list", {"resourceTemplates": templates}),
                ("resources/list", {"resources": [{"uri": mime}]}),
            ]
        )

    found = compare_offers(both(required=False, mime="text/plain"), both(required=True, mime="text/html"))

    assert [(change.of, change.name, change.what, change.text, change.is_breaking) for change in found] == [
        ("prompt", "ask", "arguments", "city: became required", True),
        ("resource template", "file:///{path}", "mimeType", '"text/plain" became "text/html"', False),
    ]


def test_a_list_that_was_not_asked_for_is_not_compared() -> None:
    before = Offer.of_pages([("prompts/list", {"prompts": [{"name": "a"}]})])

    assert compare_offers(before, offer(READ)) == []


def test_what_models_see() -> None:
    assert Change("tool", "a", "description", "", is_breaking=False).is_seen_by_models
    assert Change("tool", "a", "removed", "", is_breaking=True).is_seen_by_models
    assert not Change("tool", "a", "annotations", "", is_breaking=False).is_seen_by_models
    assert not Change("prompt", "a", "description", "", is_breaking=False).is_seen_by_models


@pytest.mark.parametrize("rubbish", [None, [], {"tools": 3}, {"tools": [3, {"name": 3}, {}]}])
def test_rubbish_offers_nothing(rubbish: Any) -> None:
    assert not Offer.of_pages([("tools/list", rubbish)]).tools


def test_a_name_that_is_only_spelled_otherwise() -> None:
    [renamed, *_] = compare_offers(
        offer({"name": "getTinyImage"}), offer({"name": "get-tiny-image", "title": "x"})
    )

    assert (renamed.what, renamed.new_name) == ("renamed", "get-tiny-image")
