"""Requests message by message: the same hashes as those of whole requests, and the same bytes back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, strategies as st

from cortex_replay import blake3_hex
from cortex_replay.errors import InvalidRequest
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture_json import parse_fixture, render_fixture
from cortex_replay.store.index.index import FixtureRow, PartRow
from cortex_replay.store.requests.forms import Form, shorten
from cortex_replay.store.requests.links import Links
from cortex_replay.store.trust import trust_fixture
from cortex_replay.types import LlmRequest
from tests.property.strategies import effort, messages, requests

talks = st.tuples(requests, st.lists(messages, min_size=1, max_size=6))


def request_of(talk: tuple[dict[str, Any], list[dict[str, Any]]]) -> LlmRequest | None:
    """A request, unless there is none such."""
    try:
        return LlmRequest.from_dict({**talk[0], "messages": talk[1]})
    except InvalidRequest:
        return None


@given(talks)
@effort(60)
def test_prefixes_hash_as_requests_of_their_own(talk: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    """Whatever ids of tool calls appear where."""
    request = request_of(talk)
    if request is None:
        return
    hasher = request.hasher()
    found = dict(request.prefix_hashes())
    assert len(found) == len(request.messages)
    for count, message in enumerate(request.messages):
        whole = replace(request, messages=request.messages[:count])
        assert hasher.prompt_hash() == found[count] == whole.prompt_hash()
        hasher.add(message)
    assert hasher.prompt_hash() == request.prompt_hash()


@given(talks, st.lists(messages, min_size=1, max_size=3), st.lists(messages, min_size=1, max_size=3))
@effort(60)
def test_two_that_go_on_from_one_do_not_mix(
    talk: tuple[dict[str, Any], list[dict[str, Any]]], one: list[Any], two: list[Any]
) -> None:
    """Their copies share the numbers of tool calls so far, and none of those that follow."""
    start, ends = request_of(talk), [request_of((talk[0], talk[1] + more)) for more in (one, two)]
    if start is None or None in ends:
        return
    hasher = start.hasher()
    for message in start.messages:
        hasher.add(message)
    copies = [hasher.copy(), hasher.copy()]
    for end, copy in zip(ends, copies, strict=True):
        assert end is not None
        for message in end.messages[len(start.messages) :]:
            copy.add(message)
    assert [copy.prompt_hash() for copy in copies] == [end.prompt_hash() for end in ends if end is not None]
    assert hasher.prompt_hash() == start.prompt_hash()


@given(talks, st.booleans())
@effort(50)
def test_what_is_shortened_comes_back_to_the_byte(
    talk: tuple[dict[str, Any], list[dict[str, Any]]], is_large: bool
) -> None:
    """Each turn of a conversation, read by the rules of trust."""
    request = request_of(talk)
    if request is None:
        return
    if is_large:
        request = replace(request, system="s" * 5000, tools=({"name": "t" * 5000},))
    turns = [
        Fixture.of(replace(request, messages=request.messages[:count]), Answer(f"{count}"))
        for count in range(1, len(request.messages) + 1)
    ]
    recorded = {turn.key: turn.request for turn in turns}
    rows: dict[FixtureKey, FixtureRow] = {}
    files: dict[str, bytes] = {}
    parts: dict[str, PartRow] = {}
    for turn in turns:
        form: Form = shorten(turn, render_fixture(turn), recorded.get)
        digest = blake3_hex(form.data)
        files[digest] = form.data
        rows[turn.key] = FixtureRow(digest, digest, *turn.key, form.continues)
        for part in form.parts.values():
            digest = blake3_hex(part)
            files[digest], parts[digest] = part, PartRow(digest, digest)
    links = Links(rows.get, parts.get, lambda file: files[file.blake3])
    for turn in turns:
        row = rows[turn.key]
        whole = trust_fixture(row, files[row.path], links.complete)
        assert render_fixture(whole) == render_fixture(parse_fixture(render_fixture(turn)))
    keys = [turn.key.prompt_hash for turn in turns]
    assert all(rows[turn.key].continues == before for before, turn in zip(keys, turns[1:], strict=False))
    assert all(one != two for one, two in pairwise(keys))
