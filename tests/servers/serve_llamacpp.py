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
    parser.add_argument("--cache-slots", type=int, help="read prompts from a cache, with so many slots")
    parser.add_argument("--unified", action="store_true", help="let the slots share their memory")
    parser.add_argument("--cache-ram", type=int, default=0, help="MiB for prompts that no slot holds")
    arguments = parser.parse_args()

    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.model
    parameters.model_alias = {arguments.alias}
    if arguments.api_key is not None:
        parameters.api_keys = [arguments.api_key]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    # As many calls at once, so that an endless stream does not keep all others waiting.
    parameters.n_parallel = arguments.cache_slots or 4
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
    # With a cache a second call counts fewer tokens than the first.
    parameters.cache_prompt = arguments.cache_slots is not None
    parameters.cache_ram_mib = arguments.cache_ram
    parameters.kv_unified = arguments.unified

    server = xllamacpp.Server(parameters)  # returns when the model is loaded
    sys.stdout.write(f"serving at {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
