"""``python -m cortex_replay``."""

from cortex_replay.cli.main import main

if __name__ == "__main__":
    main(prog_name="cortex-replay")
