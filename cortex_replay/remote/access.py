"""How a bucket is asked: with the user's credentials, found where each cloud's own tools look for them.

They come from the environment, from files in the user's own folder, and from the machine itself where it is
one of that cloud. ``obstore`` finds most of them; Amazon's profiles it does not read. Where there are none,
reading is anonymous, and no address is asked for a role that this machine cannot have: on a laptop it would
not answer for seconds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cortex_replay.errors import StoreIo
from cortex_replay.providers import DUMMY_KEY

__all__ = ["Access", "access_to"]

_Environment = Mapping[str, str]

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 10
"""Without a byte. Then the request is tried again."""
REQUEST_SECONDS: Final = 120
RETRIES: Final = 3
RETRY_SECONDS: Final = 25
"""After which nothing is tried again; so a server that hangs is given up after some 35 s."""

_S3_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
)
_GS_VARIABLES: Final = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)
_GS_FILE: Final = ".config/gcloud/application_default_credentials.json"
_AZ_ACCOUNT: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")
_AZ_VARIABLES: Final = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_USE_AZURE_CLI",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURE_MSI_ENDPOINT",
    "IDENTITY_ENDPOINT",
)
_MACHINES: Final = {
    "s3": (("sys_vendor", "amazon ec2"), ("bios_version", "amazon")),
    "gs": (("product_name", "google compute engine"),),
    "az": (("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),),
}
"""What the firmware of a cloud's machines says."""
_ROLES: Final = {
    "s3": "PUT /latest/api/token HTTP/1.0\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n",
    "gs": "GET /computeMetadata/v1/ HTTP/1.0\r\nMetadata-Flavor: Google\r\n",
    "az": "GET /metadata/versions HTTP/1.0\r\nMetadata: true\r\n",
}
"""What a machine is asked for first when it is asked for its role."""
_ROLE_SERVER: Final = ("169.254.169.254", 80)
_ROLE_SECONDS: Final = 1.0
_FIRMWARE: Final = Path("/sys/class/dmi/id")
_UNSIGNED: Final[dict[str, Any]] = {"skip_signature": True}
_UNSIGNED_S3: Final = {**_UNSIGNED, "access_key_id": "none", "secret_access_key": "none"}
"""``obstore`` wants none of the two in the environment, or both, also where it needs neither."""
_TRUE: Final = frozenset(["1", "true", "yes", "on", "y"])


@dataclass(frozen=True, slots=True)
class Access:
    """What a store of objects is opened with."""

    source: str | None
    """Where the credentials are from, for a message; ``None`` for none."""
    advice: str
    """What helps who has none."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For ``obstore``; may hold secrets."""
    client: Mapping[str, Any] = field(default_factory=dict)
    unsigned: Mapping[str, Any] = field(default_factory=lambda: _UNSIGNED)
    """The options of a request without a signature."""

    @property
    def anonymous(self) -> Mapping[str, Any]:
        """The options with no credentials at all."""
        region = {"region": self.options["region"]} if "region" in self.options else {}
        return {**region, **self.unsigned}

    @property
    def state(self) -> str:
        """How a bucket is asked, for who wants to know beforehand."""
        if self.source is None:
            return f"without credentials; {self.advice}"
        return f"with the credentials of {self.source}"

    def __str__(self) -> str:
        if self.source is None:
            return f"you have no credentials for it: {self.advice}"
        return (
            f"you asked with the credentials of {self.source}, which may not do this; or there is no such "
            "object, and you may not list the bucket"
        )


def access_to(
    scheme: str,
    region: str | None = None,
    environment: _Environment = os.environ,
    firmware: Path = _FIRMWARE,
) -> Access:
    """How to ask the buckets of a cloud.

    Args:
        scheme: ``s3``, ``gs`` or ``az``.
        region: Of the bucket, if the settings name it.
        environment: ``os.environ``; ``obstore`` reads it as well.
        firmware: Where the system tells what machine this is.

    Raises:
        StoreIo: Something is missing without which nothing can be asked.
    """
    known = {name: value for name, value in environment.items() if value.strip() and value != DUMMY_KEY}
    of_machine = lambda: (  # noqa: E731 - asked where nothing else is found
        any(_says(firmware / name, text) for name, text in _MACHINES[scheme]) and _answers(_ROLES[scheme])
    )
    if scheme == "s3":
        return _to_s3(known, region, of_machine)
    if scheme == "gs":
        return _to_gs(known, of_machine)
    return _to_az(known, of_machine)


def _to_s3(environment: _Environment, region: str | None, of_machine: Callable[[], bool]) -> Access:
    advice = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; without them only public buckets "
        "can be read"
    )
    endpoints = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
    is_plain = any(environment.get(name, "").lower().startswith("http://") for name in endpoints)
    client = {"allow_http": is_plain or _is_set(environment, "AWS_ALLOW_HTTP")}
    of_region = {} if region is None else {"region": region}
    if _is_set(environment, "AWS_SKIP_SIGNATURE"):
        return Access(None, advice, of_region | _UNSIGNED_S3, client, _UNSIGNED_S3)
    named = next((name for name in _S3_VARIABLES if name in environment), None)
    if named is not None:
        return Access(named, advice, of_region, client, _UNSIGNED_S3)
    profile, problem = _profile(environment)
    if profile is not None:
        return Access(profile.source, advice, {**profile.options, **of_region}, client, _UNSIGNED_S3)
    if not _is_set(environment, "AWS_EC2_METADATA_DISABLED") and of_machine():
        return Access("the role of this machine", advice, of_region, client, _UNSIGNED_S3)
    return Access(None, problem or advice, of_region | _UNSIGNED_S3, client, _UNSIGNED_S3)


