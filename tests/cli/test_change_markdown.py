"""A change as a comment: short, and not to be written by who wrote a recording."""

from __future__ import annotations

import re

import pytest

from cortex_replay.cli.change_markdown import MARKER, markdown_of
from cortex_replay.view.shapes import ChangeDocument
from tests.view.changes import answer, call, change, difference, item, large_change, sample_change

HOSTILE = [
    "@everyone and @octocat/team",
    "![seen](https://evil.example/pixel.png)",
    "[click](https://evil.example) https://evil.example <https://evil.example>",
    "</details></summary><img src=x onerror=alert(1)><script>alert(1)</script>",
    "```",
    "````\n@octocat\n````",
    "`` ` `` ``` @octocat ```",
    "`",
    "`@octocat`",
    "~~~\n@octocat",
    "a\n\n# Heading\n\n@octocat",
    "a\r\n\r\n@octocat",
    "a\x0b\x0c\x1c\x85\u2028\u2029@octocat",
    "\n/close\n/merge",
    "\n::set-output name=x::y\n##[add-path]/tmp",
    "fixes #1, GH-1, octocat/repo#1, 0123456789abcdef0123456789abcdef01234567",
    f"{MARKER}\n{MARKER}",
    "--> <!-- cortex-replay diff",
    "$`\\href{javascript:alert(1)}{x}`$ $$x$$",
    "| a | b |\n|---|---|",
    "[^1]\n\n[^1]: note\n[x]: https://evil.example",
    "&#64;octocat &lt;img&gt;",
    "\\",
    " ",
    "",
    "\x1b[31m\u202e\u200b\ud800",
    "-",
    "===\n---",
]


def skeleton(text: str) -> str:
    """The comment with a word in place of each code span and each fenced block, read as CommonMark does."""
    lines = iter(text.split("\n"))
    kept: list[str] = []
    for line in lines:
        if (fence := re.fullmatch(r" {0,5}(`{3,})([^`]*)", line)) is None:
            kept.append(_without_spans(line))
            continue
        end = re.compile(rf" {{0,5}}`{{{len(fence[1])},}}\s*")
        for inner in lines:
            if end.fullmatch(inner):
                break
        else:
            raise AssertionError("a fence is not closed")
        kept.append("FENCE")
    return "\n".join(kept)


def _without_spans(line: str) -> str:
    made, at = "", 0
    while (start := re.compile("`+").search(line, at)) is not None:
        end = re.compile(rf"(?<!`){start[0]}(?!`)").search(line, start.end())
        assert end is not None, "a span is not closed"
        made += line[at : start.start()] + "SPAN"
        at = end.end()
    return made + line[at:]


def change_of(text: str) -> ChangeDocument:
    """A change in which every recorded text is this one."""
    both = {
        "before": [
            answer(f"{text} before", parsed=None, tool_calls=[call(text, x=text)], finish_reason=text)
        ],
        "after": [answer(text, parsed={text: [text]}, finish_reason=text)],
    }
    names = {"title": text, "who": text, "key": text, "path": text, "scopes": [text]}
    told = {"differences": [difference("behaviour", text, text, text, text)], "why": text}
    return change(
        item("a", "contract", **names, **told, **both),
        item("b", "behaviour", change="road", **names, **told, **both),
        item("c", "words", **names, **told, **both),
        base=text,
        head=text,
    ) | {"findings": [text]}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_recording_cannot_write_in_a_comment(text: str) -> None:
    plain = skeleton(markdown_of(change_of("text"), everything=True))
    made = markdown_of(change_of(text), everything=True)

    # A text of blanks has a word of ours, and nothing is said of one that is empty.
    hostile = skeleton(made).replace("(empty)", "SPAN")

    if text:
        assert hostile == plain
    assert not {"\r", "\x1b", "\u202e", "\u2028", "\x85"} & set(made)
    assert re.findall(r"[@!\[\]$|~\\\x00-\x09\x0b-\x1f\u2028]|https?:", hostile.replace(MARKER, "")) == []
    assert set(re.findall(r"<[^>]*>", hostile)) == {
        MARKER,
        "<details>",
        "<summary>",
        "</summary>",
        "</details>",
    }


def test_the_check_sees_what_breaks_out() -> None:
    assert "@octocat" in skeleton("```diff\n+ a\n```\n@octocat\n")
    assert "@octocat" in skeleton("`` ` `` @octocat")
    with pytest.raises(AssertionError, match="not closed"):
        skeleton("````diff\n+ a\n```\n")


def test_what_a_reviewer_must_see_stands_first() -> None:
    lines = markdown_of(sample_change()).split("\n")

    assert lines[0] == MARKER
    assert lines[3] == (
        "`main` → `working tree`: **2** may break code, **4** act differently, **2** only reworded, "
        "**1** added, **1** removed"
    )
    told = [line for line in lines if line.startswith(("#### ", "- "))]
    assert told[:4] == [
        "#### May break code",
        "- `Refund order 1042, please` (`claude-haiku-5-5`, `72656675`, `tests/test_agent.py::test_refund`)",
        "- `Classify this ticket as JSON` (`gpt-6-luna`, `74726961`)",
        "#### Acts differently",
    ]
    assert "<details><summary>2 recordings only reworded</summary>" in lines
    assert '  +  "priority": "high",' in lines
    assert "  +calls issue_refund" in lines


def test_everything_says_what_was_reworded() -> None:
    one = change(item("a", differences=[difference("words", "text", 'text: "one" became "two"')]))

    assert 'text: "one"' not in markdown_of(one)
    assert '  - `text: "one" became "two"`\n' in markdown_of(one, everything=True)


def test_a_file_that_is_not_trusted_is_named() -> None:
    one = change(item("a", "same"))
    one["findings"] = ["fixtures/a.json: is not what the index says"] * 12

    lines = markdown_of(one).split("\n")

    assert lines[3] == "`main` → `working tree`: **1** with the same answer in another file"
    assert lines[5] == "**12 findings: files that their index does not vouch for are not compared.**"
    assert lines[7] == "- `fixtures/a.json: is not what the index says`"
    assert lines[17] == "- and 2 more"


def test_nothing_changed() -> None:
    assert markdown_of(change()).split("\n")[3] == "`main` → `working tree`: nothing changed"


def test_a_long_list_fits_into_a_comment() -> None:
    many = change(*(item(f"item-{at}", "contract", title="é" * 200) for at in range(2000)))

    for document, most in ((large_change(100), 60_000), (many, 60_000), (sample_change(), 1_800)):
        made = markdown_of(document, most)
        assert len(made.encode()) <= most
        skeleton(made)  # every fence and span is closed
    listed = re.findall(r"^- ", markdown_of(many), re.MULTILINE)
    assert f"… and {2000 - len(listed):,} more." in markdown_of(many)


def test_both_sides_are_left_out_before_a_change_is() -> None:
    made = markdown_of(sample_change(), 1_800)

    assert made.count("\n- ") == 8
    assert 0 < made.count("both sides") < 6
