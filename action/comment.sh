#!/usr/bin/env bash
# Post the change as one comment on the pull request, or update the one that is there.
#
# MARKDOWN  the file that holds it
# PAGE_URL  where the page is kept, if it is
# STORE     tells the comments on several stores apart
set -euo pipefail

if [[ -n $PAGE_URL ]]; then
  printf '\n[Look at it](%s): the page, as an artifact of this job.\n' "$PAGE_URL" >> "$MARKDOWN"
fi
name=()
if [[ -n $STORE ]]; then
  name=(--name "$STORE")
fi
done=$(cortex-replay comment --json ${name[@]+"${name[@]}"} "$MARKDOWN")
echo "$done"
if [[ $done == *'"outcome": "refused"'* ]]; then
  echo "::notice::No comment was posted: the token of this job may only read, as always in a pull request from a fork. The summary of the job shows the change."
fi
