"""``cortex-replay view``."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.change_sides import Sides, review_between
from cortex_replay.cli.fixtures import end_without_fixture
from cortex_replay.cli.options import command, json_option, store_option, store_root, version_of
from cortex_replay.cli.progress import progress_bar
from cortex_replay.config import Settings, load_settings
from cortex_replay.disk import write_file
from cortex_replay.history.runs import UnknownRun
from cortex_replay.store.prune import read_unused, read_unused_calls

if TYPE_CHECKING:
    from cortex_replay.redact.redactor import Redactor
    from cortex_replay.view.library import Library
    from cortex_replay.view.recordings import LookedAt
    from cortex_replay.view.shapes import ChangeDocument

__all__ = ["view_command"]

_DAY_S: Final = 86_400
_STDOUT: Final = Path("-")
_WORTH_A_BAR: Final = 200


@command(
    "view",
    epilog="""Examples:

  cortex-replay view                               print an address to open in a browser
  cortex-replay view --open                        and open it
  cortex-replay view --run latest                  only what the latest run recorded
  cortex-replay view --run 'tests/test_agent.py::*' --export agent.html
  cortex-replay view --base main                   and what changed since main, behaviour first
  cortex-replay view --report report.json          and what a run reported; what it did not use is marked
  cortex-replay view --export - > page.html        the same page as one file

The page is served to this machine alone, and the address holds a token without which it is not. It shows what
INDEX.toml vouches for, and follows the store: load the page again to see what was recorded since.

Exit status:
  0  you stopped it, or the file is written
  1  the store, the commit or the port could not be had, or the file could not be written
  2  wrong usage, or the file would be too large
  3  no run and no test has this name
  5  the index of the store cannot be trusted
