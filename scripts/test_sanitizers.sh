#!/usr/bin/env bash
# Builds demi with AddressSanitizer and UndefinedBehaviorSanitizer and runs every test; the last lines
# are ctest's summary.
# Usage: scripts/test_sanitizers.sh [CTEST_OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup_debian.sh
cmake --preset asan > /dev/null
cmake --build --preset asan
ctest --preset asan --parallel "$(nproc)" "$@"
