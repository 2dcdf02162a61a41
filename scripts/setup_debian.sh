#!/usr/bin/env bash
# Installs what building demi needs and this machine lacks, on Debian and Ubuntu. Says nothing when
# all is there.
# Usage: scripts/setup_debian.sh [MORE_PACKAGE...]
set -euo pipefail

packages=(
  g++ cmake ninja-build
  libeigen3-dev libfmt-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler zlib1g-dev libcli11-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  "$@"
)

if ! command -v apt-get > /dev/null; then
  echo "setup: no apt-get here; see third_party/README.md for the libraries demi needs" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "setup: please run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
  apt-get install -qq --no-install-recommends "${missing[@]}")
# The package lists of a fresh image are empty or old.
"${as_root[@]}" apt-get update -qq > /dev/null
"${install[@]}" > /dev/null