def _to_gs(environment: _Environment, of_machine: Callable[[], bool]) -> Access:
    advice = (
        "set GOOGLE_APPLICATION_CREDENTIALS, or run: gcloud auth application-default login; without them "
        "only public buckets can be read"
    )
    source = next((name for name in _GS_VARIABLES if name in environment), None)
    home = environment.get("HOME", "")
    if source is None and home and Path(home, _GS_FILE).is_file():
        source = f"~/{_GS_FILE}"
    if source is None and of_machine():
        source = "the service account of this machine"
    client = {"allow_http": _is_set(environment, "GOOGLE_ALLOW_HTTP")}
    return Access(source, advice, {} if source else _UNSIGNED, client)


def _to_az(environment: _Environment, of_machine: Callable[[], bool]) -> Access:
    if not any(name in environment for name in (*_AZ_ACCOUNT, "AZURE_STORAGE_USE_EMULATOR")):
        raise StoreIo(f"a bucket az:// is in an account of Azure, and none is named: set {_AZ_ACCOUNT[0]}")
    advice = (
        "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY, or AZURE_USE_AZURE_CLI=true after az login; "
        "without them only public containers can be read"
    )
    source = next((name for name in _AZ_VARIABLES if name in environment), None)
    if source is None and of_machine():
        source = "the identity of this machine"
    emulated = _is_set(environment, "AZURE_STORAGE_USE_EMULATOR")
    client = {"allow_http": emulated or _is_set(environment, "AZURE_ALLOW_HTTP")}
    return Access(source, advice, {} if source else _UNSIGNED, client)


@dataclass(frozen=True, slots=True)
class _Profile:
    source: str
    options: dict[str, Any] = field(repr=False)


def _profile(environment: _Environment) -> tuple[_Profile | None, str | None]:
    """The user's profile in Amazon's files, or what is in the way of using it."""
    folder = Path(environment.get("HOME", ""), ".aws")
    keys = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE", folder / "credentials")).expanduser()
    config = Path(environment.get("AWS_CONFIG_FILE", folder / "config")).expanduser()
    named = environment.get("AWS_PROFILE", environment.get("AWS_DEFAULT_PROFILE"))
    if not keys.is_absolute() or not config.is_absolute():  # there is no home, or it would be a repository's
        return None, None
    if named is None and not keys.is_file() and not config.is_file():
        return None, None
    name = named or "default"
    try:
        return _botocore_profile(named), None
    except ImportError:
        found = _plain_profile(name, keys, config)
    except Exception as error:  # noqa: BLE001 - whatever that library, or a program that a profile names, raises
        reason = f"the profile {name} cannot be used ({type(error).__name__})"
        return None, f"{reason}; try: aws sts get-caller-identity"
    if found is None and named is not None:
        return None, f"the profile {name} holds no plain keys; for others, run: pip install botocore"
    return found, None


def _botocore_profile(named: str | None) -> _Profile | None:
    """By Amazon's own library, which knows single sign-on, roles and programs.

    Raises:
        ImportError: It is not installed.
    """
    import botocore.session  # noqa: PLC0415 - few have it

    session = botocore.session.Session(profile=named)
    chain = session.get_component("credential_provider")
    for provider in ("env", "iam-role"):  # those were looked at before
        chain.remove(provider)
    credentials = session.get_credentials()
    if credentials is None:
        return None
    options: dict[str, Any] = {"credential_provider": _provider_of(credentials)}
    if region := session.get_config_variable("region"):
        options["region"] = region
    return _Profile(f"your profile {named or 'default'}", options)


def _provider_of(credentials: Any) -> Callable[[], dict[str, Any]]:
    from cortex_replay.redact.process import learn_secret  # noqa: PLC0415 - few have a profile

    def give() -> dict[str, Any]:
        now = credentials.get_frozen_credentials()
        learn_secret(now.secret_key)
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(UTC) + timedelta(minutes=5),  # it is asked again, and renews by itself
        }

    return give


def _plain_profile(name: str, keys: Path, config: Path) -> _Profile | None:
    import configparser  # noqa: PLC0415 - few have a profile

    from cortex_replay.redact.process import learn_secret  # noqa: PLC0415

    files = configparser.RawConfigParser(strict=False)
    with suppress(OSError, configparser.Error, UnicodeDecodeError):
        files.read([keys, config], encoding="utf-8")
    options: dict[str, Any] = {}
    for section in (name, f"profile {name}"):
        for option in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region"):
            if (value := files.get(section, option, fallback="").strip()) != "":
                options.setdefault(option.removeprefix("aws_"), value)
    if "access_key_id" not in options or "secret_access_key" not in options:
        return None
    learn_secret(options["secret_access_key"])
    return _Profile(f"your profile {name}", options)


def _is_set(environment: _Environment, name: str) -> bool:
    return environment.get(name, "").strip().lower() in _TRUE


def _answers(request: str) -> bool:
    """Whether a machine tells its role, to a container that runs on it, too: many are kept from it, and would
    wait for minutes."""
    try:
        with socket.create_connection(_ROLE_SERVER, _ROLE_SECONDS) as server:
            server.sendall(f"{request}Content-Length: 0\r\n\r\n".encode())
            return server.recv(1) != b""
    except OSError:
        return False


def _says(file: Path, text: str) -> bool:
    try:
        return text in file.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False
