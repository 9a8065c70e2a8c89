"""Which credentials a bucket is asked with."""

from __future__ import annotations

import socket
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.providers import DUMMY_KEY
from cortex_replay.redact.process import process_redactor
from cortex_replay.remote import access
from cortex_replay.remote.access import Access, access_to

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "s3cr3tS3cr3tS3cr3tS3cr3t"}
STATIC = """[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = dDdDdDdD0123456789dDdDdDdD

[work]
aws_access_key_id = AKIAWORK
aws_secret_access_key = wWwWwWwW0123456789wWwWwWwW
aws_session_token = tTtTtTtT0123456789tTtTtTtT
"""


@pytest.fixture(autouse=True)
def _without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)


@pytest.fixture(autouse=True)
def roles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What machines were asked for; they answer."""
    asked: list[str] = []

    def answer(request: str) -> bool:
        asked.append(request)
        return True

    monkeypatch.setattr(access, "_answers", answer)
    return asked


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.aws").mkdir(parents=True)
    return tmp_path / "home"


def s3(home: Path, **environment: str) -> Access:
    return access_to("s3", None, {"HOME": str(home), **environment}, home / "firmware")


def machine(home: Path, **says: str) -> None:
    (home / "firmware").mkdir()
    for name, text in says.items():
        (home / "firmware" / name).write_text(f"{text}\n")


def is_anonymous(access: Access) -> bool:
    return access.source is None and access.options["skip_signature"] is True


def test_the_environment_goes_first(home: Path) -> None:
    (home / ".aws/credentials").write_text(STATIC)

    assert s3(home, **KEYS).source == "AWS_ACCESS_KEY_ID"
    assert dict(s3(home, **KEYS).options) == {}  # the engine reads it there itself
    assert s3(home, AWS_WEB_IDENTITY_TOKEN_FILE="/run/token").source == "AWS_WEB_IDENTITY_TOKEN_FILE"


def test_a_dummy_is_no_key(home: Path) -> None:
    """The plugin puts some into the environment of tests, for SDKs that do not start without one."""
    dummies = dict.fromkeys(KEYS, DUMMY_KEY)

    assert is_anonymous(s3(home, **dummies))
    (home / ".aws/credentials").write_text(STATIC)
    assert s3(home, **dummies).options["access_key_id"] == "AKIADEFAULT"


def test_profiles_with_plain_keys(home: Path) -> None:
    """They need no other library, and are known to the redactor from then on."""
    (home / ".aws/credentials").write_text(STATIC)
    (home / ".aws/config").write_text("[profile work]\nregion = eu-north-1\n")

    found = s3(home, AWS_PROFILE="work")

    assert found.source == "your profile work"
    assert found.options["access_key_id"] == "AKIAWORK"
    assert found.options["session_token"] == "tTtTtTtT0123456789tTtTtTtT"
    assert found.options["region"] == "eu-north-1"
    assert "wWwWwWwW0123456789" not in repr(found)
    assert "wWwWwWwW" not in process_redactor().text("it is wWwWwWwW0123456789wWwWwWwW")[0]
    assert s3(home).source == "your profile default"


def test_the_region_of_a_bucket_goes_before_that_of_a_profile(home: Path) -> None:
    (home / ".aws/credentials").write_text(f"{STATIC}region = eu-north-1\n")

    found = access_to("s3", "us-west-2", {"HOME": str(home), "AWS_PROFILE": "work"}, home)

    assert found.options["region"] == "us-west-2"
    assert found.anonymous["region"] == "us-west-2"
    assert "session_token" not in found.anonymous


def test_a_profile_that_needs_a_library(home: Path) -> None:
    """Reading goes on without credentials, and the error says what is missing."""
    (home / ".aws/config").write_text("[profile work]\nsso_session = corp\n")

    found = s3(home, AWS_PROFILE="work")

    assert is_anonymous(found)
    assert "pip install botocore" in str(found)


def test_a_profile_by_amazons_library(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its own looks at the environment, where dummies may be, and at the network."""
    removed: list[str] = []

    class Session:
        def __init__(self, profile: str | None) -> None:
            self.profile = profile

        def get_component(self, name: str) -> Any:
            return types.SimpleNamespace(remove=removed.append)

        def get_credentials(self) -> Any:
            keys = types.SimpleNamespace(access_key="A", secret_key="sSsSsSsS0123456789sS", token=None)
            return types.SimpleNamespace(get_frozen_credentials=lambda: keys)

        def get_config_variable(self, name: str) -> str:
            return "eu-south-1"

    session = types.ModuleType("botocore.session")
    session.Session = Session  # type: ignore[attr-defined]
    package = types.ModuleType("botocore")
    package.session = session  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "botocore", package)
    monkeypatch.setitem(sys.modules, "botocore.session", session)

    found = s3(home, AWS_PROFILE="sso")

    assert found.source == "your profile sso"
    assert found.options["region"] == "eu-south-1"
    assert found.options["credential_provider"]()["access_key_id"] == "A"
    assert removed == ["env", "iam-role"]