""",
)
@store_option
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Only this run, or this test. Repeatable.")
@click.option("--base", metavar="REF", help="Also show what changed since this commit, as diff does.")
@click.option("--head", metavar="REF", help="With --base: up to this commit.  [default: the working tree]")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Also show a report: of record, replay or pytest, or what sweep --json or refresh --json printed.",
)
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write the page to this one file instead, or to standard output (-).",
)
@click.option("--all", "is_unlimited", is_flag=True, help="With --export: however large the file becomes.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where to listen.  [default: a free one]"
)
@click.option("--open/--no-open", "opens", default=False, help="Open the page in your browser.")
@json_option
@click.pass_context
def view_command(
    ctx: click.Context,
    /,
    store: Path | None,
    runs: tuple[str, ...],
    base: str | None,
    head: str | None,
    report: Path | None,
    target: Path | None,
    is_unlimited: bool,
    port: int,
    opens: bool,
    as_json: bool,
) -> None:
    """Look at recordings in a browser: the store, conversations, what a run did.

    The first line on standard output is the address of the page. Nothing leaves this machine, and nothing is
    written. With --export you get the same page as one file, which needs no server and no network.
    """
    _check_options(target, is_served=opens or bool(port), is_unlimited=is_unlimited, as_json=as_json)
    if head is not None and base is None:
        raise click.UsageError("--head goes with --base")
    root = store_root(ctx, store)
    sides = None if base is None else Sides.of(root, base, head)
    library = _library(root, runs, sides, report, version_of(ctx))
    try:
        with progress_bar("reading") as progress:
            found = library.read(progress)
        if sides is not None:
            library.document("change")  # what git does not know is said now
    except UnknownRun as error:
        end_without_fixture(ctx, output.escape(str(error)))
    if found.findings:
        output.talk(
            f"{output.count(found.findings, 'file')} not shown: not what INDEX.toml vouches for "
            "(cortex-replay verify says more)"
        )
    if target is not None:
        _export(library, target, is_unlimited=is_unlimited, as_json=as_json)
        return
    _serve(library, port, len(found.files), opens=opens, as_json=as_json)


def _check_options(target: Path | None, *, is_served: bool, is_unlimited: bool, as_json: bool) -> None:
    """Refuse options that would do nothing."""
    if target is None and is_unlimited:
        raise click.UsageError("--all goes with --export")
    if target is not None and is_served:
        raise click.UsageError("--export writes a file; --open and --port are for a page that is served")
    if target == _STDOUT and as_json:
        raise click.UsageError("with --export - standard output is the page; --json has no place there")


def _library(
    root: Path, runs: tuple[str, ...], sides: Sides | None, report: Path | None, version: str
) -> Library:
    # What no help needs.
    from cortex_replay.engine.money import PriceList  # noqa: PLC0415
    from cortex_replay.redact.process import teach  # noqa: PLC0415
    from cortex_replay.redact.settings import redactor_for  # noqa: PLC0415
    from cortex_replay.view.library import Library, Shelf  # noqa: PLC0415
    from cortex_replay.view.recordings import Surroundings  # noqa: PLC0415

    settings: Settings = load_settings(Path(), os.environ).settings
    redactor = redactor_for(settings, os.environ)
    teach(redactor)
    further: dict[str, Callable[[], Any]] = {}
    if sides is not None:
        further["change"] = partial(_change, root, sides, redactor)
    data = None
    if report is not None:
        data = _read_report(report)
        further["report"] = _report_maker(data, report.name, redactor)
    surroundings = Surroundings(
        redactor,
        PriceList(settings.prices, settings.currency),
        None if settings.max_age is None else settings.max_age.total_seconds() / _DAY_S,
    )
    name = output.escape(redactor.text(root.resolve().name)[0])  # which may be no text at all
    title = f"Recordings of {name or 'this machine'}"
    return Library(root, surroundings, _looked_at(runs, data), Shelf(title, version, further))


def _change(root: Path, sides: Sides, redactor: Redactor) -> ChangeDocument:
    """What changed between two sides, as it is now."""
    from cortex_replay.behaviour.report import report_changes  # noqa: PLC0415
    from cortex_replay.view.documents.change import change_document  # noqa: PLC0415

    review, findings, _ = review_between(root, sides)
    report = report_changes(review, sides.name, sides.head_name, lambda text: redactor.text(text)[0])
    return change_document(report, redactor, findings)


def _read_report(report: Path) -> bytes:
    from cortex_replay.view.documents.report import LARGEST_REPORT  # noqa: PLC0415

    with report.open("rb") as file:
        return file.read(LARGEST_REPORT + 1)


def _report_maker(data: bytes, name: str, redactor: Redactor) -> Callable[[], Any]:
    from cortex_replay.view.documents.report import report_document  # noqa: PLC0415

    made = report_document(data, name, redactor)  # what it is not is said now
    return lambda: made


def _looked_at(runs: tuple[str, ...], report: bytes | None) -> LookedAt:
    """What is wanted, and what a report says was not used, if it is of the kind that says so."""
    from cortex_replay.view.recordings import LookedAt  # noqa: PLC0415

    if report is None:
        return LookedAt(runs)
    try:
        return LookedAt(runs, read_unused([report]), read_unused_calls([report]))
    except ValueError:  # that of a sweep
        return LookedAt(runs)


def _export(library: Library, target: Path, *, is_unlimited: bool, as_json: bool) -> None:
    from cortex_replay.view.export import MOST_BYTES, TooLarge, export_page  # noqa: PLC0415

    try:
        with progress_bar("writing", worth_it=_WORTH_A_BAR) as progress:
            page = export_page(library, most=None if is_unlimited else MOST_BYTES, progress=progress)
    except TooLarge as error:
        raise click.UsageError(
            f"the page would have more than {_megabytes(MOST_BYTES)}: {error.done} of {error.total} "
            "documents fill that. Choose less with --run, or write all of it with --all"
        ) from None
    if target == _STDOUT:
        output.print_file(page)
        return
    write_file(target, page)
    if as_json:
        output.print_json({"file": str(target), "bytes": len(page)})
    else:
        output.talk(f"wrote {output.escape(str(target))}, {_megabytes(len(page))}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


def _serve(library: Library, port: int, count: int, *, opens: bool, as_json: bool) -> None:
    from cortex_replay.view.server import ViewServer  # noqa: PLC0415

    server = ViewServer(library, port=port)
    with server.stop_on_signals():
        facts = {"url": server.url, "port": server.port, "pid": os.getpid()}
        output.print_address(json.dumps(facts) if as_json else server.url)
        sys.stdout.flush()
        output.talk(f"{output.count(count, 'recording')}; Ctrl-C ends it")
        if opens:  # beside: some browsers keep their caller waiting, and the page is not served yet
            threading.Thread(target=_open, args=(server.url,), daemon=True).start()
        server.serve_here()


def _open(url: str) -> None:
    import webbrowser  # noqa: PLC0415

    if not webbrowser.open(url):
        output.talk("no browser could be opened; open the address yourself")
