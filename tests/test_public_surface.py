"""What users import, in one list: a name that is added or lost is a visible change of this file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SURFACE = {
    "cortex_replay": """
        Answer BudgetSpent ClaudeAdapter ConfigError FaultAdapter Finding Fixture FixtureConflict
        FixtureIntegrityFailed FixtureKey InvalidRequest LlmAdapter LlmError LlmMessage LlmRequest LlmResponse
        LlmRole Mode NoFixture OllamaAdapter OpenAICompatAdapter PromptCachePlan RecordingAdapter
        RecordingRefused ReplayAdapter ResponseParse Run Store StoreIo StreamChunk TimedChunk Timeout
        TokenUsage ToolCall ToolCallDelta Transport TurnTooLate Upstream WrapperAdapter
        __version__ blake3_hex intercept
    """,
    "cortex_replay.admin": """
        LLM_COMPLETE_METHOD METHOD AdminClient AdminError Code LlmChatMessage LlmCompleteInput
        LlmCompleteMessage LlmCompleteOutput LlmCompleteResponse LlmCompleteUsage LlmUsage
    """,
    "cortex_replay.gateway": "Gateway Pace",
    "cortex_replay.prompt": """
        MEDIA_TOKENS MOST_BREAKPOINTS WIRES Breakpoint CacheCostExceeded CacheMark CacheMissed CachePolicy
        Continuation Place Placement PrefixChanged PrefixFingerprint PromptBlock PromptCachePlan PromptIR
        PromptMessage PromptPart PromptParts RenderedContext Segment SegmentRole WirePrompt assert_cache
        assert_prefix_stable blocks_for_wire estimate_tokens flatten_blocks parts_of place_breakpoints
        to_request
    """,
    "cortex_replay.pytest_plugin": "LlmRecording",
    "cortex_replay.redact": "Redactor Sensitivity refuse_above",
    "cortex_replay.testing": "EchoAdapter Reply Rule ScriptedAdapter When default_rules",
}
SHARED = {"cortex_replay.config": ["Settings"], "cortex_replay.adapters": ["RequestRate", "closing_stream"]}
"""Of a package that is not for users as a whole, the names that are."""
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))

_IMPORT = re.compile(r"^[> ]*from (cortex_replay[\w.]*) import (\([^)]*\)|[^#\n]*)", re.MULTILINE)
_MENTION = re.compile(r"\bcortex_replay(?:\.\w+)+")


def public_names() -> set[str]:
    """Every public name with its module."""
    listed = {module: names.split() for module, names in SURFACE.items()} | SHARED
    return {f"{module}.{name}" for module, names in listed.items() for name in names}


def is_public(name: str) -> bool:
    """Whether a dotted name is a public module, a public name, or something that one has."""
    if name in SURFACE or name in SHARED:
        return True
    start = next((known for known in public_names() if f"{name}.".startswith(f"{known}.")), None)
    if start is None:
        return False
    module, _, found = start.rpartition(".")
    value = getattr(import_module(module), found)
    for part in name[len(start) :].split(".")[1:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def imports_in_document(text: str) -> Iterator[str]:
    """What the code and the prose of a document name, with its module."""
    for module, names in _IMPORT.findall(text):
        yield from (
            f"{module}.{name.split()[0]}" for name in names.strip("()\n ,").split(",") if name.strip()
        )
    yield from _MENTION.findall(_IMPORT.sub("", text))


def imports_in_module(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("module", SURFACE)
def test_a_package_exports_what_is_listed_and_nothing_else(module: str) -> None:
    names = SURFACE[module].split()
    package = import_module(module)

    assert sorted(package.__all__) == sorted(names)
    assert all(hasattr(package, name) for name in names)


@pytest.mark.parametrize("module", SHARED)
def test_the_users_names_of_a_shared_package_are_there(module: str) -> None:
    assert set(SHARED[module]) <= set(import_module(module).__all__)


def test_the_root_lists_its_names_in_order() -> None:
    package = import_module("cortex_replay")

    assert package.__all__ == sorted(package.__all__) == dir(package)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_what_is_public(path: Path) -> None:
    named = dict.fromkeys(imports_in_document(path.read_text()))

    assert [name for name in named if not is_public(name)] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_imports_only_what_is_public(path: Path) -> None:
    named = [name for name in imports_in_module(path.read_text()) if name.split(".")[0] == "cortex_replay"]

    assert [name for name in named if name != "cortex_replay" and not is_public(name)] == []


def test_the_check_sees_a_planted_import() -> None:
    planted = """
from cortex_replay.store.fixture import Answer  # deep
>>> from cortex_replay.prompt import (PromptBlock,
    hidden)
Use `cortex_replay.intercept.block`, or cortex_replay.intercept, or cortex_replay.Store.open.
"""

    assert [name for name in imports_in_document(planted) if not is_public(name)] == [
        "cortex_replay.store.fixture.Answer",
        "cortex_replay.prompt.hidden",
        "cortex_replay.intercept.block",
    ]
    assert not is_public("cortex_replay.store")
    assert not is_public("cortex_replay.config.key_for")


@pytest.mark.parametrize(
    ("package", "unneeded"),
    [
        ("cortex_replay", "cortex_replay.errors"),
        ("cortex_replay.gateway", "cortex_replay.gateway.server"),
        ("cortex_replay.pytest_plugin", "cortex_replay.pytest_plugin.recording"),
        ("cortex_replay.redact", "cortex_replay.redact.redactor"),
    ],
)
def test_what_is_large_is_loaded_with_its_first_use(package: str, unneeded: str) -> None:
    code = f"import sys, {package}\nsys.exit({unneeded!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
