#!/usr/bin/env python3
"""Training throughput of demi and of PyTorch on this machine, in one interleaved run.

    benchmarks/peers/compare_training.py --python VENV/bin/python

runs, round after round, bin/mnist_cnn under each policy and mnist_cnn_pytorch.py in each mode, and
prints the median step of each with its smallest and largest round, and the ratio to the fastest peer.
VENV is a virtual environment with PyTorch; demi itself needs none.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def demi_step_ms(program, policy, options):
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "run.json"
        subprocess.run([program, "--policy", policy, "--steps", str(options.steps), "--epochs", "1",
                        "--batch-size", str(options.batch_size), "--threads", str(options.threads),
                        "--json", str(result)], check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())["step_ms_median"]


def pytorch_step_ms(python, mode, options):
    output = subprocess.run([python, HERE / "mnist_cnn_pytorch.py", "--mode", mode,
                             "--steps", str(options.steps), "--batch-size", str(options.batch_size),
                             "--threads", str(options.threads)],
                            check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])["step_ms_median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="interpreter that has PyTorch")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/mnist_cnn"))
    parser.add_argument("--policies", default="float32,mixed_float16")
    parser.add_argument("--modes", default="float32,bfloat16", help="of PyTorch; also: compile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="also write every round to this file")
    options = parser.parse_args()

    runs = {}
    for policy in options.policies.split(","):
        runs[f"demi {policy}"] = lambda p=policy: demi_step_ms(options.program, p, options)
    for mode in options.modes.split(","):
        runs[f"pytorch {mode}"] = lambda m=mode: pytorch_step_ms(options.python, m, options)
    times = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(run())

    medians = {name: statistics.median(values) for name, values in times.items()}
    fastest_peer = min(value for name, value in medians.items() if name.startswith("pytorch"))
    print(f"training step of mnist_cnn, batch {options.batch_size}, {options.threads} threads, "
          f"{options.rounds} interleaved rounds")
    print(f"{'':24}{'ms median':>10}{'min':>9}{'max':>9}{'x fastest peer':>16}")
    for name, values in times.items():
        print(f"{name:24}{medians[name]:>10.2f}{min(values):>9.2f}{max(values):>9.2f}"
              f"{fastest_peer / medians[name]:>16.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
