#!/usr/bin/env bash
# Trains the MNIST-style CNN on Fashion-MNIST in mixed precision.
# Usage: scripts/train_mnist.sh [MNIST_CNN_OPTION...]      later options win; --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup_debian.sh dataset-fashion-mnist
cmake --preset release > /dev/null
targets=(mnist_cnn)
# The GPU backend is a library of its own; building it takes minutes that only a GPU pays back.
if [ -e /dev/nvidiactl ] && grep -q '^CMAKE_CUDA_COMPILER:' build/release/CMakeCache.txt; then
  targets+=(demi_cuda)
fi
cmake --build --preset release --target "${targets[@]}"
exec build/release/bin/mnist_cnn --policy mixed_float16 --epochs 3 "$@"
