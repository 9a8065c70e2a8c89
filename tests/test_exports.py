from __future__ import annotations

import cortex_replay


def test_the_public_names_are_one_sorted_list() -> None:
    """``__all__`` is sorted, complete and importable."""
    names = cortex_replay.__all__

    assert sorted(names) == names
    assert all(hasattr(cortex_replay, name) for name in names)


def test_the_names_that_the_product_promises_are_there() -> None:
    """The values, errors, adapters and helpers of the design are public."""
    promised = [
        "LlmRole",
        "LlmMessage",
        "TokenUsage",
        "LlmRequest",
        "LlmResponse",
        "StreamChunk",
        "LlmError",
        "Transport",
        "Upstream",
        "InvalidRequest",
        "Timeout",
        "ResponseParse",
        "NoFixture",
        "FixtureIntegrityFailed",
        "StoreIo",
        "LlmAdapter",
        "WrapperAdapter",
        "ReplayAdapter",
        "blake3_hex",
        "Store",
    ]

    assert set(promised) <= set(cortex_replay.__all__)
