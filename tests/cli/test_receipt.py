"""``cortex-replay receipt``: what a third person can check with the signed index alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer, Fixture, Store
from cortex_replay.canonical import compact
from cortex_replay.hashing import blake3_hex
from tests.cli.commands import run
from tests.signing import allow, make_store, new_key, question, record, sign, write_signers


@pytest.fixture
def alice() -> Path:
    return new_key("alice")


@pytest.fixture
def signers(tmp_path: Path, alice: Path) -> Path:
    return write_signers(tmp_path / "signers", allow("alice@example.org", alice))


def make_signed(root: Path, key: Path, *, is_sharded: bool = False) -> Path:
    make_store(root, "one", "two", "three")
    store = Store.open(root)
    store.add(Fixture.of(question("die"), Answer("Four."), Answer("One.")))
    store.add(Fixture.of(question("die"), Answer("Six."), Answer("Two.")), scope="tests/test_x.py::test_é")
    store.commit()
    if is_sharded:
        assert run("repack", "--index", "sharded", "--store", root).exit_code == 0
    sign(root, key)
    return root


@pytest.fixture(scope="module", params=["single", "sharded"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    is_sharded = request.param == "sharded"
    return make_signed(tmp_path_factory.mktemp("signed") / "llm", new_key("alice"), is_sharded=is_sharded)


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "llm"))


@pytest.fixture
def index(root: Path, tmp_path: Path) -> Path:
    """What a third person has: the signed index, and nothing else of the store."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("INDEX.toml", "INDEX.toml.sig"):
        shutil.copy(root / name, theirs / name)
    return theirs / "INDEX.toml"


DIE = question("die").prompt_hash()


def make(root: Path, *options: str, key: str = DIE[:12]) -> dict[str, Any]:
    result = run("receipt", key, "--store", root, *options)
    assert result.exit_code == 0, result.stderr
    made: dict[str, Any] = json.loads(result.stdout)
    return made


def check(receipt: object, index: Path, signers: Path, *options: str | Path) -> dict[str, Any]:
    file = index.parent / "receipt.json"
    file.write_text(receipt if isinstance(receipt, str) else json.dumps(receipt))
    result = run("receipt", "--check", file, "--index", index, "--signers", signers, "--json", *options)
    told: dict[str, Any] = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) in ((0, True), (5, False)), result.output
    return told


def test_a_receipt_is_checked_with_the_signed_index_alone(root: Path, index: Path, signers: Path) -> None:
    receipt = make(root, "--n", "2")
    shutil.rmtree(root)

    told = check(receipt, index, signers)

    assert told["ok"]
    assert (told["signer"], told["generation"], told["n"]) == ("alice@example.org", 1, 2)
    assert (told["model"], told["prompt_hash"], told["scope"]) == ("m", DIE, None)
    response = json.loads(receipt["fixture"])["then"][0]["response"]
    assert response["text"] == "One."
    assert told["answer"] == receipt["answer"] == blake3_hex(compact(response).encode())
    assert receipt["index"] == blake3_hex(index.read_bytes())
    assert ("shard" in receipt) == (b"[[shard]]" in index.read_bytes())


def test_a_scope_has_a_receipt_of_its_own(root: Path, index: Path, signers: Path) -> None:
    scope = "tests/test_x.py::test_é"
    receipt = make(root, "--scope", scope)

    assert json.loads(receipt["fixture"])["response"]["text"] == "Six."
    assert check(receipt, index, signers)["scope"] == scope
    assert not check(receipt | {"scope": None}, index, signers)["ok"]


def test_every_recording_has_one(root: Path, index: Path, signers: Path) -> None:
    for text in ("one", "two", "three"):
        assert check(make(root, key=question(text).prompt_hash()), index, signers)["ok"]