def test_files_of_a_repository_are_no_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a relative path nor a folder without a home leads into the working directory."""
    (home / ".aws/credentials").write_text(STATIC)
    monkeypatch.chdir(home)

    assert is_anonymous(access_to("s3", None, {}, home))
    assert is_anonymous(access_to("s3", None, {"AWS_SHARED_CREDENTIALS_FILE": ".aws/credentials"}, home))


def test_only_a_machine_of_the_cloud_is_asked_for_its_role(home: Path, roles: list[str]) -> None:
    """Elsewhere the address of the role would not answer for seconds."""
    assert is_anonymous(s3(home))
    assert roles == []
    machine(home, sys_vendor="Amazon EC2", product_name="m7g.large")

    assert s3(home).source == "the role of this machine"
    assert "skip_signature" not in s3(home).options
    assert is_anonymous(s3(home, AWS_EC2_METADATA_DISABLED="true"))
    assert is_anonymous(s3(home, AWS_SKIP_SIGNATURE="true", **KEYS))
    assert is_anonymous(access_to("gs", None, {"HOME": str(home)}, home / "firmware"))


def test_a_machine_that_does_not_tell_its_role(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container is often kept from it: then reading is anonymous, after a second and not after minutes."""
    machine(home, sys_vendor="Amazon EC2")
    monkeypatch.setattr(access, "_answers", lambda request: False)

    assert is_anonymous(s3(home))


@pytest.mark.parametrize("answer", [b"HTTP/1.0 200 OK\r\n\r\n", b""])
def test_asking_a_machine(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(access, "_ROLE_SERVER", server.getsockname())
        monkeypatch.setattr(access, "_ROLE_SECONDS", 5 if answer else 0.01)
        held = []

        def serve() -> None:
            held.append(server.accept()[0])
            held[0].sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert access._answers("GET / HTTP/1.0\r\n") is bool(answer)
        thread.join()
        held[0].close()


def test_google(home: Path) -> None:
    def gs(**environment: str) -> Access:
        return access_to("gs", None, {"HOME": str(home), **environment}, home / "firmware")

    assert is_anonymous(gs())
    assert "gcloud auth application-default login" in str(gs())
    assert gs(GOOGLE_APPLICATION_CREDENTIALS="/k.json").source == "GOOGLE_APPLICATION_CREDENTIALS"
    machine(home, product_name="Google Compute Engine")
    assert gs().source == "the service account of this machine"
    (home / ".config/gcloud").mkdir(parents=True)
    (home / ".config/gcloud/application_default_credentials.json").write_text("{}")
    assert gs().source == "~/.config/gcloud/application_default_credentials.json"


def test_azure(home: Path) -> None:
    account = {"AZURE_STORAGE_ACCOUNT_NAME": "team"}

    assert is_anonymous(access_to("az", None, account, home))
    assert access_to("az", None, account | {"AZURE_STORAGE_SAS_KEY": "sv=1"}, home).source is not None
    machine(home, chassis_asset_tag="7783-7084-3265-9085-8269-3286-77")
    assert access_to("az", None, account, home / "firmware").source == "the identity of this machine"


@pytest.mark.parametrize(
    ("environment", "is_plain"),
    [
        ({}, False),
        ({"AWS_ENDPOINT_URL": "https://s3.example"}, False),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}, True),
        ({"AWS_ALLOW_HTTP": "true"}, True),
    ],
)
def test_http_is_for_who_names_it(home: Path, environment: dict[str, str], is_plain: bool) -> None:
    assert s3(home, **environment).client["allow_http"] is is_plain
