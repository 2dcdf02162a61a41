#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds demi with the CUDA backend for that GPU, runs the suite on it,
# compares it with the CPU and, where built, the emulated GPU, and measures float32, TF32 and mixed
# precision. Needs nvcc, CMake, g++, make or ninja, the CUDA libraries and cuDNN, no network; libraries that
# the machine lacks come from the folder that scripts/gpu_pack.sh makes. CUDNN_ROOT says where cuDNN is if
# it is neither in the toolkit nor in a Python package.
# Usage: scripts/gpu_check.sh [RESULTS_FOLDER [PHASE...]]
# The folder is build/gpu/results by default. Phases, all of them by default: build, tests, benchmarks,
# sanitizer; where a command may take only so long they are called one by one, in that order.
set -euo pipefail
cd "$(dirname "$0")/.."

results=${1:-build/gpu/results}
shift || true
phases=("$@")
[ "${#phases[@]}" -gt 0 ] || phases=(build tests benchmarks sanitizer)
for phase in "${phases[@]}"; do
  case $phase in
    build | tests | benchmarks | sanitizer) ;;
    *)
      echo "gpu_check: expected phases build, tests, benchmarks, sanitizer. Received: '$phase'" >&2
      exit 2
      ;;
  esac
done
mkdir -p "$results"
results=$(cd "$results" && pwd)
if [ ! -e /dev/nvidiactl ]; then
  echo "gpu_check: no NVIDIA device here (/dev/nvidiactl is missing)" >&2
  exit 1
fi
if ! command -v nvcc > /dev/null; then
  echo "gpu_check: nvcc was not found; add the CUDA toolkit's bin folder to PATH" >&2
  exit 1
fi

build() {
  local capability options
  capability=$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | tr -d .) ||
    capability=native
  options=(-DCMAKE_BUILD_TYPE=Release -DDEMI_ENABLE_CUDA=ON -DDEMI_BUILD_OP_BENCHMARKS=OFF
    "-DDEMI_CUDA_ARCHITECTURES=${capability}")
  if [ -d build/gpu_pack ]; then options+=("-DCMAKE_PREFIX_PATH=$PWD/build/gpu_pack"); fi
  if command -v ninja > /dev/null; then options+=(-G Ninja); fi
  cmake -S . -B build/gpu "${options[@]}" > "$results/configure.log"
  cmake --build build/gpu --parallel "$(nproc)" > "$results/build.log" 2>&1 || {
    tail -50 "$results/build.log"
    exit 1
  }
  build/gpu/bin/demi devices | tee "$results/devices.txt"
}

failed=0
# run NAME COMMAND...: the command's output in a file; goes on after a failure.
run() {
  local name=$1
  shift
  if "$@" > "$results/$name.txt" 2>&1; then
    echo "$name: passed"
  else
    echo "$name: FAILED, see $results/$name.txt"
    tail -25 "$results/$name.txt"
    failed=1
  fi
}

tests() {
  local suite
  for suite in ops layers optimizers runtime agreement kernels training; do
    if [ -x "build/gpu/bin/test_$suite" ]; then
      run "test_$suite" "build/gpu/bin/test_$suite" --gtest_brief=1 \
        "--gtest_output=json:$results/test_$suite.json"
    fi
  done
  # cuDNN's calls, as the cross-check of our kernels for the same.
  run test_ops_by_calls_of_cudnn env DEMI_PREFER=cudnn build/gpu/bin/test_ops --gtest_brief=1 \
    '--gtest_filter=BatchNorm.*:MaxPool2D.*-MaxPool2D.FusingAReluChangesNoBit'
}

benchmarks() {
  local batch
  run mnist_cnn build/gpu/bin/mnist_cnn --device cuda:0 --policy mixed_float16 --epochs 3 \
    --json "$results/mnist_cnn_mixed_float16.json"
  for batch in 128 1024 4096; do
    run "compare_precision_$batch" build/gpu/bin/compare_precision --model mnist_cnn --device cuda:0 \
      --policies float32,mixed_float16,mixed_bfloat16 --batch-size "$batch" --epochs 3 --seeds 3 \
      --json "$results/compare_precision_$batch.json"
  done
}

sanitizer() {
  if ! command -v compute-sanitizer > /dev/null; then
    echo "compute-sanitizer: not installed, skipped"
    return
  fi
  run sanitizer_memcheck env DEMI_AUTOTUNE=0 compute-sanitizer --error-exitcode 1 \
    build/gpu/bin/test_ops --gtest_brief=1
  run sanitizer_racecheck env DEMI_AUTOTUNE=0 compute-sanitizer --tool racecheck --error-exitcode 1 \
    build/gpu/bin/test_ops --gtest_brief=1 '--gtest_filter=*Reduction*:*Softmax*:*BatchNorm*'
}

export DEMI_TEST_DEVICE=cuda:0
# Choices of engines are part of the results, and do not come from earlier runs.
export DEMI_CACHE_DIR=$results/engines
if [ -d build/gpu_pack ]; then export DEMI_DATA_DIR=$PWD/build/gpu_pack/data; fi
for phase in "${phases[@]}"; do "$phase"; done
echo "results are in $results"
exit $failed
