"""The job that we run in: which pull or merge request it is for, by what its runner says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cortex_replay.config.files import read_at_most
from cortex_replay.errors import ConfigError
from cortex_replay.forge.comments import Request
from cortex_replay.forge.github import GitHubRequest
from cortex_replay.forge.gitlab import GitLabRequest
from cortex_replay.redact.process import learn_secret
from cortex_replay.strict_json import JsonError, loads

__all__ = ["NowhereToPost", "request_of_job"]

_MAX_BYTES: Final = 32 * 2**20
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class NowhereToPost(Exception):
    """Why this job has nowhere to post, in words."""


def request_of_job(environment: Mapping[str, str]) -> Request:
    """The request that the job of this environment is for.

    Raises:
        NowhereToPost: The job is for none, or has no token.
        ConfigError: This is no job, or what its runner says makes no sense.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return _of_github(environment)
    if environment.get("GITLAB_CI") == "true":
        return _of_gitlab(environment)
    raise ConfigError("environment", "this is neither a job of GitHub Actions nor one of GitLab CI")


def _of_github(environment: Mapping[str, str]) -> Request:
    path = _variable(environment, "GITHUB_EVENT_PATH")
    try:
        event: Any = loads(read_at_most(Path(path), _MAX_BYTES)[1])
    except (OSError, JsonError) as error:
        raise ConfigError("GITHUB_EVENT_PATH", str(error)) from None
    request = event.get("pull_request") if isinstance(event, dict) else None
    number = request.get("number") if isinstance(request, dict) else None
    if number is None:
        raise NowhereToPost("this job is for no pull request")
    repository = _variable(environment, "GITHUB_REPOSITORY")
    if type(number) is not int or not _REPOSITORY.fullmatch(repository):
        raise ConfigError("GITHUB_EVENT_PATH", "it names no pull request that could be")
    token = _token(environment, "GITHUB_TOKEN", "GH_TOKEN")
    url = environment.get("GITHUB_GRAPHQL_URL") or "https://api.github.com/graphql"
    return GitHubRequest(url, token, repository, number)


def _of_gitlab(environment: Mapping[str, str]) -> Request:
    number = environment.get("CI_MERGE_REQUEST_IID")
    if not number:
        raise NowhereToPost("this job is for no merge request")
    project = _variable(environment, "CI_MERGE_REQUEST_PROJECT_ID")
    if not (number.isdecimal() and project.isdecimal()):
        raise ConfigError("CI_MERGE_REQUEST_IID", "it and CI_MERGE_REQUEST_PROJECT_ID have to be numbers")
    token = _token(environment, "GITLAB_TOKEN")
    return GitLabRequest(_variable(environment, "CI_API_V4_URL"), token, int(project), int(number))


def _variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise ConfigError(name, "the runner did not set it")
    return value


def _token(environment: Mapping[str, str], *names: str) -> str:
    token = next((environment[name].strip() for name in names if environment.get(name, "").strip()), None)
    if token is None:
        raise NowhereToPost(f"this job has no token in {names[0]}")
    if not token.isascii() or not token.isprintable():
        raise ConfigError(names[0], "it holds characters that no token has")
    learn_secret(token)
    return token
