"""``cortex-replay receipt``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import click

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import complete_fixture, find_fixture
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.disk import Folder, write_file
from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.store import Store, StoredFixture
from cortex_replay.store.check import read_listed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.index import FixtureRow, Index, ScopedRow, ShardRow
from cortex_replay.store.index.shard_reading import read_shard_bytes
from cortex_replay.store.index.shards import shard_of_key
from cortex_replay.store.signing.chain import SIGNATURE_NAME
from cortex_replay.store.signing.judge import MAX_SIGNATURE_BYTES, Evidence, check_signed, read_evidence
from cortex_replay.store.signing.outside import read_signers, tree_of
from cortex_replay.store.signing.receipt import (
    MAX_RECEIPT_BYTES,
    Receipt,
    ReceiptError,
    check_receipt,
    make_receipt,
)
from cortex_replay.store.signing.ssh import BadSignature, Signer, SshKeygen, Stranger
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, MAX_INDEX_BYTES, Untrusted, trust_index, trust_shard

__all__ = ["receipt_command"]

_FILE = click.Path(path_type=Path, dir_okay=False)


@command(
    "receipt",
    epilog="""Examples:

  cortex-replay receipt 3f2a91 --out receipt.json
  cortex-replay receipt 3f2a91 --n 2 --scope tests/test_chat.py::test_hello   the second that this test got
  cortex-replay receipt --check receipt.json --index INDEX.toml --signers ~/signers

To check one, somebody needs the receipt, INDEX.toml and INDEX.toml.sig as they were then, and a
list of signers: nothing else of the store. With --brief the receipt leaves out the recording
itself, and proves only that a file with its hash is recorded (docs/signing.md).

Exit status:
  0  here it is; with --check: it is good
  1  the store could not be read, or its index is not signed
  2  wrong usage, or several recordings fit
  3  no recording fits
  5  the store is not what its index says; with --check: the receipt proves nothing
