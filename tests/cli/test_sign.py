"""``cortex-replay sign`` and ``verify --signers``: real keys, a real repository, and what can be put back."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.shard_reading import read_root
from cortex_replay.store.lock import LockedStore
from cortex_replay.store.signing.chain import Chain, Head
from tests.cli.commands import run
from tests.reviews import commit, git
from tests.signing import allow, make_store, new_key, record, remove, sign, write_signers

DRIVER = f"{sys.executable} -mcortex_replay merge-driver %O %A %B %P"
"""As a work tree of ours is under test, and no installed program; `verify` would mend it if it knew it."""
SIGNED = ("INDEX.toml", "INDEX.toml.sig", "INDEX.chain")


@pytest.fixture(autouse=True)
def _memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def alice() -> Path:
    return new_key("alice")


@pytest.fixture
def signers(tmp_path: Path, alice: Path) -> Path:
    return write_signers(tmp_path / "signers", allow("alice@example.org", alice))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("signed") / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    make_store(project / "llm", "one", "two", key=new_key("alice"))
    commit(project, "one")
    return project


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """A store of generation 1, committed."""
    return Path(shutil.copytree(template, tmp_path / "project")) / "llm"


def head_of(root: Path) -> Head:
    head = Head.of(read_root(DirectorySource(root))[0].header)
    assert head is not None
    return head


def codes(result: Result) -> list[str]:
    return [finding["code"] for finding in json.loads(result.stdout)["findings"]]


def check(root: Path, signers: Path, *options: str | Path) -> list[str]:
    """The codes of what is found; the exit status says the same."""
    result = run("verify", root, "--signers", signers, "--json", *options)
    found = codes(result)
    assert result.exit_code == (5 if found else 0), result.output
    return found


def keep(root: Path) -> dict[str, bytes]:
    """All files of a store that git would have."""
    paths = [path for path in root.rglob("*") if path.is_file() and ".cortex-replay" not in path.parts]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def put_back(root: Path, files: dict[str, bytes]) -> None:
    """Another state of a store, as whoever writes the repository can make it."""
    for path in keep(root):
        (root / path).unlink()
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def test_a_store_that_nobody_signs_stays_as_it_is(tmp_path: Path, signers: Path) -> None:
    root = make_store(tmp_path / "llm", "one")
    before = keep(root)
    record(root, "two")
    remove(root, "two")

    assert check(root, signers) == ["unsigned"]
    assert keep(root) == before
    assert not any(name in before["INDEX.toml"] for name in (b"store_id", b"generation", b"prev"))


def test_what_was_signed_is_good_and_says_by_whom(root: Path, signers: Path) -> None:
    result = run("verify", root, "--signers", signers, "--json")

    assert result.exit_code == 0
    told = json.loads(result.stdout)["signature"]
    assert told.pop("key").startswith("ED25519 SHA256:")
    head = head_of(root)
    assert told == {"ok": True, "store_id": head.store_id, "generation": 1, "signer": "alice@example.org"}
    assert "signature" not in json.loads(run("verify", root, "--json").stdout)


def test_every_signature_goes_on_from_the_last(root: Path, alice: Path, signers: Path) -> None:
    first = head_of(root)
    for number in (2, 3):
        record(root, f"question {number}")
        assert check(root, signers) == ["signature-stale"]
        sign(root, alice)
        assert check(root, signers) == []

    head, chain = head_of(root), Chain.parse((root / "INDEX.chain").read_bytes())
    assert (head.store_id, head.generation) == (first.store_id, 3)
    assert [entry.generation for entry in chain.entries] == [1, 2, 3]
    assert head.prev == chain.prev_of(3) != first.prev


@pytest.mark.parametrize("name", SIGNED)
def test_any_other_byte_is_found(root: Path, signers: Path, name: str) -> None:
    """Whatever it makes of the file: a line of another kind, another digest, other base64."""
    data = (root / name).read_bytes()
    end = data.index(b"\n\n") if name == "INDEX.toml" else len(data)
    for place in range(0, end, 41):
        (root / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        result = run("verify", root, "--signers", signers)
        assert result.exit_code == 5, (place, data[place : place + 20])
    (root / name).write_bytes(data)
    assert check(root, signers) == []


def test_a_row_that_was_removed_is_found(root: Path, signers: Path) -> None:
    """With its file: nothing else would tell."""
    index = (root / "INDEX.toml").read_text()
    start = index.index("[[fixture]]")
    row = index[start : index.index("\n\n", start) + 1]
    path = row.split('path = "')[1].split('"')[0]
    (root / "INDEX.toml").write_text(index.replace(row, ""))
    (root / path).unlink()

    assert run("verify", root).exit_code == 0
    assert check(root, signers) == ["signature-stale"]


def test_a_removal_that_is_signed_is_told_by_sign_and_by_the_base(
    root: Path, alice: Path, signers: Path
) -> None:
    remove(root, "one")
    told = run("sign", "--store", root, "--dry-run")
    assert told.exit_code == 0
    assert told.stdout.startswith("remove  fixtures/m/")
    assert "0 added, 0 changed, 1 removed" in told.stderr
    assert head_of(root).generation == 1

    assert run("sign", "--store", root, "--key", alice).stdout == told.stdout
    assert check(root, signers) == []
    assert 'removed  m  "one"' in run("verify", root, "--signers", signers, "--base", "HEAD").stdout


def test_an_older_signed_state_is_a_rollback(root: Path, alice: Path, signers: Path, tmp_path: Path) -> None:
    """For whom has seen the newer one, by a file that they name, or by the base."""
    old = keep(root)
    record(root, "three")
    sign(root, alice)
    commit(root.parent, "two")
    seen = tmp_path / "seen"
    assert check(root, signers, "--seen", seen) == []

    put_back(root, old)

    assert check(root, signers, "--seen", seen) == ["rollback"]
    assert check(root, signers, "--seen", seen) == ["rollback"], "a rollback is not remembered"
    assert check(root, signers, "--base", "HEAD") == ["rollback"]
    assert check(root, signers) == [], "nobody told this user of a newer one"
    assert check(root, signers, "--seen", seen, "--trust-anew") == []
    assert check(root, signers, "--seen", seen) == []


def test_an_older_commit_is_a_rollback_for_this_user(root: Path, alice: Path, signers: Path) -> None:
    record(root, "three")
    sign(root, alice)
    commit(root.parent, "two")
    assert check(root, signers) == []

    git(root.parent, "checkout", "-q", "HEAD^")

    result = run("verify", root, "--signers", signers)
    assert result.exit_code == 5
    assert "is of generation 1; you have seen generation 2 of this store [rollback]" in result.stdout
    assert "--trust-anew" in result.stdout


def test_an_older_index_with_the_newest_chain_is_a_rollback(root: Path, alice: Path, signers: Path) -> None:
    old = keep(root)
    record(root, "three")
    sign(root, alice)
    newest = (root / "INDEX.chain").read_bytes()
    put_back(root, old | {"INDEX.chain": newest})

    assert check(root, signers) == ["rollback"]


@pytest.mark.parametrize("is_forged", [False, True])
def test_another_road_from_the_same_past_is_a_fork(
    root: Path, alice: Path, signers: Path, is_forged: bool
) -> None:
    """Also if the chain claims what was seen: of its own generation, a signature vouches for one index."""
    old = keep(root)
    record(root, "three")
    sign(root, alice)
    seen = (root / "INDEX.chain").read_bytes()
    assert check(root, signers) == []
    put_back(root, old)
    record(root, "four")
    sign(root, alice)
    if is_forged:
        (root / "INDEX.chain").write_bytes(seen + (root / "INDEX.chain").read_bytes())

    assert check(root, signers) == ["fork"]
    assert check(root, signers, "--trust-anew") == []


def test_a_fork_is_seen_by_the_base(root: Path, alice: Path, signers: Path) -> None:
    git(root.parent, "switch", "-qc", "feature")
    record(root, "three")
    sign(root, alice)
    commit(root.parent, "three")
    git(root.parent, "switch", "-q", "main")
    record(root, "four")
    sign(root, alice)
    commit(root.parent, "four")

    assert check(root, signers, "--base", "HEAD") == []
    assert check(root, signers, "--base", "HEAD^") == []
    assert check(root, signers, "--base", "feature") == ["fork"]


def test_a_chain_without_a_past_is_broken(root: Path, alice: Path, signers: Path) -> None:
    record(root, "three")
    sign(root, alice)
    lines = (root / "INDEX.chain").read_text().splitlines(keepends=True)
    for other in (lines[1:], [f"1 {'a' * 64}\n", lines[1]], [*lines, f"1 {'a' * 64}\n"]):
        (root / "INDEX.chain").write_text("".join(other))
        assert check(root, signers) == ["chain-broken"]


@pytest.mark.parametrize("name", ["INDEX.toml.sig", "INDEX.chain"])
def test_what_a_signature_needs_has_to_be_there(root: Path, signers: Path, name: str) -> None:
    (root / name).unlink()

    assert check(root, signers) == ["unsigned"]


@pytest.mark.parametrize("name", ["INDEX.toml.sig", "INDEX.chain"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "bomb"])
def test_what_is_no_file_is_neither_waited_for_nor_followed(
    root: Path, alice: Path, signers: Path, name: str, kind: str
) -> None:
    place = root / name
    place.unlink()
    if kind == "link":
        place.symlink_to(signers)
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.write_bytes(b"1")
        os.truncate(place, 2**33)

    assert check(root, signers) == ["too-large" if kind == "bomb" else "not-a-file"]
    assert run("sign", "--store", root, "--key", alice).exit_code == 5
    assert signers.read_text().startswith("alice@example.org")


def test_a_stranger_may_sign_what_they_like(root: Path, signers: Path) -> None:
    record(root, "three")
    sign(root, new_key("mallory"))

    assert check(root, signers) == ["signer-unknown"]


def test_a_signature_of_another_store_is_none(root: Path, alice: Path, signers: Path, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other", "one", "two", key=alice)
    assert head_of(other).store_id != head_of(root).store_id
    signature = (root / "INDEX.toml.sig").read_bytes()
    (root / "INDEX.toml.sig").write_bytes((other / "INDEX.toml.sig").read_bytes())
    assert check(root, signers) == ["signature-bad"]

    (root / "INDEX.toml.sig").write_bytes(signature)
    (root / "INDEX.chain").write_bytes((other / "INDEX.chain").read_bytes())
    assert check(root, signers) == ["signature-stale"]


def test_another_store_in_its_place_is_seen_by_its_id(
    root: Path, alice: Path, signers: Path, tmp_path: Path
) -> None:
    name = head_of(root).store_id
    assert check(root, signers, "--store-id", name) == []
    put_back(root, keep(make_store(tmp_path / "other", "one", key=alice)))

    assert check(root, signers) == []
    assert check(root, signers, "--store-id", name) == ["store-replaced"]
    assert check(root, signers, "--base", "HEAD") == ["store-replaced"]


def test_what_is_staged_is_judged_with_what_is_staged(root: Path, alice: Path, signers: Path) -> None:
    record(root, "three")
    sign(root, alice)
    assert check(root, signers, "--staged") == ["untracked"], "the index of the last commit is signed, too"
    git(root.parent, "add", "llm/fixtures", "llm/INDEX.toml", "llm/.gitattributes")
    assert check(root, signers, "--staged") == ["signature-stale"]
    git(root.parent, "add", "-A")
    assert check(root, signers, "--staged") == []
    (root / "INDEX.toml.sig").unlink()
    assert check(root, signers, "--staged") == []


def test_a_list_of_signers_in_the_tree_is_wrong_usage(root: Path, alice: Path, tmp_path: Path) -> None:
    inside = write_signers(root.parent / "signers", allow("mallory", alice))
    (tmp_path / "link").symlink_to(inside)

    for path in (inside, tmp_path / "link"):
        result = run("verify", root, "--signers", path)
        assert result.exit_code == 2
        assert "the tree that it is to judge" in result.stderr


def test_a_memory_in_the_tree_is_wrong_usage(root: Path, signers: Path) -> None:
    result = run("verify", root, "--signers", signers, "--seen", root / "seen")

    assert result.exit_code == 2
    assert not (root / "seen").exists()


@pytest.mark.parametrize("options", [("--seen", "x"), ("--store-id", "a" * 32), ("--trust-anew",)])
def test_options_that_would_do_nothing_are_wrong_usage(root: Path, options: tuple[str, ...]) -> None:
    assert run("verify", root, *options).exit_code == 2
    assert "--remote" in run("verify", root, "--signers", "x", "--remote").stderr


def test_where_nothing_can_be_remembered_there_is_a_warning(
    root: Path, signers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file/state"))
    assert "older index will not be noticed" in run("verify", root, "--signers", signers).stderr

    result = run("verify", root, "--signers", signers, "--seen", tmp_path / "file/seen")
    assert result.exit_code == 2


def test_a_store_that_is_not_sound_is_not_signed(root: Path, alice: Path) -> None:
    record(root, "three")
    next(root.glob("fixtures/m/*.json")).write_text("{}")
    before = keep(root)

    assert run("sign", "--store", root, "--key", alice).exit_code == 5
    assert keep(root) == before


def test_without_a_key_nothing_is_signed(
    root: Path, alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository's settings do not choose one; the user's environment may."""
    record(root, "three")
    git(root.parent, "config", "user.signingkey", str(alice))
    before = keep(root)

    assert run("sign", "--store", root).exit_code == 2
    assert run("sign", "--store", root, "--key", tmp_path / "missing").exit_code == 1
    assert keep(root) == before
    monkeypatch.setenv("CORTEX_REPLAY_SIGNING_KEY", str(alice))
    assert run("sign", "--store", root).exit_code == 0
    assert head_of(root).generation == 2


