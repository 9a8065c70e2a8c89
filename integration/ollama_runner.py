"""What Ollama takes for ``llama-server``: its command line, before the server of ``xllamacpp``.

Only the options that matter for the tiny model are understood, the others are passed over.
"""

# Not every platform has a wheel, and the wheel has no types.
# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import argparse
import os
import sys
import time

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("-c", dest="context", type=int, default=4096)
    parser.add_argument("-np", dest="parallel", type=int, default=1)
    parser.add_argument("-b", dest="batch", type=int, default=512)
    parser.add_argument("-ub", dest="micro_batch", type=int, default=512)
    parser.add_argument("-t", dest="threads", type=int, default=1)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--context-shift", action="store_true")
    parser.add_argument("--embedding", action="store_true")
    parser.add_argument("--no-jinja", action="store_true")
    parser.add_argument("--chat-template")
    arguments, _ = parser.parse_known_args()
    if arguments.model is None:  # asked for its version or its devices
        sys.stderr.write("version: xllamacpp\n")
        return
    server = xllamacpp.Server(_parameters(arguments))
    _wait_for_the_end_of(os.getppid())
    del server


def _parameters(arguments: argparse.Namespace) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.model
    parameters.hostnames = [arguments.host]
    parameters.port = arguments.port
    parameters.n_ctx = arguments.context
    parameters.n_parallel = arguments.parallel
    parameters.n_batch = arguments.batch
    parameters.n_ubatch = arguments.micro_batch
    parameters.cpuparams.n_threads = arguments.threads
    parameters.cpuparams_batch.n_threads = arguments.threads
    parameters.n_keep = arguments.keep
    parameters.ctx_shift = arguments.context_shift
    parameters.embedding = arguments.embedding
    parameters.use_jinja = not arguments.no_jinja
    if arguments.chat_template is not None:
        parameters.chat_template = arguments.chat_template
    parameters.warmup = False
    parameters.offline = True
    parameters.ui = False
    parameters.verbosity = 4  # Ollama reads the log
    return parameters


def _wait_for_the_end_of(parent: int) -> None:
    """Ollama ends its runners by a signal, unless it was killed itself."""
    while os.getppid() == parent:
        time.sleep(0.5)


if __name__ == "__main__":
    main()
