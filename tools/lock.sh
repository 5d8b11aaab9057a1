#!/usr/bin/env bash
# Write requirements/*.txt anew from pyproject.toml and requirements/*.in, for every platform and Python we support.
# Pins stay unless a bound forbids them; `tools/lock.sh --upgrade` takes the newest of everything.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v uv >/dev/null || { echo "tools/lock.sh needs uv on the PATH." >&2; exit 1; }

for lane in dev openai2; do
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes "$@" \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --extra cli --output-file "requirements/$lane.txt" pyproject.toml "requirements/$lane.in"
done

# A lock names packages and hashes; where they are fetched from is the business of the machine that installs.
if grep --line-number "://" requirements/*.txt; then
    echo "The lock names a place to download from; it must not." >&2
    exit 1
fi
