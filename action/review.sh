#!/usr/bin/env bash
# Compare the recordings with those of another commit: for the summary of the job, a comment, and a page.
#
# NAMED_BASE  the commit or branch to compare with, if the user named one
# EVENT_BASE  where the pull request started, as the event says
# FAIL_ON     the tier from which on a change fails
# TOKEN       to fetch that commit with, if it is not there
set -euo pipefail

place=$RUNNER_TEMP/cortex-replay
mkdir -p "$place"
base=$NAMED_BASE
if [[ $base == -* ]]; then
  echo "::error::The input base is no commit: $base"
  exit 2
fi

# A job of a pull request checks out a merge that GitHub made: its first parent is what the request is merged into
# right now, which may be newer than what the event says. Another commit was the user's choice.
if [[ -z $base && -n $EVENT_BASE ]]; then
  base=$EVENT_BASE
  parents=$(git cat-file commit HEAD | sed -n '/^$/q; s/^parent //p')
  if [[ $parents == *$'\n'* && $(git rev-parse HEAD) == "$GITHUB_SHA" ]]; then
    base=${parents%%$'\n'*}
  fi
fi

fetch() {
  GIT_TERMINAL_PROMPT=0 git fetch --quiet --no-tags --depth=1 origin "$base"
}

# For a checkout that did not keep its credentials. A variable, since others can see the arguments of a program.
fetch_with_token() {
  local basic
  basic=$(printf 'x-access-token:%s' "$TOKEN" | base64 | tr -d '\n')
  GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.$GITHUB_SERVER_URL/.extraheader \
    GIT_CONFIG_VALUE_0="authorization: basic $basic" fetch
}

if [[ -n $base ]] && ! git cat-file -e "$base^{commit}" 2> /dev/null; then
  if ! fetch 2> /dev/null && ! fetch_with_token; then
    echo "::error::The commit to compare with ($base) is not in this checkout, and could not be fetched."
    exit 1
  fi
  base=$(git rev-parse FETCH_HEAD)
fi

report=()
if [[ -f $place/report.json ]]; then
  report=(--report "$place/report.json")
fi
if [[ -z $base ]]; then
  echo "There is nothing to compare with: this job is for no pull request, and the input base is empty."
  cortex-replay view ${report[@]+"${report[@]}"} --export "$place/page.html"
  echo "page=$place/page.html" >> "$GITHUB_OUTPUT"
  exit 0
fi

# With 5, a side is not what its index says. Of ours, `verify` has said so; another's is no fault of this change.
compare() {
  local status=0
  cortex-replay diff "$@" "$base" || status=$?
  if [[ $status != 5 ]]; then
    return "$status"
  fi
}

compare --format markdown --output "$place/diff.md"
verdict=0
compare --format json --output "$place/diff.json" ${FAIL_ON:+--fail-on "$FAIL_ON"} || verdict=$?
tier=$("$place/venv/bin/python" -I -c 'import json, sys; print(json.load(open(sys.argv[1], "rb"))["tier"])' "$place/diff.json")
{
  echo "tier=$tier"
  echo "markdown=$place/diff.md"
} >> "$GITHUB_OUTPUT"
cat "$place/diff.md" >> "$GITHUB_STEP_SUMMARY"
# With the store and the run; of a store that is too large for one file, or cannot be trusted, the change alone.
cortex-replay view --base "$base" ${report[@]+"${report[@]}"} --export "$place/page.html" \
  || compare --format html --output "$place/page.html"
echo "page=$place/page.html" >> "$GITHUB_OUTPUT"
exit "$verdict"
