"""The HTTP server of llama.cpp, out of the wheel ``xllamacpp``, with the tiny model.

It speaks OpenAI's chat completions and responses and Anthropic's messages, with streams and tools.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.servers import tiny_model
from tests.servers.process import running

__all__ = ["is_available", "start_llamacpp"]

_SERVE: Final = Path(__file__).parent / "serve_llamacpp.py"


def is_available() -> bool:
    """Whether the wheel is here; not every platform has one."""
    return importlib.util.find_spec("xllamacpp") is not None


@contextmanager
def start_llamacpp(
    directory: Path,
    api_key: str | None = None,
    seed: int = 1,
    options: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """The server's base URL, until the block ends; with a key, calls without it are refused.

    Takes an empty folder of its own, for the model and the log. With the seed -1 no two calls throw the same
    dice, unless by chance. Other options are those of the script beside this file. Other words make another
    model of it, under the same name.
    """
    command: list[str | Path] = [
        sys.executable,
        _SERVE,
        tiny_model.unpack(directory, words),
        "--alias",
        tiny_model.MODEL,
        "--seed",
        str(seed),
        *options,
    ]
    if api_key is not None:
        command += ["--api-key", api_key]
    with running(command, directory / "llamacpp.log") as server:
        yield server.announced(r"serving at (http://\S+)\n")
