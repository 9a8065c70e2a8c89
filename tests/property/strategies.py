"""Shared strategies, and how long to look: ``make torture`` looks six hundred times as long."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings, strategies as st

from tests.sampling import IS_TORTURE


def effort(examples: int) -> settings:
    """Seeded and a tenth of them in ``make test``, random and a hundred times as many in ``make torture``."""
    return settings(
        max_examples=examples * 100 if IS_TORTURE else max(5, examples // 10),
        derandomize=not IS_TORTURE,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


texts = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, json_values, max_size=4)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)

tool_calls: st.SearchStrategy[Any] = st.builds(
    dict, name=texts, arguments=json_values, id=st.none() | st.sampled_from(["a", "b", "c"])
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": texts},
    optional={
        "parts": st.lists(objects, max_size=2),
        "tool_calls": st.lists(tool_calls, max_size=2),
        "tool_call_id": st.sampled_from(["a", "b", "c"]),
        "is_error": st.booleans(),
    },
)
requests = st.fixed_dictionaries(
    {"model": texts},
    optional={
        "system": texts,
        "messages": st.lists(messages, max_size=3),
        "temperature": st.none() | st.floats(0, 2),
        "max_tokens": st.none() | st.integers(0, 2**32),
        "json_schema": json_values,
        "tools": st.lists(objects, max_size=2),
        "tool_choice": json_values,
        "stop": st.lists(texts, max_size=2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(0, 100),
        "seed": st.integers(-(2**63), 2**64 - 1),
        "extra": objects,
    },
)
