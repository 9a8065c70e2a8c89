"""Two branches that record into one store, and git without our merge driver: as a hosted merge works."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.builder import StoreBuilder

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]


class Branches:
    """A repository with a store of ``size`` answers on main, and nothing that says how to merge."""

    def __init__(self, root: Path, size: int, seed: str = "", top: Path | None = None) -> None:
        self.root = root
        self._seed = seed
        root.mkdir(parents=True)
        self.git("init", "-q", str(top or root))
        (root / ".gitattributes").write_text("INDEX.toml -text merge=cortex-replay\nfixtures/** -text\n")
        self.recorded = {f"shared {i}": "as before" for i in range(size)}
        self._write(self.recorded)
        self._commit("main")

    def git(self, *arguments: str, cwd: Path | None = None, fails: bool | None = False) -> str:
        """Run git; ``fails`` is ``None`` where either outcome is fine."""
        done = subprocess.run(
            ["git", *IDENTITY, *arguments],
            cwd=cwd or self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert fails is None or fails == (done.returncode != 0), done.stdout + done.stderr
        return done.stdout + done.stderr

    def branch(
        self, name: str, added: Iterable[str] | dict[str, str] = (), removed: Iterable[str] = ()
    ) -> None:
        """A branch off main that records these questions (with these answers) and prunes others."""
        self.git("checkout", "-q", "-b", name, "main")
        answers = added if isinstance(added, dict) else dict.fromkeys(added, "recorded")
        self._write({**self.recorded, **answers}, removed)
        self._commit(name)

    def merge(self, *command: str) -> bool:
        """Let git bring two branches together; whether it could do so alone."""
        self.git(*(command or ("merge", "-q", "--no-edit", "theirs")), fails=None)
        return not self.git("ls-files", "--unmerged")

    def store(self) -> StoreBuilder:
        return StoreBuilder(self.root)

    def questions(self) -> dict[str, str]:
        """What the store answers; it must be sound."""
        store = self.store().open()
        items = [store.get(item.model, item.prompt_hash) for item in store.list()]
        return {
            str(item.request.messages[0].content).removeprefix(self._seed): item.answers[0].text
            for item in items
            if item.request is not None
        }

    def _write(self, answers: dict[str, str], removed: Iterable[str] = ()) -> None:
        for path in self.root.glob("fixtures/*/*.json"):
            path.unlink()
        builder = self.store()
        for question, answer in answers.items():
            if question not in removed:
                builder.add(f"{self._seed}{question}", answer)
        builder.write()

    def _commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)


def count_conflicts(folder: Path, size: int, added: int, merges: range) -> int:
    """In how many of these merges git reports a conflict; the others give the sound union of both sides."""
    conflicts = 0
    for number in merges:
        branches = Branches(folder / str(number), size, f"{number} ")
        ours, theirs = ([f"{side} {i}" for i in range(added)] for side in ("ours", "theirs"))
        branches.branch("theirs", theirs)
        branches.branch("ours", ours)
        if branches.merge():
            assert branches.store().findings() == []
            assert branches.questions().keys() == {*branches.recorded, *ours, *theirs}
        else:
            conflicts += 1
    return conflicts
