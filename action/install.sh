#!/usr/bin/env bash
# Install cortex-replay in an environment of its own: what the project has installed stays as it is.
#
# EVENT    what started the workflow
# VERSION  a release, or nothing for the checkout that this script is a part of
# EXTRAS   such as "remote"
set -euo pipefail

if [[ $EVENT == pull_request_target ]]; then
  echo "::error::This action runs what a pull request brings. With pull_request_target, that code could use your secrets: start the workflow on pull_request."
  exit 2
fi
if [[ ! $VERSION =~ ^([0-9][0-9A-Za-z.+!-]*)?$ ]]; then
  echo "::error::The input version is no version, such as 1.2.0."
  exit 2
fi
if [[ ! $EXTRAS =~ ^[a-z,]*$ ]]; then
  echo "::error::The input extras is no list, such as remote,proxy."
  exit 2
fi

place=$RUNNER_TEMP/cortex-replay
what=$GITHUB_ACTION_PATH${EXTRAS:+[$EXTRAS]}
if [[ -n $VERSION ]]; then
  what=cortex-replay${EXTRAS:+[$EXTRAS]}==$VERSION
fi
# Not in the work tree: Python would import what stands there.
cd "$RUNNER_TEMP"
"$(command -v python3 || command -v python)" -I -m venv --clear "$place/venv"
"$place/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check "$what"
# A folder with this program alone: the project's own Python and tools stay first.
mkdir -p "$place/bin"
ln -sf "$place/venv/bin/cortex-replay" "$place/bin/cortex-replay"
echo "$place/bin" >> "$GITHUB_PATH"
