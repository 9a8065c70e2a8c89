"""Serve a model on a free loopback port until standard input ends, or a signal does it."""

# Not every platform has a wheel, and the wheel has no types.
# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import argparse
import sys

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a file in the format GGUF")
    parser.add_argument("--alias", required=True, help="the name to serve it under")
    parser.add_argument("--api-key", help="refuse calls that do not carry it")
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is drawn by lot; -1 for a new one a call"
    )
    arguments = parser.parse_args()

    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.model
    parameters.model_alias = {arguments.alias}
    if arguments.api_key is not None:
        parameters.api_keys = [arguments.api_key]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    # As many calls at once, so that an endless stream does not keep all others waiting.
    parameters.n_parallel = 4
    parameters.n_ctx = 4096 * parameters.n_parallel
    # Threads wait for each other by spinning: a second one makes a busy machine slower.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.sampling.temp = 0.0
    parameters.sampling.seed = arguments.seed % 2**32
    parameters.use_jinja = True
    parameters.warmup = False
    parameters.offline = True
    parameters.ui = False
    # A second call would count fewer tokens than the first.
    parameters.cache_prompt = False
    parameters.cache_ram_mib = 0

    server = xllamacpp.Server(parameters)  # returns when the model is loaded
    sys.stdout.write(f"serving at {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
