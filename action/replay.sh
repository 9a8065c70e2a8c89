#!/usr/bin/env bash
# Run a command with every model call answered from the store.
#
# COMMAND  one or more lines for bash
set -euo pipefail

status=0
cortex-replay replay --report "$RUNNER_TEMP/cortex-replay/report.json" -- bash -eo pipefail -c "$COMMAND" || status=$?
echo "status=$status" >> "$GITHUB_OUTPUT"
exit "$status"
