#!/usr/bin/env bash
# Builds demi and runs every test; the last lines are ctest's summary.
# Usage: scripts/test.sh [CTEST_OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup_debian.sh
cmake --preset release > /dev/null
cmake --build --preset release
ctest --preset release --parallel "$(nproc)" "$@"
