"""``cortex-replay comment``."""

from __future__ import annotations

import os
from typing import IO, Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import InputFile, command, json_option
from cortex_replay.forge.comments import mark, post
from cortex_replay.forge.job import NowhereToPost, request_of_job

__all__ = ["comment_command"]

_MAX_BYTES: Final = 16 * 2**20


@command(
    "comment",
    epilog="""Examples:

  cortex-replay diff main --format markdown | cortex-replay comment
  cortex-replay comment review.md
  cortex-replay comment review.md --name tests/llm    one comment for each store

GitHub Actions: needs GITHUB_TOKEN, and the permission `pull-requests: write`. GitLab CI: needs a project
access token with the scope `api` in GITLAB_TOKEN. A job of a fork has neither: it says so, and goes on.

Exit status:
  0  posted, or there is nowhere to post, and it is said why
  1  GitHub or GitLab could not be asked, or refused the token
  2  wrong usage, or this is no job of theirs
""",
)
@click.argument("file", type=InputFile(), default="-")
@click.option("--name", metavar="NAME", help="Tells this comment from others on the same request.")
@json_option
def comment_command(file: IO[bytes], name: str | None, as_json: bool) -> None:
    """Post Markdown as one comment on a pull or merge request, and keep it up to date.

    FILE holds the Markdown; without it, standard input is read. Secrets are cut out. A text that is too long
    is cut at the end of a line.
    """
    data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise click.UsageError(f"the text is longer than {_MAX_BYTES} bytes")
    if not data.strip():
        raise click.UsageError("there is no text to post")
    try:
        text = mark(data.decode(), name)
    except UnicodeDecodeError:
        raise click.UsageError("the text is not UTF-8") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--name") from None
    try:
        request = request_of_job(os.environ)
    except NowhereToPost as reason:
        _tell("refused", str(reason), as_json=as_json)
        return
    outcome, detail = post(request, output.redact(text))
    _tell(outcome, detail, as_json=as_json)


def _tell(outcome: str, detail: str, *, as_json: bool) -> None:
    if as_json:
        is_reason = outcome == "refused"
        output.print_json(
            {
                "outcome": outcome,
                "url": None if is_reason else detail or None,
                "reason": detail if is_reason else None,
            }
        )
    elif outcome == "refused":
        output.talk(f"no comment was posted: {output.escape(detail)}")
    else:
        output.talk(f"{outcome} the comment {output.escape(detail)}".rstrip())
