"""The Python in `docs/prompts.md`, and the message that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cortex_replay.cli.main import main
from cortex_replay.prompt import CacheMissed, PrefixChanged

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/prompts.md").read_text()
MESSAGES = re.findall(r"```text\n(.*?)\n```", GUIDE, re.DOTALL)
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, "prompts.md", "exec"), names)
    return names


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_python_in_the_guide_runs(block: str) -> None:
    """Each block for itself."""
    run(block)


def test_the_example_fails_with_the_message_that_the_guide_shows() -> None:
    """Somebody put a timestamp into the stable prefix."""
    (example,) = (block for block in BLOCKS if "prefix_stable" in block and "plain" not in block)

    with pytest.raises(PrefixChanged) as caught:
        run(example)["test_the_prefix_holds_from_call_to_call"]()

    assert str(caught.value) in MESSAGES


def test_the_cost_fails_with_the_message_that_the_guide_shows() -> None:
    """Somebody put a clock before the catalogue."""
    (example,) = (block for block in BLOCKS if "assert_cache" in block)

    with pytest.raises(CacheMissed) as caught:
        run(example)["test_the_cache_is_read"]()

    assert str(caught.value) in MESSAGES


def test_the_explanation_is_the_one_that_the_guide_shows() -> None:
    (shown,) = re.findall(r"```console\n\$ cortex-replay (.*?)\n```", GUIDE, re.DOTALL)
    command, _, expected = shown.partition("\n")
    result = CliRunner().invoke(main, ["--store", str(ROOT), *command.split()])

    assert result.stdout == expected + "\n"


def test_every_public_name_of_the_guide_is_there() -> None:
    import cortex_replay.prompt  # noqa: PLC0415

    assert sorted(cortex_replay.prompt.__all__) == sorted(set(cortex_replay.prompt.__all__))
    assert all(hasattr(cortex_replay.prompt, name) for name in cortex_replay.prompt.__all__)
