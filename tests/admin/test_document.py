"""The guide says what the code does."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import fields
from pathlib import Path

from cortex_replay.admin import METHOD, Code, LlmCompleteInput, LlmCompleteResponse
from cortex_replay.config import load_settings
from tests.admin.conftest import GRANTED, Noting, dispatcher_of

GUIDE = (Path(__file__).parents[2] / "docs/admin.md").read_text()


def test_every_code_is_documented() -> None:
    """And none that does not occur."""
    table = dict(re.findall(r"^\| (-\d+) \| ([^|]+) \|", GUIDE, re.MULTILINE))

    assert {str(int(code)) for code in Code} == set(table)
    for code in Code:
        assert code.name.lower() == table[str(int(code))].lower().replace(" ", "_")


def test_every_parameter_is_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)

    assert {field.name for field in fields(LlmCompleteInput)} == set(rows)
    assert f"`{METHOD}`" in GUIDE


def test_the_examples_are_sound(tmp_path: Path) -> None:
    """The call, the answer, the program and the configuration."""
    call, answer = map(json.loads, re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL))
    LlmCompleteInput.from_dict(call["params"])
    LlmCompleteResponse.from_dict(answer["result"])
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(compile(program, "admin.md", "exec"), {})
    (tmp_path / ".git").mkdir()
    (text,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(text)
    settings = load_settings(tmp_path, {}).settings

    assert settings.callers["ci"].grants == ("llm_complete",)
    told = asyncio.run(dispatcher_of(Noting(), settings).handle(json.dumps(call).encode(), GRANTED))
    assert json.loads(told or b"")["id"] == 1