""",
)
@click.argument("key", required=False, metavar="[KEY]", shell_complete=complete_fixture)
@store_option
@click.option("--model", help="Only this model, where several have the same prompt.")
@click.option("--scope", metavar="NAME", default="", help="What this test, or other scope, gets.")
@click.option("--n", "n", type=click.IntRange(1), default=1, help="Which of several answers.  [default: 1]")
@click.option("--brief", is_flag=True, help="Leave out the recording itself, and so what was answered.")
@click.option("--out", type=_FILE, metavar="FILE", help="Write it to this file.")
@click.option("--check", "checked", type=_FILE, metavar="FILE", help="Check this receipt.")
@click.option(
    "--index", "index_path", type=_FILE, metavar="FILE", help="With --check: the signed INDEX.toml."
)
@click.option("--signers", type=_FILE, metavar="FILE", help="With --check: whom you trust, as for verify.")
@click.option("--fixture", type=_FILE, metavar="FILE", help="With --check: a file that it has to be about.")
@json_option
@click.pass_context
def receipt_command(
    ctx: click.Context,
    key: str | None,
    store: Path | None,
    model: str | None,
    scope: str,
    n: int,
    brief: bool,
    out: Path | None,
    checked: Path | None,
    index_path: Path | None,
    signers: Path | None,
    fixture: Path | None,
    as_json: bool,
) -> None:
    """Prove an answer of a signed store to somebody who has the signed index alone.

    KEY is the start of a prompt hash, or the path of a file as INDEX.toml has it.
    """
    if checked is not None:
        if index_path is None or signers is None or key or out or brief:
            raise click.UsageError("--check goes with --index and --signers, and with no recording of yours")
        _check(ctx, checked, index_path, signers, fixture, as_json=as_json)
        return
    if key is None or index_path or signers or fixture:
        raise click.UsageError("name a recording, such as: cortex-replay receipt 3f2a91; or --check FILE")
    opened = Store.open(store_root(ctx, store), verify="on-read")
    stored = find_fixture(ctx, opened, key, model, scope)
    made = _make(DirectorySource(store_root(ctx, store)), stored, n, is_brief=brief)
    text = f"{json.dumps(made, indent=2)}\n"
    if output.redact(text) != text:
        raise StoreIo("the recording holds something that is secret here; --brief leaves the recording out")
    if out is None:
        output.print_json_text(text)
        return
    try:
        write_file(out, text.encode())
    except OSError as error:
        raise StoreIo(f"{out}: {error.strerror or error}") from None
    output.talk(f"written: {output.escape(str(out))}, with generation {made['generation']} of the store")


def _make(source: DirectorySource, stored: StoredFixture, n: int, *, is_brief: bool) -> dict[str, object]:
    try:
        evidence = read_evidence(source)
        _check_signed(evidence)
        if not SshKeygen(tree_of(source.root)).is_signed(evidence.index, evidence.signature or b""):
            raise StoreIo(f"{SIGNATURE_NAME} is no signature of the index; run: cortex-replay sign --again")
        index, shard = trust_index(evidence.index), None
        if index.shards:
            name = shard_of_key(stored.model, stored.prompt_hash)
            listed = next((one for one in index.shards if one.name == name), ShardRow(name, ""))
            shard = read_shard_bytes(source, listed)
            index = trust_shard(listed, shard)
        row = _row_of(index, stored)
        file = None if is_brief else read_listed(source, row)
        return dict(make_receipt(evidence.index, row, shard, file, n))
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None
    except ReceiptError as error:
        raise StoreIo(f"there is no receipt of {stored.path}: {error}") from None


def _check_signed(evidence: Evidence) -> None:
    try:
        check_signed(evidence)
    except Untrusted as error:
        finding = error.finding
        raise StoreIo(f"{finding.path} {finding.reason}; run: cortex-replay sign") from None


def _row_of(index: Index, stored: StoredFixture) -> FixtureRow | ScopedRow:
    rows: list[FixtureRow | ScopedRow] = [*index.fixtures, *index.scoped]
    for row in rows:
        scope = row.scope if isinstance(row, ScopedRow) else ""
        if (row.path, row.blake3, scope) == (stored.path, stored.blake3, stored.scope):
            return row
    raise StoreIo("the store changed in the meantime; repeat the command")


def _check(
    ctx: click.Context, path: Path, index_path: Path, signers: Path, fixture: Path | None, *, as_json: bool
) -> None:
    allowed = read_signers(signers, index_path.absolute().parent)
    index = _read(index_path, MAX_INDEX_BYTES)
    signature = _read(index_path.with_name(f"{index_path.name}.sig"), MAX_SIGNATURE_BYTES)
    data = _read(path, MAX_RECEIPT_BYTES)
    file = None if fixture is None else _read(fixture, MAX_FIXTURE_BYTES)
    try:
        ssh = SshKeygen(tree_of(index_path.absolute().parent))
        signer = ssh.find_signer(index, signature, allowed)
        receipt = check_receipt(data, index, file)
    except BadSignature as error:
        _fail(
            ctx, Finding("signature-bad", index_path.name, f"has another signature: {error}"), as_json=as_json
        )
    except Stranger as error:
        _fail(
            ctx,
            Finding("signer-unknown", index_path.name, f"was signed by a stranger: {error}"),
            as_json=as_json,
        )
    except ReceiptError as error:
        _fail(ctx, Finding("receipt-invalid", path.name, str(error)), as_json=as_json)
    except Untrusted as error:
        _fail(ctx, error.finding, as_json=as_json)
    if as_json:
        output.print_json(_as_json(receipt, signer))
        return
    what = f"answer {receipt.n} of " if receipt.n else ""
    output.talk(f"good: {what}{output.escape(receipt.row.path)}, signed by {output.escape(signer.name)}")
    if receipt.n is None and file is None:
        output.talk(
            "it says nothing of the answer: --fixture FILE shows that a file is the one that is meant"
        )


def _fail(ctx: click.Context, finding: Finding, *, as_json: bool) -> NoReturn:
    settle(ctx, FixtureIntegrityFailed.exit_code)
    if as_json:
        output.print_json({"ok": False, "code": finding.code, "reason": finding.reason})
    else:
        output.print_findings([finding])
    ctx.exit(FixtureIntegrityFailed.exit_code)


def _as_json(receipt: Receipt, signer: Signer) -> dict[str, object]:
    row = receipt.row
    return {
        "ok": True,
        "store_id": receipt.head.store_id,
        "generation": receipt.head.generation,
        "signer": signer.name,
        "key": signer.key,
        "model": row.model,
        "prompt_hash": row.prompt_hash,
        "scope": row.scope if isinstance(row, ScopedRow) else None,
        "path": row.path,
        "blake3": row.blake3,
        "n": receipt.n,
        "answer": receipt.answer,
    }


def _read(path: Path, max_bytes: int) -> bytes:
    """A file that the user named, by whatever links."""
    try:
        place = path.resolve(strict=True)
        with Folder.at(place.parent) as folder:
            data = folder.read(place.name, max_bytes + 1)
    except (OSError, RuntimeError) as error:
        raise StoreIo(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > max_bytes:
        raise StoreIo(f"{path} is larger than {max_bytes} bytes")
    return data
