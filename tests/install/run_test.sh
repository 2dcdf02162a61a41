#!/usr/bin/env bash
# Installs a build of demi into a fresh prefix, builds the project beside this script against that
# prefix alone, runs it and compares what it prints.
# Usage: run_test.sh BUILD_TREE CXX_COMPILER [CXX_FLAGS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$1" --prefix "$work/prefix" > "$work/install.log"
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$2" \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="${3:-}"
cmake --build "$work/build"
"$work/build/uses_demi" | diff "$here/expected.txt" -
