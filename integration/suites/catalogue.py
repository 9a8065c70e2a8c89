"""The suites, each at one version: where its tests are, and what it is run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SUITES", "Suite"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite with cassettes in its repository.

    The package under test comes from the registry, as its users get it; the repository gives the tests, the
    cassettes and the versions of everything else.
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
    """The day of which the registry's newest versions are taken, of what no lock file names."""
    requirements: tuple[str, ...] = ()
    """What the tests need besides."""
    left_out: tuple[str, ...] = ()
    """Locked packages that no test with a cassette needs."""
    tests: tuple[str, ...] = ()
    """The files whose tests are run; all without them."""
    keeps_vcrpy: bool = False
    """Whether its conftest.py imports vcrpy, and has to be changed before that is uninstalled."""
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
        versions="2026-06-29",
    )


_PYDANTIC_AI_EXTRAS: Final = (
    "ag-ui,anthropic,bedrock,bedrock-mantle,cli,cohere,duckduckgo,evals,exa,google,google-realtime,groq,huggingface,"
    "logfire,mcp,mistral,openai,openai-realtime,openrouter,realtime,retries,spec,tavily,temporal,ui,voyageai,web,"
    "web-fetch,xai,xai-realtime"
)
_LARGE_EXTRAS: Final = ("mcp-tasks", "sentence-transformers", "dbos", "prefect")
"""What runs models or workflow servers of its own: gigabytes, for a dozen tests."""
_PYDANTIC_AI_MODELS: Final = ("anthropic", "cohere", "groq", "huggingface", "mistral", "openai")
"""Of its 1,406 cassettes, those that are run in minutes. Bedrock's are not: the suite watches for blocking
calls, so that each of boto3's clients takes seconds to make."""

SUITES: Final = (
    Suite(
        name="llm-anthropic",
        repository="simonw/llm-anthropic",
        commit="3ae428f3b5143cc81da25af0271d8fa55bda3f05",
        packages=("llm-anthropic==0.25.1",),
        files=(
            "tests",
            "pyproject.toml",
            "llm_anthropic.py",
        ),  # its one module has moved on since that release
        versions="2026-07-01",
        requirements=(
            "llm>=0.32a1",
            "pytest",
            "pytest-recording",
            "pytest-asyncio",
            "inline-snapshot[black]",
        ),
    ),
    _openllmetry("ollama"),
    _openllmetry("anthropic"),
    _openllmetry("bedrock"),
    _openllmetry("openai"),
    _openllmetry("langchain"),
    Suite(
        name="pydantic-ai",
        repository="pydantic/pydantic-ai",
        commit="1d7eb695cc17c5bed46d32749ed02092819fc3a1",
        packages=(
            *("pydantic-ai==2.33.0", "pydantic-evals==2.33.0", "pydantic-graph==2.33.0", "clai==2.33.0"),
            f"pydantic-ai-slim[{_PYDANTIC_AI_EXTRAS}]==2.33.0",
        ),
        files=(
            *(
                "tests/*.py",
                "tests/assets",
                *(f"tests/models/cassettes/test_{name}" for name in _PYDANTIC_AI_MODELS),
            ),
            *("pyproject.toml", "uv.lock", "examples/pyproject.toml", "clai/pyproject.toml"),
            *(f"pydantic_{name}/pyproject.toml" for name in ("ai_slim", "evals", "graph")),
        ),
        lock_options=(
            *("--all-extras", *(option for name in _LARGE_EXTRAS for option in ("--no-extra", name))),
            *("--group", "dev", "--no-group", "lint"),
        ),
        versions="2026-08-22",
        left_out=("strict-no-cover",),
        tests=tuple(f"tests/models/test_{name}.py" for name in _PYDANTIC_AI_MODELS),
        keeps_vcrpy=True,
        marked_only=True,
    ),
)
