#!/usr/bin/env bash
# The first command of README.md, copied literally into a fresh clone, ends in a table and figures;
# then a wheel of the same clone does the main job from an empty folder, in an environment of its own.
# Takes a minute or two and a package index. Usage: tests/acceptance/fresh_clone.sh
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone -q "$checkout" "$work/clone"
cd "$work/clone"
first=$(grep -m 1 -e '-m venv .*tiermem compare --out' README.md)
echo "+ $first"
bash -euo pipefail -c "$first"
test "$(find out -name '*.png' | wc -l)" -ge 4
test -s out/results.json

.venv/bin/pip wheel -q --no-deps -w "$work/dist" .
mkdir "$work/empty"
cd "$work/empty"
python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "$work"/dist/tiermem-*.whl
"$work/venv/bin/tiermem" compare --out out > /dev/null
test "$(find out -name '*.png' | wc -l)" -ge 4
cmp out/results.json "$work/clone/out/results.json"
echo "fresh clone and installed wheel: both run the main job, with the same results"
