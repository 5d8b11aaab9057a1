#!/usr/bin/env bash
# Build the wheel, install it as a user would, in a fresh environment away from the sources, and use it there:
# bare, with the cli extra, and with the testing extra, whose fixtures pytest finds by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
smoke=$PWD/tools/smoke.py
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m build --wheel --no-isolation --outdir "$scratch" . >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; exit 1; }
wheel=$(echo "$scratch"/strictreply-*.whl)
# The wheel's own metadata names the dependencies; the lock only holds their versions still.
sed -n '/^[A-Za-z0-9]/s/ *\\$//p' requirements/dev.txt >"$scratch/constraints.txt"

"$python" -m venv "$scratch/venv"
install() {
    "$scratch/venv/bin/python" -m pip install -qq --disable-pip-version-check -c "$scratch/constraints.txt" "$@"
}

cd "$scratch"
install "$wheel"
"$scratch/venv/bin/python" -I "$smoke" core
install "$wheel[cli]"
"$scratch/venv/bin/python" -I "$smoke" cli
install "$wheel[testing]" pytest
"$scratch/venv/bin/python" -I "$smoke" testing
