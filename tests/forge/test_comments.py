"""One comment, found again by its author and its mark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from cortex_replay.errors import ConfigError, ResponseParse, Transport, Upstream
from cortex_replay.forge.comments import Request, fit, mark, post
from cortex_replay.forge.github import GitHubRequest
from cortex_replay.forge.gitlab import GitLabRequest
from tests.adapters.fake_provider import serving_in_thread, whole
from tests.servers.forge import OTHER, READER, WRITER, Forge, forge_server

REVIEW = "<!-- cortex-replay diff -->\n## One change\n"


@pytest.fixture
def forge() -> Iterator[Forge]:
    with forge_server() as serving:
        yield serving


def on_github(forge: Forge, token: str = WRITER) -> Request:
    return GitHubRequest(forge.graphql, token, "owner/name", 3)


def on_gitlab(forge: Forge, token: str = WRITER) -> Request:
    return GitLabRequest(forge.gitlab, token, 7, 3)


BOTH = pytest.mark.parametrize("on", [on_github, on_gitlab])
On = Callable[..., Request]


@BOTH
def test_a_comment_is_posted_once_and_then_updated(forge: Forge, on: On) -> None:
    forge.write("job", "another comment of the job's")
    outcomes = [post(on(forge), text)[0] for text in (REVIEW, REVIEW, f"{REVIEW}More.\n")]

    assert outcomes == ["posted", "unchanged", "updated"]
    assert [note.body for note in forge.notes] == ["another comment of the job's", f"{REVIEW}More.\n"]


@BOTH
def test_ends_of_lines_that_a_forge_changed_make_no_second_comment(forge: Forge, on: On) -> None:
    """A person who edits a comment in a browser gives it others."""
    forge.write("job", REVIEW.replace("\n", "\r\n"))

    assert [post(on(forge), text)[0] for text in (REVIEW, f"{REVIEW}More.\n")] == ["unchanged", "updated"]
    assert [note.body for note in forge.notes] == [f"{REVIEW}More.\n"]


@BOTH
def test_a_comment_of_another_author_is_not_ours_whatever_it_says(forge: Forge, on: On) -> None:
    """Its author could put other words into it later, and they would pass for ours."""
    forge.write(OTHER, REVIEW)
    forge.write("job", f"> {REVIEW}quoted by the job")

    assert post(on(forge), f"{REVIEW}Mine.\n")[0] == "posted"
    assert forge.notes[0].body == REVIEW
    assert len(forge.notes) == 3


@BOTH
def test_ours_is_found_behind_hundreds_of_others(forge: Forge, on: On) -> None:
    for number in range(250):
        forge.write(OTHER, f"comment {number}")
    post(on(forge), REVIEW)
    for number in range(150):
        forge.write(OTHER, f"later {number}")

    assert post(on(forge), f"{REVIEW}More.\n")[0] == "updated"
    assert len(forge.notes) == 401


@BOTH
def test_a_token_that_may_only_read_is_no_error(forge: Forge, on: On) -> None:
    outcome, why = post(on(forge, READER), REVIEW)

    assert outcome == "refused"
    assert why
    assert forge.notes == []


@BOTH
def test_a_wrong_token_is_an_error(forge: Forge, on: On) -> None:
    with pytest.raises(Upstream, match="401 Bad credentials"):
        post(on(forge, "nonsense"), REVIEW)


def test_a_redirect_is_not_followed() -> None:
    """The token would go along."""
    with forge_server() as elsewhere, serving_in_thread(whole({}, 307, location=elsewhere.graphql)) as server:
        with pytest.raises(Upstream, match="307"):
            post(GitHubRequest(server.url, WRITER, "owner/name", 3), REVIEW)
        assert elsewhere.asked == []


def test_a_token_goes_over_no_open_line() -> None:
    with pytest.raises(ConfigError, match="no https"):
        GitHubRequest("http://github.example/graphql", WRITER, "owner/name", 3)


def test_a_server_that_is_not_there_is_a_transport_error() -> None:
    with pytest.raises(Transport):
        post(GitHubRequest("http://127.0.0.1:1/graphql", WRITER, "owner/name", 3), REVIEW)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"data": None},
        {"data": {"repository": None}},
        {"data": {"repository": {"pullRequest": {"id": "1", "comments": {"nodes": [{}]}}}}},
        [],
    ],
)
def test_an_answer_in_another_shape_is_named(document: object) -> None:
    with serving_in_thread(whole(json.dumps(document).encode())) as server, pytest.raises(ResponseParse):
        post(GitHubRequest(server.url, WRITER, "owner/name", 3), REVIEW)


def test_a_line_that_gitlab_would_carry_out_is_only_text(forge: Forge) -> None:
    """A model may have answered ``/approve``, and the note is written in the name of somebody who may."""
    post(on_gitlab(forge), f"{REVIEW}/approve\n  /merge now\na/b\n")

    assert forge.notes[0].body == f"{REVIEW}\\/approve\n  \\/merge now\na/b\n"
    assert not re.search(r"^\s*/\w", forge.notes[0].body, re.MULTILINE)


def test_a_line_that_gitlab_would_carry_out_changes_nothing_about_the_next_time(forge: Forge) -> None:
    text = f"{REVIEW}/approve\n"
    post(on_gitlab(forge), text)

    assert post(on_gitlab(forge), text)[0] == "unchanged"


@pytest.mark.parametrize(
    ("text", "name", "first"),
    [
        (REVIEW, None, "<!-- cortex-replay diff -->"),
        (REVIEW, "tests/llm", "<!-- cortex-replay tests/llm -->"),
        ("plain", None, "<!-- cortex-replay comment -->"),
        ("<!-- of another tool -->", None, "<!-- cortex-replay comment -->"),
    ],
)
def test_the_mark(text: str, name: str | None, first: str) -> None:
    assert mark(text, name).split("\n")[0] == first


@pytest.mark.parametrize("name", ["-->", "a--b", "a---", "a\nb", "<b>", "é"])
def test_a_name_cannot_end_the_mark(name: str) -> None:
    first, rest = mark("text", name).split("\n", 1)

    assert re.fullmatch(r"<!-- cortex-replay (?!.*--.* -->)[^<>]+ -->", first)
    assert rest == "text"


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_name_has_a_sensible_length(name: str) -> None:
    with pytest.raises(ValueError, match="a name has"):
        mark("text", name)


def test_a_long_text_is_cut_at_a_line_and_closes_what_is_open() -> None:
    text = "head\n<details>\n\n````diff\n" + "```\nline of a diff\n" * 500 + "````\n</details>\n"
    cut = fit(text, 5000)

    assert len(cut) <= 5000
    assert fit(text, len(text)) == text
    *kept, fence, details, _, last, _ = cut.split("\n")
    assert set(kept[4:]) == {"```", "line of a diff"}, "no line is cut in two"
    assert (fence, details) == ("````", "</details>")
    assert "too long" in last


def test_a_fence_in_a_list_is_closed_where_it_was_opened() -> None:
    """Outside of the list, its end would be the start of another block, and what follows the text of that."""
    text = "- one\n\n  <details>\n\n  ````diff\n" + "  + line\n" * 1000
    cut = fit(text, 5000)

    assert "  + line\n  ````\n</details>\n" in cut


def test_a_fence_is_closed_by_a_bare_one_alone() -> None:
    """What was recorded may hold one that opens another block; the first is still open behind it."""
    cut = fit("````text\n````python\n</details>\n" + "x\n" * 3000, 4000)

    assert re.search(r"\nx\n````\n\n_The rest", cut)
    assert "</details>" not in cut.partition("\nx\n")[2]


def test_an_error_of_the_forge_is_no_refusal() -> None:
    """A job of a fork may not write, and that is well. That a server fails is not."""
    with serving_in_thread(whole(b"{}", 500)) as server, pytest.raises(Upstream):
        post(GitLabRequest(f"{server.url}/api/v4", WRITER, 7, 3), REVIEW)


def test_one_endless_line_is_cut_too() -> None:
    assert len(fit("x" * 100_000, 65_536)) <= 65_536
