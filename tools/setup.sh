#!/usr/bin/env bash
# Make the virtual environment $1 anew: what the lock file $2 pins, by hash, and this project, editable, where the lock
# holds what builds it (llama.cpp's environment only serves).
# uv does it when it is on the PATH, else venv and pip of the first Python that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
lock=$2

find_python() {
    local name needs="import sys; assert sys.version_info >= (3, 11)"
    command -v uv >/dev/null || needs+="; import ensurepip, venv"
    for name in python3.11 python3.12 python3.13 python3.14 python3; do
        if "$name" -c "$needs" 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "strictreply needs Python 3.11 or newer (with its venv module) on the PATH; none was found." >&2
    return 1
}

python=${PYTHON:-$(find_python)}
echo "Setting up $venv from $lock with $("$python" --version) ..." >&2
if command -v uv >/dev/null; then
    uv venv --quiet --clear --python "$python" "$venv"
    install=(uv pip install --quiet --python "$venv/bin/python")
else
    "$python" -m venv --clear "$venv"
    install=("$venv/bin/python" -m pip install -qq --disable-pip-version-check)
fi
"${install[@]}" --require-hashes -r "$lock"
if grep --quiet '^hatchling==' "$lock"; then
    "${install[@]}" --no-deps --no-build-isolation --editable .
fi
touch "$venv/.ready"
