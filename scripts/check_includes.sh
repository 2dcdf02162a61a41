#!/usr/bin/env bash
# Checks who includes whom: the pipeline core → ir → ops → passes → plan → runtime, where each folder
# sees only what is left of it, and the walls around kernels, public headers and programs.
# Usage: scripts/check_includes.sh [ROOT]      Prints every violation; exit status 1 if there is one.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

contract='kernels/(kernel|backend)\.h'
op_list='src/ops/ops\.def'
value_headers='demi/(dtype|float16|shape|tensor|error|device|memory)\.h'
libraries='(Eigen|fmt|nlohmann|CLI|gtest|benchmark)/.*|zlib\.h|iostream|regex'
failed=0

# check FOLDER DEPTH NAMES ALLOWED FORBIDDEN: in the files of FOLDER, down to DEPTH, that match NAMES,
# "quoted" includes must match ALLOWED, and <angled> ones must not match FORBIDDEN.
check() {
  local folder=$1 depth=$2 names=$3 allowed=$4 forbidden=$5
  [ -d "$folder" ] || return 0
  local files
  mapfile -t files < <(find "$folder" -maxdepth "$depth" -type f -regextype posix-extended -regex ".*\.($names)" | sort)
  [ "${#files[@]}" -gt 0 ] || return 0
  awk -v allowed="^($allowed)\$" -v forbidden="^($forbidden)\$" '
    /^[ \t]*#[ \t]*include[ \t]*["<]/ {
      quoted = $0 ~ /include[ \t]*"/
      target = $0
      sub(/^[^"<]*["<]/, "", target)
      sub(/[">].*$/, "", target)
      if (quoted ? target !~ allowed : target ~ forbidden) {
        printf "%s:%d: may not include %s\n", FILENAME, FNR, target
        bad = 1
      }
    }
    END { exit bad }' "${files[@]}" || failed=1
}

code='h|cpp|cu|cuh'
cuda='(cuda|cudnn|cublas|nv|curand).*'
none='<none>'

core='src/core/.*'
ir="$core|src/ir/.*"
ops="$ir|src/ops/.*"
passes="$ops|$contract|src/passes/.*"
plan="$passes|src/plan/.*"
runtime="$plan|src/runtime/.*"

check src/core 9 "$code" "$core" "$cuda"
check src/io 9 "$code" "$core|src/io/.*" "$cuda"
check src/ir 9 "$code" "$ir|$op_list" "$cuda"
check src/ops 9 "$code" "$ops" "$cuda"
check src/passes 9 "$code" "$passes" "$cuda"
check src/plan 9 "$code" "$plan" "$cuda"
check src/runtime 9 "$code" "$runtime" "$cuda"
# Layers and optimizers speak demi::ops; they see the graph, never an op's definition.
check src/layers 9 "$code" "$ir|src/layers/.*" "$cuda"
check src/optimizers 9 "$code" "$ir|src/optimizers/.*" "$cuda"
check src/training 9 "$code" "src/.*|$contract" "$cuda"

# Kernels see values, the attributes of ops, and the contract.
check_kernels() {
  local folder=$1 depth=$2 own=$3 forbidden=$4 public
  [ -d "$folder" ] || return 0
  check "$folder" "$depth" "$code" "$core|$contract|$op_list|$own" "$forbidden"
  public=$(find "$folder" -maxdepth "$depth" -type f -exec grep -nHE '^#include <demi/' {} + |
    grep -vE "<($value_headers|demi/ops/[a-z0-9_/]+\.h)>" || true)
  if [ -n "$public" ]; then
    printf '%s\n' "$public" | sed 's/:#include/: may not include/'
    failed=1
  fi
}
check_kernels kernels 1 'kernels/((cpu|cuda)/)?[a-z_]*\.h' "$cuda"
check_kernels kernels/cpu 9 'kernels/cpu/.*' "$cuda"
check_kernels kernels/cuda 9 'kernels/(cuda/.*|gpu_plugin\.h)|cuda_emulator/device\.h' "$none"

# Public headers stand alone; programs and benchmarks use nothing else of demi, except that
# benchmarks/ops times single kernels and benchmarks/step_profile those of a plan.
check include 9 h "$none" "$libraries|$cuda"
check models 9 "$code" 'models/.*' "$cuda"
check tools 9 "$code" 'models/.*|tools/.*' "$cuda"
check benchmarks 1 "$code" 'benchmarks/.*|models/.*' "$cuda"
check benchmarks/models 9 "$code" 'benchmarks/.*|models/.*' "$cuda"
check benchmarks/ops 9 "$code" "benchmarks/.*|kernels/.*|$core" "$cuda"
check benchmarks/step_profile 9 "$code" 'benchmarks/.*|models/.*|src/training/.*|src/ir/work\.h|kernels/forwarding_backend\.h' "$cuda"

# Headers stay cheap to include.
check src 9 h '.*' "$libraries"
check kernels 9 h '.*' "$libraries"

exit $failed
