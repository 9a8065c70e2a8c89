"""What the base class asks of an adapter."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import pytest

from cortex_replay import LlmAdapter, LlmRequest, LlmResponse, WrapperAdapter
from cortex_replay.testing import EchoAdapter


async def complete(_: LlmAdapter, request: LlmRequest) -> LlmResponse:
    return LlmResponse("Hi.", None, request.model, None, "")


def make(base: type = LlmAdapter, **body: Any) -> type:
    return type("Mine", (base,), body)


@pytest.mark.parametrize("body", [{}, {"adapter_id": ""}, {"adapter_id": 7}, {"adapter_id": None}])
@pytest.mark.parametrize("base", [LlmAdapter, EchoAdapter, WrapperAdapter])
def test_a_class_without_a_name_cannot_be_made(base: type, body: dict[str, Any]) -> None:
    """Else it would fail when something is recorded, far from its cause; a name may be inherited."""
    if base is not LlmAdapter and not body:
        make(base, complete=complete)
        return
    with pytest.raises(TypeError, match=r'^Mine needs an adapter_id, .*: write `adapter_id = "my-adapter"`'):
        make(base, complete=complete, **body)


def test_a_class_that_is_still_abstract_needs_no_name() -> None:
    """Neither one that leaves ``complete`` out, nor one that asks for more; the class below them does."""

    class Unfinished(LlmAdapter):
        pass

    class Parent(LlmAdapter):
        async def complete(self, request: LlmRequest) -> LlmResponse:
            return await self.answer(request)

        @abstractmethod
        async def answer(self, request: LlmRequest) -> LlmResponse: ...

    for kind in (Unfinished, Parent):
        body = {"complete": complete, "answer": complete}
        with pytest.raises(TypeError, match="adapter_id"):
            make(kind, **body)
        assert make(kind, adapter_id="mine", **body)().adapter_id == "mine"


def test_a_method_may_come_from_a_class_beside() -> None:
    """What counts is whether any method is still abstract, wherever the others come from."""

    class Mixin:
        complete = complete

    with pytest.raises(TypeError, match="Mine needs"):
        type("Mine", (Mixin, LlmAdapter), {})
    assert type("Mine", (Mixin, LlmAdapter), {"adapter_id": "mine"})().adapter_id == "mine"


def test_a_wrapper_may_have_a_name_of_its_own() -> None:
    """Then it stands for itself."""
    assert make(WrapperAdapter, adapter_id="mine")(EchoAdapter()).adapter_id == "mine"
