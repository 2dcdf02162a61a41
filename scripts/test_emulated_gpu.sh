#!/usr/bin/env bash
# Runs all that the emulated GPU runs, under AddressSanitizer and UndefinedBehaviorSanitizer, in several
# orders of streams, blocks and threads, with fresh memory full of NaN and full of zeros; a leaked CUDA
# object is an error. Takes an hour or more on two cores, so it is no part of .ci/run, where one other order
# is tried without sanitizers (the test emulated_gpu.ops_in_another_order).
# Usage: scripts/test_emulated_gpu.sh [SEED...]     default: 0 1 2
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=("$@")
[ "${#seeds[@]}" -gt 0 ] || seeds=(0 1 2)

scripts/setup_debian.sh
cmake --preset asan -B build/emulated_gpu -DDEMI_ENABLE_CUDA=EMULATED > /dev/null
if ! grep -q '^CUDNN_INCLUDE_DIR:PATH=/' build/emulated_gpu/CMakeCache.txt; then
  echo "test_emulated_gpu: the headers of CUDA and cuDNN were not found; nothing was tested" >&2
  exit 1
fi
# Only what runs below.
cmake --build build/emulated_gpu --target test_ops test_layers test_optimizers test_runtime test_kernels \
  test_agreement test_cuda_emulator
# Fibers switch stacks, which the check for returned frames cannot follow.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0
export DEMI_EMULATOR_FATAL_LEAKS=1
for seed in "${seeds[@]}"; do
  for fill in 0xFF 0x00; do
    echo "== order $seed, fresh memory $fill"
    DEMI_EMULATOR_SEED=$seed DEMI_EMULATOR_SHUFFLE=$seed DEMI_EMULATOR_FILL=$fill \
      ctest --test-dir build/emulated_gpu --output-on-failure --parallel "$(nproc)" --no-tests=error \
      -R '^(emulated_gpu|cuda_emulator)\.|EmulatedGpu|GpuTraining|^kernels\..*Cuda'
  done
done
