#!/usr/bin/env bash
# Make the virtual environment $1 anew: what the lock file $2 pins, by hash, and this project, editable, where the lock
# holds what builds it (llama.cpp's environment only serves). Where $2 is no lock but an .in file, it holds the newest
# that fits together with this project and its extras $3.
# uv does it: the one on the PATH, or the one that `.venv-uv` holds. Where neither works, venv and pip do it with the
# first Python that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
lock=$2
extras=${3:-}
uv=$(command -v uv || true)

if [[ $venv == .venv-uv && -n $uv ]]; then
    mkdir -p "$venv"
    touch "$venv/.ready"
    exit
fi
if [[ -z $uv && $venv != .venv-uv && -x .venv-uv/bin/uv ]]; then
    uv=$PWD/.venv-uv/bin/uv
fi

find_python() {
    local name needs="import sys; assert sys.version_info >= (3, 11)"
    [[ -n $uv ]] || needs+="; import ensurepip, venv"
    for name in python3.11 python3.12 python3.13 python3.14 python3; do
        if "$name" -c "$needs" 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "strictreply needs Python 3.11 or newer (with its venv module) on the PATH; none was found." >&2
    return 1
}

# install COMMAND...: install the lock and the project with this beginning of a command.
# Locks are complete, so that no dependency needs to be looked up.
install() {
    if [[ $lock == *.in ]]; then
        "$@" --upgrade -r "$lock" --editable ".[$extras]"
        return
    fi
    "$@" --no-deps --require-hashes -r "$lock" || return
    if grep --quiet '^hatchling==' "$lock"; then
        "$@" --no-deps --no-build-isolation --editable .
    fi
}

with_uv() {
    # uv does not read pip's configuration; where only that leads to an index, uv fails and pip does the work.
    local UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-}}
    if [[ -n $UV_DEFAULT_INDEX ]]; then export UV_DEFAULT_INDEX; else unset UV_DEFAULT_INDEX; fi
    "$uv" venv --quiet --clear --python "$python" "$venv" || return
    install "$uv" pip install --quiet --python "$venv/bin/python"
}

with_pip() {
    "$python" -m venv --clear "$venv" || return
    install "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-compile
}

# In a terminal the seconds are counted, so that nobody thinks that it hangs.
count_seconds() {
    while sleep 1; do
        printf '\r%s (%d s)' "$1" "$SECONDS" >&2
    done
}

python=${PYTHON:-$(find_python)}
packages=$(grep --count '^[A-Za-z0-9]' "$lock")
words="Setting up $venv: $packages packages, $("$python" --version) ..."
if [[ -t 2 ]]; then
    printf '%s' "$words" >&2
    count_seconds "$words" &
    trap 'kill $! 2>/dev/null || true; echo >&2' EXIT
else
    echo "$words" >&2
fi
if [[ -z $uv ]] || ! with_uv; then
    # what uv finds no way to install together, pip would look for in vain
    [[ -z $uv || $lock != *.in ]] || exit 1
    if ! with_pip; then
        [[ $venv == .venv-uv ]] || exit 1
        echo "uv cannot be installed here; venv and pip make the environments, which takes longer." >&2
    fi
fi
touch "$venv/.ready"