def changes_of(value: Any) -> Iterator[Any]:
    """A value with one thing in it changed, at every place; of a text at its start, middle and end."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: one for other, one in value.items() if other != name}
            yield from ({**value, name: changed} for changed in changes_of(inner))
        yield {**value, "more": 1}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in changes_of(inner))
    elif isinstance(value, str):
        for place in sorted({0, len(value) // 2, len(value) - 1} if value else ()):
            yield value[:place] + ("0" if value[place] != "0" else "1") + value[place + 1 :]
        yield f"{value} "
    else:
        yield from (None, "x", 7, True)


def test_no_value_in_it_can_be_another(root: Path, index: Path, signers: Path) -> None:
    """Also not one that is left out, or one too many."""
    from cortex_replay.store.signing.receipt import ReceiptError, check_receipt  # noqa: PLC0415
    from cortex_replay.store.trust import Untrusted  # noqa: PLC0415

    receipt = make(root, "--n", "2")
    data = index.read_bytes()
    check_receipt(json.dumps(receipt).encode(), data)

    changed = [one for one in changes_of(receipt) if one != receipt]
    assert len(changed) > 40
    for other in changed:
        with pytest.raises((ReceiptError, Untrusted)):
            check_receipt(json.dumps(other).encode(), data)
    assert not check(changed[0], index, signers)["ok"]


def test_another_answer_of_the_same_file_is_another(root: Path, index: Path, signers: Path) -> None:
    receipt = make(root, "--n", "2")

    assert not check(receipt | {"n": 1}, index, signers)["ok"]
    assert not check(receipt | {"answer": make(root, "--n", "1")["answer"]}, index, signers)["ok"]
    assert not check(receipt | {"n": 3}, index, signers)["ok"]
    assert run("receipt", DIE, "--store", root, "--n", "3").exit_code == 1


def test_any_other_index_is_refused(root: Path, index: Path, alice: Path, signers: Path) -> None:
    receipt = make(root)
    data = index.read_bytes()
    index.write_bytes(data.replace(b"# end\n", b"# END\n"))
    assert check(receipt, index, signers)["code"] == "signature-bad"
    record(root, "four")
    sign(root, alice)
    for name in ("INDEX.toml", "INDEX.toml.sig"):
        shutil.copy(root / name, index.with_name(name))

    told = check(receipt, index, signers)
    assert (told["code"], "another index" in told["reason"]) == ("receipt-invalid", True)
    assert check(make(root), index, signers)["ok"]


def test_a_stranger_signs_no_receipt(root: Path, index: Path, tmp_path: Path) -> None:
    others = write_signers(tmp_path / "others", allow("bob", new_key("bob")))

    assert check(make(root), index, others)["code"] == "signer-unknown"


def test_a_brief_receipt_says_nothing_of_the_answer(root: Path, index: Path, signers: Path) -> None:
    receipt = make(root, "--brief")
    assert not {"n", "answer", "fixture"} & receipt.keys()

    told = check(receipt, index, signers)
    assert (told["ok"], told["n"], told["answer"]) == (True, None, None)
    assert check(receipt, index, signers, "--fixture", root / receipt["path"])["ok"]
    other = next(path for path in root.rglob("fixtures/m/*.json") if path != root / receipt["path"])
    assert not check(receipt, index, signers, "--fixture", other)["ok"]
    assert not check(receipt | {"n": 1}, index, signers)["ok"]
    result = run("receipt", "--check", index.parent / "receipt.json", "--index", index, "--signers", signers)
    assert result.exit_code == 5


def test_an_index_that_is_not_signed_has_no_receipts(root: Path, alice: Path) -> None:
    record(root, "four")
    refused = run("receipt", DIE, "--store", root)
    assert refused.exit_code == 1
    assert "changed since it was signed (generation 1); run: cortex-replay sign" in refused.stderr

    sign(root, alice)
    (root / "INDEX.toml.sig").write_text("junk")
    assert "cortex-replay sign --again" in run("receipt", DIE, "--store", root).stderr
    (root / "INDEX.toml.sig").unlink()
    assert "run: cortex-replay sign" in run("receipt", DIE, "--store", root).stderr


def test_a_store_that_was_never_signed_says_so(tmp_path: Path) -> None:
    root = make_store(tmp_path / "llm", "one")
    result = run("receipt", question("one").prompt_hash(), "--store", root)

    assert result.exit_code == 1
    assert "was never signed; run: cortex-replay sign" in result.stderr


def test_a_receipt_of_what_was_changed_is_refused(root: Path) -> None:
    path = make(root)["path"]
    (root / path).write_text((root / path).read_text().replace("Four.", "Five."))

    assert run("receipt", DIE, "--store", root).exit_code == 5


def test_it_is_written_to_a_file(root: Path, index: Path, signers: Path, tmp_path: Path) -> None:
    out = tmp_path / "receipt.json"
    result = run("receipt", DIE, "--store", root, "--out", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(out.read_text()) == make(root)

    good = run("receipt", "--check", out, "--index", index, "--signers", signers)
    assert good.exit_code == 0
    assert "good: answer 1 of fixtures/m/" in good.stderr
    (tmp_path / "link").symlink_to(out)
    assert run("receipt", DIE, "--store", root, "--out", tmp_path / "link").exit_code == 1


def test_what_is_secret_here_is_not_given_away(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receipt that was redacted would prove nothing."""
    monkeypatch.setenv("MY_API_KEY", "Four.Four-77-zz")
    store = Store.open(root)
    store.add(Fixture.of(question("secret"), "It is Four.Four-77-zz"))
    store.commit()
    sign(root, new_key("alice"))
    key = question("secret").prompt_hash()

    refused = run("receipt", key, "--store", root, "--out", tmp_path / "out")
    assert (refused.exit_code, (tmp_path / "out").exists()) == (1, False)
    assert "--brief" in refused.stderr
    assert run("receipt", key, "--store", root, "--brief").exit_code == 0


