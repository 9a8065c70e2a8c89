"""Real S3 servers, each a program of its own, found on PATH or built once below ``.bench/``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import httpx

from integration import install
from tests.servers.process import free_port, running
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server, put_bucket, start_moto

__all__ = ["SERVERS", "start_gofakes3", "start_minio", "start_s3s_fs", "start_versitygw"]

# The last commit of MinIO's public repository; it has no version in the way of Go modules.
_MINIO: Final = ("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
_VERSITYGW: Final = ("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
_GOFAKES3: Final = ("github.com/johannesboyne/gofakes3/cmd/gofakes3", "v1.2.0")
_S3S_FS: Final = ("s3s-fs", "0.14.1")


@contextmanager
def start_minio(directory: Path) -> Iterator[S3Server]:
    """MinIO over one folder, until the block ends."""
    program = _go_program("minio", *_MINIO)
    data = _folder(directory, "minio")
    variables = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "MINIO_UPDATE": "off"}

    def command(address: str) -> list[str | Path]:
        return [program, "server", data, "--address", address, "--quiet"]

    with _serving("minio", directory, command, variables) as endpoint:
        yield S3Server("minio", endpoint, _make_folder(data), data)


@contextmanager
def start_versitygw(directory: Path) -> Iterator[S3Server]:
    """versitygw over one folder, until the block ends."""
    program = _go_program("versitygw", *_VERSITYGW)
    data = _folder(directory, "versitygw")
    sidecar = _folder(directory, "metadata")  # not every file system has extended attributes
    variables = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}

    def command(address: str) -> list[str | Path]:
        return [program, "--port", address, "posix", "--sidecar", sidecar, data]

    with _serving("versitygw", directory, command, variables) as endpoint:
        yield S3Server("versitygw", endpoint, _make_folder(data), data)


@contextmanager
def start_gofakes3(directory: Path) -> Iterator[S3Server]:
    """gofakes3 in memory, until the block ends; it takes any signature."""
    program = _go_program("gofakes3", *_GOFAKES3)

    def command(address: str) -> list[str | Path]:
        return [program, "-backend", "memory", "-host", address, "-quiet"]

    with _serving("gofakes3", directory, command) as endpoint:
        yield S3Server("gofakes3", endpoint, put_bucket(endpoint))


@contextmanager
def start_s3s_fs(directory: Path) -> Iterator[S3Server]:
    """s3s-fs over one folder, until the block ends."""
    program = _cargo_program(*_S3S_FS)
    data = _folder(directory, "s3s-fs")

    def command(address: str) -> list[str | Path]:
        host, _, port = address.rpartition(":")
        keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]
        return [program, "--host", host, "--port", port, *keys, data]

    with _serving("s3s-fs", directory, command) as endpoint:
        yield S3Server("s3s-fs", endpoint, _make_folder(data), data)


@contextmanager
def _moto(_: Path) -> Iterator[S3Server]:
    with start_moto() as server:
        yield server


SERVERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[S3Server]]]] = {
    "minio": start_minio,
    "versitygw": start_versitygw,
    "gofakes3": start_gofakes3,
    "moto": _moto,
    "s3s-fs": start_s3s_fs,
}


@contextmanager
def _serving(
    name: str,
    directory: Path,
    command: Callable[[str], Sequence[str | Path]],
    variables: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A server on a port of its own; its URL, once it answers anything."""
    # None of them tells the port it got, so each has to be given one.
    address = f"127.0.0.1:{free_port()}"
    environment = os.environ | (variables or {})
    with running(command(address), directory / f"{name}.log", environment=environment) as server:
        endpoint = f"http://{address}"
        server.when(lambda: _answers(endpoint) or None)
        yield endpoint


def _answers(endpoint: str) -> bool:
    """Whether a listing of buckets is answered; without a signature that may be a refusal."""
    try:
        answer = httpx.get(endpoint, trust_env=False)
    except httpx.TransportError:
        return False
    return not answer.is_server_error


def _folder(directory: Path, name: str) -> Path:
    folder = directory / name
    folder.mkdir()
    return folder


def _make_folder(data: Path) -> Callable[[str], None]:
    """These servers take a folder at the top for a bucket."""
    return lambda name: (data / name).mkdir()


def _go_program(name: str, package: str, version: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    go = install.needed("go", f"build {name}")

    def build(folder: Path) -> None:
        install.completed([go, "install", "-trimpath", f"{package}@{version}"], GOBIN=os.fspath(folder))

    return install.once(install.BENCH / name / version, build) / name


def _cargo_program(name: str, version: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    cargo = install.needed("cargo", f"build {name}")

    def build(folder: Path) -> None:
        install.completed(
            [
                cargo,
                "install",
                name,
                "--version",
                version,
                "--locked",
                "--features",
                "binary",
                "--root",
                folder,
            ],
            CARGO_TARGET_DIR=os.fspath(install.BENCH / "target"),
        )

    return install.once(install.BENCH / name / version, build) / "bin" / name
