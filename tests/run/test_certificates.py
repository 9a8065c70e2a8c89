"""What a command trusts beside what it trusts anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.run.certificates import trust_variables

OURS = b"-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n"
THEIRS = b"-----BEGIN CERTIFICATE-----\ntheirs\n-----END CERTIFICATE-----"


def test_most_programs_get_the_roots_of_the_system_with_ours(tmp_path: Path) -> None:
    made = trust_variables({}, OURS, tmp_path)

    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"):
        bundle = Path(made[name]).read_bytes()
        assert bundle.endswith(b"\n" + OURS), name
        assert bundle.count(b"BEGIN CERTIFICATE") > 50, name
    for name in ("NODE_EXTRA_CA_CERTS", "DENO_CERT"):
        assert Path(made[name]).read_bytes().strip() == OURS.strip(), name
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_the_user_named_stays_trusted_and_nothing_else(tmp_path: Path, is_folder: bool) -> None:
    """A company's own roots, say, and not those of the whole world."""
    own = tmp_path / "own"
    if is_folder:
        own.mkdir()
        (own / "a.pem").write_bytes(THEIRS)
        (own / "README").write_bytes(b"no certificate")
    else:
        own.write_bytes(THEIRS)
    (tmp_path / "made").mkdir()

    made = trust_variables(
        {"REQUESTS_CA_BUNDLE": str(own), "NODE_EXTRA_CA_CERTS": str(own)}, OURS, tmp_path / "made"
    )

    for name in ("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        assert Path(made[name]).read_bytes() == THEIRS + b"\n" + OURS
    assert Path(made["SSL_CERT_FILE"]).read_bytes().count(b"BEGIN CERTIFICATE") > 50


def test_a_file_that_is_gone_is_as_if_none_was_named(tmp_path: Path) -> None:
    made = trust_variables({"SSL_CERT_FILE": str(tmp_path / "gone")}, OURS, tmp_path)

    assert Path(made["SSL_CERT_FILE"]).read_bytes().count(b"BEGIN CERTIFICATE") > 50
