#!/usr/bin/env python3
"""Training and prediction of demi and of PyTorch on this machine, in one interleaved run.

    benchmarks/peers/compare_training.py --python VENV/bin/python --models mnist_cnn,mlp,resnet20

runs, round after round, bin/throughput under each policy and training_pytorch.py in each mode, and
prints the median training step and predicted batch of each with the smallest and largest round, and
the ratio to the fastest peer. VENV is a virtual environment with PyTorch; demi itself needs none.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WHAT = {"step_ms_median": "training step", "predict_ms_median": "prediction"}


def run_demi(model, policy, batch_size, options):
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "run.json"
        subprocess.run([options.program, "--model", model, "--policy", policy,
                        "--image", options.image, "--batch-sizes", str(batch_size),
                        "--images", str(options.steps * batch_size),
                        "--threads", str(options.threads), "--json", str(result)],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())[0]


def run_pytorch(model, mode, batch_size, options):
    output = subprocess.run([options.python, HERE / "training_pytorch.py", "--model", model,
                             "--mode", mode, "--image", options.image,
                             "--steps", str(options.steps), "--batch-size", str(batch_size),
                             "--threads", str(options.threads)],
                            check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def print_table(title, times):
    medians = {name: statistics.median(values) for name, values in times.items()}
    fastest_peer = min(value for name, value in medians.items() if name.startswith("pytorch"))
    print(f"{title}\n{'':24}{'ms median':>10}{'min':>9}{'max':>9}{'x fastest peer':>16}")
    for name, values in times.items():
        print(f"{name:24}{medians[name]:>10.2f}{min(values):>9.2f}{max(values):>9.2f}"
              f"{fastest_peer / medians[name]:>16.2f}")


def compare(model, batch_size, options):
    runs = {}
    for policy in options.policies.split(","):
        runs[f"demi {policy}"] = lambda p=policy: run_demi(model, p, batch_size, options)
    for mode in options.modes.split(","):
        runs[f"pytorch {mode}"] = lambda m=mode: run_pytorch(model, m, batch_size, options)
    results = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            results[name].append(run())
    times = {}
    for key, what in WHAT.items():
        times[key] = {name: [result[key] for result in rounds] for name, rounds in results.items()}
        print_table(f"{model}, {what}, images {options.image}, batch {batch_size}, "
                    f"{options.threads} threads, {options.rounds} interleaved rounds", times[key])
    return {"model": model, "batch_size": batch_size, **times}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="interpreter that has PyTorch")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/throughput"))
    parser.add_argument("--models", default="mnist_cnn")
    parser.add_argument("--batch-sizes", default="128")
    parser.add_argument("--image", default="28,28,1", help="height, width and channels")
    parser.add_argument("--policies", default="float32,mixed_float16")
    parser.add_argument("--modes", default="float32,bfloat16", help="of PyTorch; also: compile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="also write every round to this file")
    options = parser.parse_args()

    comparisons = [compare(model, int(batch_size), options)
                   for model in options.models.split(",")
                   for batch_size in options.batch_sizes.split(",")]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(comparisons, indent=1) + "\n")


if __name__ == "__main__":
    main()
