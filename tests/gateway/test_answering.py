"""Which faults strike whom: those of a scope while it has some, else those of all."""

from __future__ import annotations

from typing import cast

from cortex_replay.engine.http.engine import Engine
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway.answering import Answering


def test_a_scope_has_faults_of_its_own_until_it_is_over() -> None:
    answering = Answering(cast("Engine", None), Faults([Fault.parse("500@always")]))

    def strikes() -> list[str]:
        faults = [answering.next_fault(scope, "") for scope in ("a", "b")]
        return ["" if fault is None else fault.kind for fault in faults]

    assert strikes() == ["500", "500"]
    answering.set_faults("a", Faults([Fault.parse("429@always")]))
    assert strikes() == ["429", "500"]
    answering.set_faults("b", Faults())
    assert strikes() == ["429", ""]
    answering.set_faults("a", None)
    answering.set_faults("b", None)
    assert strikes() == ["500", "500"]
