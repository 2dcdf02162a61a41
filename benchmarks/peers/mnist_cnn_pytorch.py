#!/usr/bin/env python3
"""The MNIST-style CNN in PyTorch at its best CPU settings: milliseconds of a training step as JSON.

The network, batch, optimizer and loss are those of models/mnist_cnn.cpp; the data is random, since a
step takes the same time on any. Settings: channels_last, the fused (else foreach) Adam, gradients set
to None, two threads unless --threads says otherwise; --mode picks eager float32, eager bfloat16
autocast, or torch.compile.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dense1 = nn.Linear(1600, 128)
        self.dense2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense2(F.relu(self.dense1(x.flatten(1))))


def make_optimizer(model):
    try:
        optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
        return optimizer
    except (RuntimeError, TypeError):  # releases without a fused CPU Adam
        return torch.optim.Adam(model.parameters(), 1e-3, foreach=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["float32", "bfloat16", "compile"], default="float32")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = MnistCnn().to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model)
    forward = torch.compile(model) if options.mode == "compile" else model
    images = torch.rand(options.batch_size, 1, 28, 28).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.batch_size,))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.mode == "bfloat16"):
            loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(max(10, options.steps // 5)):
        step()
    times = []
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"peer": f"pytorch {torch.__version__} {options.mode}",
                      "step_ms_median": statistics.median(times)}))


if __name__ == "__main__":
    main()