def test_what_is_signed_already_is_not_signed_again(root: Path, alice: Path, signers: Path) -> None:
    before = keep(root)
    result = run("sign", "--store", root, "--key", alice, "--json")
    assert (result.exit_code, json.loads(result.stdout)["signed"]) == (0, False)
    assert keep(root) == before

    assert run("sign", "--store", root, "--key", new_key("bob"), "--again").exit_code == 0
    assert head_of(root).generation == 2
    assert check(root, signers) == ["signer-unknown"]


def test_a_signature_that_was_lost_is_made_anew(root: Path, alice: Path, signers: Path) -> None:
    (root / "INDEX.toml.sig").unlink()

    assert run("sign", "--store", root, "--key", alice).exit_code == 0
    assert check(root, signers) == []


def test_signing_that_was_cut_short_is_signed_again_as_the_same_generation(
    root: Path, alice: Path, signers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(root, "three")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LockedStore, "put_beside", die)
        with pytest.raises(KeyboardInterrupt):
            sign(root, alice)
    assert check(root, signers) == ["signature-stale"]
    assert head_of(root).generation == 2

    sign(root, alice)
    assert head_of(root).generation == 2
    assert check(root, signers) == []


def test_a_commit_meanwhile_is_not_signed_unseen(
    root: Path, alice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is signed is what was checked and shown."""
    from cortex_replay.store.signing.ssh import SshKeygen  # noqa: PLC0415

    real = SshKeygen.sign

    def sign_late(ssh: SshKeygen, data: bytes, key: Path) -> bytes:
        record(root, "three")
        return real(ssh, data, key)

    record(root, "two and a half")
    monkeypatch.setattr(SshKeygen, "sign", sign_late)
    result = run("sign", "--store", root, "--key", alice)

    assert result.exit_code == 1
    assert "changed in the meantime" in result.stderr
    assert len(Chain.parse((root / "INDEX.chain").read_bytes()).entries) == 1


def test_who_has_seen_more_does_not_sign_less(root: Path, alice: Path, signers: Path) -> None:
    old = keep(root)
    record(root, "three")
    sign(root, alice)
    assert check(root, signers) == []
    put_back(root, old)
    record(root, "four")

    result = run("sign", "--store", root, "--key", alice)
    assert result.exit_code == 1
    assert "you have seen generation 2" in result.stderr
    assert run("sign", "--store", root, "--key", alice, "--trust-anew").exit_code == 0


def test_a_chain_that_lost_lines_is_not_signed(root: Path, alice: Path) -> None:
    for number in range(3):
        record(root, f"question {number}")
        sign(root, alice)
    record(root, "more")
    lines = (root / "INDEX.chain").read_text().splitlines(keepends=True)

    for rest, options in (([], ["--merged"]), (lines[:2], ["--merged"]), (lines[1:], [])):
        (root / "INDEX.chain").write_text("".join(rest))
        assert run("sign", "--store", root, "--key", alice, *options).exit_code == 1
    (root / "INDEX.chain").write_text("junk\n")
    assert run("sign", "--store", root, "--key", alice).exit_code == 5


def test_an_index_that_lost_its_head_is_not_signed_as_another_store(root: Path, alice: Path) -> None:
    lines = (root / "INDEX.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("store_id", "generation", "prev"))]
    (root / "INDEX.toml").write_text("".join(kept))

    result = run("sign", "--store", root, "--key", alice)
    assert result.exit_code == 1
    assert "does not say of which store" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("prune", "--model", "m"),
        ("repack", "--whole"),
        ("repack", "--index", "sharded"),
        ("rekey",),
        ("index",),
        ("resolve",),
    ],
    ids="-".join,
)
def test_commands_that_write_keep_the_head(root: Path, arguments: tuple[str, ...]) -> None:
    before = head_of(root)
    record(root, "three")

    assert run(*arguments, "--store", root).exit_code in (0, 3)
    assert head_of(root) == before


def test_a_signature_covers_shards(root: Path, alice: Path, signers: Path) -> None:
    assert run("repack", "--index", "sharded", "--store", root).exit_code == 0
    assert check(root, signers) == ["signature-stale"]
    sign(root, alice)
    assert check(root, signers) == []
    old = keep(root)
    record(root, "three")
    changed = keep(root)
    shards = {path: data for path, data in changed.items() if path.startswith(("index/", "fixtures/"))}

    put_back(root, old | shards)

    found = check(root, signers)
    assert found
    assert set(found) <= {"mismatch", "unlisted"}


def test_a_flat_store_is_signed_too(tmp_path: Path, alice: Path, signers: Path) -> None:
    from tests.builder import StoreBuilder  # noqa: PLC0415

    builder = StoreBuilder(tmp_path / "flat", is_flat=True)
    builder.add("What is one?", "One.")
    builder.write()
    sign(builder.root, alice)

    assert check(builder.root, signers) == []
    assert json.loads(run("verify", builder.root, "--json").stdout)["layout"] == "flat"


class TestMerges:
    """Two branches from one signed state."""

    @pytest.fixture
    def project(self, root: Path) -> Path:
        project = root.parent
        git(project, "config", "merge.cortex-replay.driver", DRIVER)
        git(project, "switch", "-qc", "feature")
        return project

    def test_what_both_recorded_is_signed_anew(self, project: Path, alice: Path, signers: Path) -> None:
        root = project / "llm"
        record(root, "three")
        sign(root, alice)
        commit(project, "three")
        git(project, "switch", "-q", "main")
        record(root, "four")
        commit(project, "four")
        git(project, "merge", "-q", "--no-edit", "feature")

        assert run("verify", root).exit_code == 0
        assert head_of(root).generation == 2, "the larger of both"
        assert check(root, signers) == ["signature-stale"]
        sign(root, alice)
        assert check(root, signers) == []
        assert head_of(root).generation == 3

    def test_two_signed_branches_become_one_past(self, project: Path, alice: Path, signers: Path) -> None:
        """Who has seen either of them is content with what comes from both."""
        root = project / "llm"
        record(root, "three")
        sign(root, alice)
        commit(project, "three")
        assert check(root, signers) == []  # of the feature
        git(project, "switch", "-q", "main")
        for question in ("four", "five"):
            record(root, question)
            sign(root, alice)
            commit(project, question)
        git(project, "merge", "-q", "--no-edit", "feature")

        assert run("verify", root).exit_code == 0
        assert head_of(root).generation == 3
        assert check(root, signers) == ["signature-stale"]
        refused = run("sign", "--store", root, "--key", alice)
        assert refused.exit_code == 1
        assert "--merged" in refused.stderr
        assert run("sign", "--store", root, "--key", alice, "--merged").exit_code == 0
        assert check(root, signers) == []
        assert check(root, signers, "--base", "feature") == []
        assert check(root, signers, "--base", "main") == []
        generations = [entry.generation for entry in Chain.parse((root / "INDEX.chain").read_bytes()).entries]
        assert generations == [1, 2, 2, 3, 4]

    def test_a_hosted_merge_is_resolved(self, project: Path, alice: Path, signers: Path) -> None:
        """It knows no driver, and both sides changed the lines of the head."""
        git(project, "config", "--remove-section", "merge.cortex-replay")
        root = project / "llm"
        record(root, "three")
        sign(root, alice)
        commit(project, "three")
        git(project, "switch", "-q", "main")
        for question in ("four", "five"):
            record(root, question)
            sign(root, alice)
            commit(project, question)
        assert os.system(f"cd {project} && git merge -q --no-edit feature > /dev/null 2>&1") != 0

        assert run("resolve", "--store", root).exit_code == 0
        assert run("verify", root).exit_code == 0
        assert head_of(root).generation == 3
        assert run("sign", "--store", root, "--key", alice, "--merged").exit_code == 0
        assert check(root, signers) == []


def test_a_copy_is_the_same_store(root: Path, signers: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")

    assert check(tmp_path / "copy", signers) == []
