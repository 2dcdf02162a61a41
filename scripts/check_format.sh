#!/usr/bin/env bash
# Fails, naming file and line, if a tracked source is not formatted as .clang-format says.
# Usage: scripts/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-format > /dev/null; then
  echo "check_format: clang-format was not found. On Debian: apt-get install clang-format" >&2
  exit 1
fi
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 -r clang-format "${mode[@]}"