def test_what_is_no_receipt_is_refused(index: Path, signers: Path) -> None:
    for text in (
        "",
        "{}",
        "[]",
        "not json",
        '{"receipt": 2}',
        '{"receipt": 1}',
        "[" * 500,
        '{"receipt": 1, "receipt": 1}',
    ):
        assert check(text, index, signers)["code"] == "receipt-invalid", text


def test_a_row_of_another_kind_is_refused(root: Path, index: Path, signers: Path) -> None:
    receipt = make(root)
    for row in (
        7,
        "",
        "format = 1\n",
        '[[part]]\npath = "x"\nblake3 = "y"\n',
        '[[fixture]]\npath = "x"\nblake3 = "y"\n',
        '[[shard]]\nname = "00"\nblake3 = "y"\n',
        "[[fixture]]\n",
    ):
        assert check(receipt | {"row": row}, index, signers)["code"] == "receipt-invalid", row


def test_a_proof_about_another_shard_is_refused(tmp_path: Path, alice: Path, signers: Path) -> None:
    root = make_signed(tmp_path / "llm", alice, is_sharded=True)
    one, two = (make(root, key=question(text).prompt_hash()) for text in ("one", "two"))

    assert check(one, root / "INDEX.toml", signers)["ok"]
    assert not check(one | {"shard": two["shard"]}, root / "INDEX.toml", signers)["ok"]
    assert not check(one | {"shard": None}, root / "INDEX.toml", signers)["ok"]


def test_wrong_usage_is_told(root: Path, index: Path, signers: Path) -> None:
    for arguments in (
        ("receipt",),
        ("receipt", "--check", "x"),
        ("receipt", "--check", "x", "--index", index),
        ("receipt", "abc", "--check", "x", "--index", index, "--signers", signers),
        ("receipt", "abc", "--signers", signers),
    ):
        assert run(*arguments).exit_code == 2, arguments
    assert run("receipt", "0" * 64, "--store", root).exit_code == 3
    missing = run("receipt", "--check", "missing", "--index", index, "--signers", signers)
    assert missing.exit_code == 1
    inside = write_signers(index.parent / "mine", allow("mallory", new_key("mallory")))
    assert run("receipt", "--check", "x", "--index", index, "--signers", inside).exit_code == 2
