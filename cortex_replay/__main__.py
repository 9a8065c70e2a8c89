"""``python -m cortex_replay``, and how git starts the merge driver: by the path of this file."""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        # Behind what is there: no module of the standard library is looked for beside this package.
        sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    elif not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        # `-m` puts the folder where the command runs first, and that may be a stranger's.
        del sys.path[0]
    from cortex_replay.cli.entry import main

    sys.exit(main())
