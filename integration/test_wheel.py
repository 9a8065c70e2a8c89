"""What is installed has all that the page needs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from cortex_replay.view.bundle import STYLES, modules
from integration.install import completed, needed
from tests.view.stores import make_store

ROOT = Path(__file__).parent.parent


def test_a_page_is_made_by_what_is_in_the_wheel(tmp_path: Path) -> None:
    pip = needed("pip", "build the wheel")
    completed([pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "dist", ROOT])
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {Path(name).name for name in archive.namelist() if "/view/assets/" in name}
        archive.extractall(tmp_path / "installed")
    assert shipped == {*modules(), *STYLES}

    store = make_store(tmp_path / "llm")
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "cortex_replay", "view", "--store", str(store), "--export", str(page)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)

    assert page.read_bytes().count(b'id="data:calls/') == 6
