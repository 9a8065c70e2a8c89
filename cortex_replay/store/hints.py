"""What probably happened, told from the bytes alone. A hint never softens a refusal."""

from __future__ import annotations

from typing import Final

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.index.index import PartRow, Row, content_key
from cortex_replay.store.left_out import LEFT_OUT_NAME

__all__ = [
    "CONFLICT",
    "MISSING",
    "MOST_BYTES",
    "NO_INDEX",
    "PART",
    "REKEY",
    "RESTORE",
    "STALE_INDEX",
    "STRAY_SHARD",
    "UNUSED_PART",
    "UPGRADE",
    "for_broken_link",
    "for_index",
    "for_mismatch",
    "for_other_json",
    "for_shard",
    "for_unlisted",
]

MOST_BYTES: Final = 2**20
"""How much of what nobody vouches for is read, only to find a hint."""
NO_INDEX: Final = "is this the root of a store? `--store PATH` names another"
REKEY: Final = "`cortex-replay rekey --accept-changed` gives it the key of its request"
UPGRADE: Final = "the store was written by a newer cortex-replay; upgrade this one"
MISSING: Final = (
    "was it deleted, or never committed? `git status --ignored` shows both; "
    "after a merge, `cortex-replay resolve` brings it back; "
    "`cortex-replay index --drop-missing` drops its row"
)
STALE_INDEX: Final = (
    "INDEX.toml is from before a re-record of this answer (or the answer was edited by hand): "
    "bring index and file from the same commit, or run `cortex-replay index --accept-changed`"
)
STRAY_SHARD: Final = (
    "only shards that INDEX.toml lists stand in index/: bring all of them from one commit; after a merge, "
    "`cortex-replay resolve` puts them right; what has nothing to do with the store belongs elsewhere"
)
_STALE_SHARD: Final = (
    "it and INDEX.toml are not from one commit: bring both from the same one; after a merge, "
    "`cortex-replay resolve` puts them right; else `cortex-replay index` lists anew what is there"
)
_LFS: Final = "this is a Git LFS pointer, not the file: run `git lfs pull`, and keep fixtures out of LFS"
CONFLICT: Final = (
    "git could not merge two branches here; to take what both recorded, run: cortex-replay resolve"
)
_CRLF: Final = (
    "only the line ends differ (CRLF): git changed them on checkout. Put `fixtures/** -text` and "
    "`INDEX.toml -text` into .gitattributes (`cortex-replay init` does), then run `cortex-replay index`"
)
PART: Final = (
    "restore it from version control; or, to change the requests that have it, "
    "run `cortex-replay rekey --accept-changed`"
)
UNUSED_PART: Final = "delete it; or bring back the recordings that had it"
_BROKEN_LINK: Final = (
    "bring back the recording that it continues, or the part that it names, from version control; "
    "or delete this file"
)
RESTORE: Final = "restore it from version control, or rebuild it: `cortex-replay index --accept-changed`"


def for_broken_link(code: str) -> str | None:
    """What to do about a request that cannot be put together."""
    return _BROKEN_LINK if code == "link-broken" else None


def for_unlisted(path: str) -> str:
    """What to do with a file that no row names."""
    return f"if it is a recording, `cortex-replay index` lists it; {for_other_json(path)}"


def for_other_json(path: str) -> str:
    """What to do with a file that is no recording."""
    return (
        "if it has nothing to do with the store, move it elsewhere, "
        f"or add the line {path} to {LEFT_OUT_NAME} beside INDEX.toml"
    )


def _common_hint(data: bytes) -> str | None:
    if data.startswith(b"version https://git-lfs"):
        return _LFS
    if data.startswith(b"<<<<<<< ") or b"\n<<<<<<< " in data:
        return CONFLICT
    return None


def for_index(data: bytes) -> str:
    """Why an index may be outside the grammar."""
    if hint := _common_hint(data):
        return hint
    if data.startswith(b"\xef\xbb\xbf"):
        return "it starts with a byte order mark, which an editor put there: save it as plain UTF-8"
    if b"\r" in data:
        return _CRLF
    return RESTORE


def for_shard(expected: str, data: bytes) -> str:
    """Why a shard may have other bytes than the root says."""
    if hint := _common_hint(data):
        return hint
    return _CRLF if blake3_hex(data.replace(b"\r\n", b"\n")) == expected else _STALE_SHARD


def for_mismatch(row: Row, data: bytes) -> str | None:
    """Why a file may have other bytes than its row says."""
    if hint := _common_hint(data):
        return hint
    if b"\r\n" in data and blake3_hex(data.replace(b"\r\n", b"\n")) == row.blake3:
        return _CRLF
    if b"\n" in data and blake3_hex(data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")) == row.blake3:
        return "only the line ends differ: it was listed with CRLF and now has LF"
    if not data:
        return "the file is empty"
    if len(data) > MOST_BYTES:
        return None
    if isinstance(row, PartRow):
        return PART
    try:
        fixture = parse_fixture(data)
    except FixtureError:
        return None
    key = content_key(row)[:2]
    if key[1] is None or fixture.key == key:
        return STALE_INDEX
    return "this is a whole fixture, but one with another key: files were swapped or renamed"
