"""The helper for Go's ``testing``, as ``docs/gateway.md`` prints it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from integration import install
from integration.gateway_clients import behind, upstream

HERE: Final = Path(__file__).parent
GUIDE: Final = HERE.parent / "docs/gateway.md"
IMPORTS: Final = (
    *("bytes", "cmp", "encoding/json", "fmt", "io", "math/rand/v2", "net/http", "net/url"),
    *("os", "testing"),
)
REPLAYS: Final = 3


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A module with tests that use the helper."""
    found = re.search(r"```go\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    listed = "".join(f'\t"{name}"\n' for name in IMPORTS)
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "replay_test.go").write_text(f"package dice\n\nimport (\n{listed})\n\n{found[1]}")
    shutil.copy(HERE / "go_tests/dice_test.go", folder)
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "clients/go" / name, folder)
    return folder


def test_each_test_has_its_scope_and_its_misses(module: Path, tmp_path: Path) -> None:
    go_test = [install.needed("go", "run tests"), "test", "-C", str(module)]
    install.completed([*go_test, "-run", "^$", "./..."])  # compiles, which takes minutes the first time
    command = [*go_test, "-count=1", "-v", "./..."]
    store = module / "llm"
    with upstream("llamacpp", tmp_path / "server") as server:
        recorded = behind("record", store, command, server)

    assert recorded.status == 0, recorded.said + recorded.told
    for _ in range(REPLAYS):
        replayed = behind("replay", store, command, options=("--fail-on", "miss"))
        assert replayed.status == 0, replayed.said + replayed.told
        assert (replayed.ledger["live"], replayed.ledger["misses"]) == (0, [])
    missed = behind("replay", store, command, {"ASK_MORE": "yes"})
    assert missed.status == 1
    assert "--- FAIL: TestCatchesIt" in missed.said
    assert "nothing is recorded for" in missed.said
    assert re.search(r"^\s*To record it: cortex-replay record --store ", missed.said, re.MULTILINE)
