#!/usr/bin/env bash
# Trains the MNIST-style CNN on Fashion-MNIST in mixed precision.
# Usage: scripts/train_mnist.sh [MNIST_CNN_OPTION...]      later options win; --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup_debian.sh dataset-fashion-mnist
cmake --preset release > /dev/null
cmake --build --preset release --target mnist_cnn
exec build/release/bin/mnist_cnn --policy mixed_float16 --epochs 3 "$@"
