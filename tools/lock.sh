#!/usr/bin/env bash
# Write requirements/**/*.txt anew from pyproject.toml and the .in beside each, for every platform and Python we support.
# Pins stay unless a bound forbids them; `tools/lock.sh --upgrade` takes the newest of everything.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v uv >/dev/null || { echo "tools/lock.sh needs uv on the PATH." >&2; exit 1; }

options=("$@")

# lock LANE SOURCE...: write requirements/LANE.txt from requirements/LANE.in and the sources.
lock() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes "${options[@]}" \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --output-file "requirements/$1.txt" "requirements/$1.in" "${@:2}"
}

lock dev pyproject.toml --extra anthropic --extra batch --extra cli --extra testing --extra langgraph --extra durable --extra otel
lock demo pyproject.toml --extra cli
lock openai2 pyproject.toml --extra anthropic --extra cli --extra testing
lock instructor pyproject.toml --extra cli --extra testing --extra instructor
lock tracers pyproject.toml --extra cli --extra testing --extra otel
lock streams pyproject.toml --extra testing
lock litellm pyproject.toml --extra testing --extra litellm
lock ray pyproject.toml --extra testing --extra batch
lock prometheus pyproject.toml --extra testing --extra otel
lock llamacpp --no-deps
lock measure --no-deps
lock docs
lock release
lock uv
for peer in requirements/peers/*.in; do
    lock "peers/$(basename "$peer" .in)" pyproject.toml --extra cli
done
for environment in requirements/frameworks/*.in; do
    lock "frameworks/$(basename "$environment" .in)" pyproject.toml --extra testing
done

# The libraries that the benchmark compares us with, alone, as their users install them; and ours.
for peer in requirements/bench/*.in; do
    case $(basename "$peer" .in) in
        strictreply) lock bench/strictreply pyproject.toml --extra durable --extra langgraph ;;
        *) lock "bench/$(basename "$peer" .in)" ;;
    esac
done

# A lock names packages and hashes; where they are fetched from is the business of the machine that installs.
if grep --recursive --line-number --include='*.txt' "://" requirements; then
    echo "The lock names a place to download from; it must not." >&2
    exit 1
fi
