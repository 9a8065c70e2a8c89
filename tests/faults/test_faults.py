"""Which call is hit, and how a fault is spelled."""

from __future__ import annotations

from collections import Counter

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.faults import KINDS, Fault, Faults


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("429", "429@1"),
        ("429:2.5@3", "429:2.5@3"),
        ("cut:3@always", "cut:3@always"),
        ("500@0.25/7", "500@0.25/7"),
        ("chunks:byte@always", "chunks:byte@always"),
        (" TIMEOUT@2 ", "timeout@2"),
        ("stall@1.0", "stall@always"),
        ("error-event:2", "error-event:2@1"),
        ("418@2", "418@2"),
        ("tool-hang", "tool-hang@1"),
        ("tool-error:files/read_File@always", "tool-error:files/read_File@always"),
        ("tool-fail:read_*@2", "tool-fail:read_*@2"),
    ],
)
def test_a_fault_is_what_it_is_spelled_as(text: str, shown: str) -> None:
    assert str(Fault.parse(text)) == shown
    assert Fault.parse(shown) == Fault.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "@2",
            "nothing",
            "399",
            "600",
            "429@0",
            "429@-1",
            "429@1.5",
            "429@2/x",
            "cut:x",
            "cut:-1",
            "reset:3",
            "tool-nothing",
            "tool-hang:a b",
            "tool-hang@0",
        ),
        *("chunks", "chunks:half", "429:never", "429:99999", "malformed-json:1", "429@2@3", "timeout:5"),
    ],
)
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Fault.parse(text)

    assert caught.value.field == "fault"


def test_every_kind_can_be_spelled() -> None:
    for kind in KINDS:
        Fault.parse(f"{kind}:byte" if kind == "chunks" else kind)


def hits(faults: Faults, calls: int, scope: str = "", own: str = "") -> list[int]:
    return [call for call in range(1, calls + 1) if faults.next(scope, own) is not None]


def test_once_always_and_at_a_rate() -> None:
    assert hits(Faults([Fault.parse("429@3")]), 9) == [3]
    assert hits(Faults([Fault.parse("429@always")]), 3) == [1, 2, 3]
    drawn = hits(Faults([Fault.parse("429@0.3/5")]), 1000)
    assert drawn == hits(Faults([Fault.parse("429@0.3/5")]), 1000), "the same every time"
    assert drawn != hits(Faults([Fault.parse("429@0.3/6")]), 1000)
    assert 250 < len(drawn) < 350


def test_scopes_count_for_themselves() -> None:
    faults = Faults([Fault.parse("429@2")])

    assert [hits(faults, 3, scope) for scope in ("a", "b")] == [[2], [2]]
    together = Faults([Fault.parse("429@2")], per_scope=False)
    assert [hits(together, 3, scope) for scope in ("a", "b")] == [[2], []]


def test_a_call_s_own_faults_have_their_own_count() -> None:
    faults = Faults([Fault.parse("500@1")])

    assert str(faults.next("a", "429@2,529@3")) == "500@1"
    assert [str(faults.next("a", "429@2,529@3")) for _ in range(3)] == ["429@2", "529@3", "None"]
    with pytest.raises(InvalidRequest):
        faults.next("a", "nonsense")


def test_faults_are_set_and_listed() -> None:
    faults = Faults([Fault.parse("500@1")])
    faults.next()
    faults.set([Fault.parse("429@1")], "a")

    assert faults.spellings() == {"": ["500@1"], "a": ["429@1"]}
    assert str(faults.next("a")) == "429@1"
    faults.set(())
    assert not faults.are_any
    assert faults.struck == Counter()


def test_calls_of_tools_count_by_themselves() -> None:
    faults = Faults(map(Fault.parse, ("429@2", "tool-error@2", "tool-hang:files/read_*@2")))

    tools = ["read_a", "list", "read_b", "read_c"]
    struck = [str(faults.next_tool("", "files", tool)) for tool in tools]

    assert struck == ["None", "tool-error@2", "tool-hang:files/read_*@2", "None"]
    assert hits(faults, 3) == [2], "and those of models by themselves"
    assert hits(Faults([Fault.parse("tool-error@always")]), 3, own="tool-fail@always") == []
    assert faults.next_tool("", "mail", "read_a") is None


def test_a_tool_is_named_alone_or_with_its_server() -> None:
    assert Fault.parse("tool-hang:read_*").fits("files", "read_a")
    assert Fault.parse("tool-hang:files/*").fits("files", "read_a")
    assert not Fault.parse("tool-hang:mail/*").fits("files", "read_a")
    assert not Fault.parse("tool-hang:READ_*").fits("files", "read_a")
