"""The suites, each at one version: where its tests are, and what it is run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SUITES", "Suite"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite with cassettes in its repository.

    The package under test comes from the registry, as its users get it; the repository gives the tests, the cassettes and
    the versions of everything else.
    """

    name: str
    repository: str
    """Owner and name at GitHub."""
    commit: str
    packages: tuple[str, ...]
    """The packages under test, as published from this commit, or the nearest release."""
    folder: str = "."
    """Where the project is in its repository."""
    files: tuple[str, ...] = ("tests", "pyproject.toml", "pytest.ini", "uv.lock")
    """What of the folder is needed to run the tests."""
    lock_options: tuple[str, ...] = ()
    """How `uv export` gets the versions from the lock file; none where there is no lock file."""
    versions: str = ""
    """Where there is no lock file: the day of which the registry's newest versions are taken."""
    requirements: tuple[str, ...] = ()
    """What the tests need besides."""
    left_out: tuple[str, ...] = ()
    """Locked packages that no test with a cassette needs."""
    options: tuple[str, ...] = ()
    """For pytest."""
    marked_only: bool = False
    """Whether only tests with a cassette are run: the others take very long."""


def _openllmetry(name: str) -> Suite:
    package = f"opentelemetry-instrumentation-{name}"
    siblings = ("bedrock", "openai") if name == "langchain" else ()
    return Suite(
        name=package,
        repository="traceloop/openllmetry",
        commit="93429cfb9767e6b51db6cb35f6b70f758117669a",
        packages=tuple(
            f"{one}==0.62.1"
            for one in (package, *(f"opentelemetry-instrumentation-{other}" for other in siblings))
        ),
        folder=f"packages/{package}",
        lock_options=("--group", "test"),
    )


SUITES: Final = (
    Suite(
        name="llm-anthropic",
        repository="simonw/llm-anthropic",
        commit="3ae428f3b5143cc81da25af0271d8fa55bda3f05",
        packages=("llm-anthropic==0.25.1",),
        files=("tests", "pyproject.toml", "llm_anthropic.py"),  # its one module has moved on since that release
        versions="2026-07-01",
        requirements=("llm>=0.32a1", "pytest", "pytest-recording", "pytest-asyncio", "inline-snapshot[black]"),
    ),
    _openllmetry("ollama"),
    _openllmetry("anthropic"),
    _openllmetry("bedrock"),
    _openllmetry("openai"),
    _openllmetry("langchain"),
    Suite(
        name="pydantic-ai",
        repository="pydantic/pydantic-ai",
        commit="",
        packages=(),
        lock_options=("--all-extras", "--no-extra", "mcp-tasks", "--group", "dev", "--all-packages"),
        marked_only=True,
    ),
)
