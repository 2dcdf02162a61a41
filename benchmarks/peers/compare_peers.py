#!/usr/bin/env python3
"""Training and prediction of demi and of other frameworks on this machine, in one interleaved run.

    benchmarks/peers/compare_peers.py --python VENV/bin/python --models mnist_cnn,mlp,resnet20,vgg8

runs, round after round, bin/throughput under each policy and every peer, and prints the median
training step and predicted batch of each with the smallest and largest round, and the ratio to the
fastest peer: the median over rounds of the ratio within a round, which the machine's other users
disturb least. A peer is FRAMEWORK:MODE or FRAMEWORK:MODE@PYTHON with an interpreter of its own:

    --peers pytorch:float32,pytorch:compile,keras:graph,onnxruntime:float32,pytorch:float32@/usr/bin/python3

VENV is a virtual environment with the frameworks; demi itself needs none.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = {"pytorch": "training_pytorch.py", "keras": "training_keras.py",
            "onnxruntime": "prediction_onnxruntime.py"}
WHAT = {"step_ms_median": "training step", "predict_ms_median": "prediction"}
# Freed memory is kept by the process instead of being given back and faulted in again each step.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296",
          "MALLOC_TOP_PAD_": "67108864"}


def fail(message):
    sys.exit(f"compare_peers: {message}")


def run_demi(model, policy, batch_size, options):
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "run.json"
        subprocess.run([options.program, "--model", model, "--policy", policy,
                        "--image", options.image, "--batch-sizes", str(batch_size),
                        "--images", str(options.steps * batch_size),
                        "--threads", str(options.threads), "--json", str(result)],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())[0]


def run_peer(peer, model, batch_size, options):
    name, _, python = peer.partition("@")
    framework, _, mode = name.partition(":")
    run = subprocess.run([python or options.python, HERE / PROGRAMS[framework], "--model", model,
                          "--mode", mode, "--image", options.image, "--steps", str(options.steps),
                          "--batch-size", str(batch_size), "--threads", str(options.threads)],
                         env={**os.environ, **MALLOC, "OMP_NUM_THREADS": str(options.threads)},
                         capture_output=True, text=True)
    if run.returncode != 0:
        fail(f"{peer} failed: {run.stderr.strip().splitlines()[-1]}")
    return json.loads(run.stdout.splitlines()[-1])


def ratios_to_fastest_peer(times, peers):
    """By name, fastest peer ÷ this, in every round."""
    fastest = min((statistics.median(times[peer]), peer) for peer in peers if peer in times)[1]
    return {name: [peer / own for peer, own in zip(times[fastest], values)]
            for name, values in times.items()}


def print_table(title, times, peers):
    ratios = ratios_to_fastest_peer(times, peers)
    print(f"{title}\n{'':34}{'ms median':>10}{'min':>9}{'max':>9}{'x fastest peer':>16}{'min':>7}"
          f"{'max':>7}")
    for name, values in times.items():
        print(f"{name:34}{statistics.median(values):>10.2f}{min(values):>9.2f}{max(values):>9.2f}"
              f"{statistics.median(ratios[name]):>16.2f}{min(ratios[name]):>7.2f}"
              f"{max(ratios[name]):>7.2f}")
    print(flush=True)


def compare(model, batch_size, options):
    runs = {}
    for policy in options.policies:
        runs[f"demi {policy}"] = lambda p=policy: run_demi(model, p, batch_size, options)
    for peer in options.peers:
        runs[peer] = lambda p=peer: run_peer(p, model, batch_size, options)
    results = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            results[name].append(run())
    times = {}
    versions = {name: rounds[0]["peer"] for name, rounds in results.items() if "peer" in rounds[0]}
    for key, what in WHAT.items():
        times[key] = {name: [result[key] for result in rounds]
                      for name, rounds in results.items() if key in rounds[0]}
        print_table(f"{model}, {what}, images {options.image}, batch {batch_size}, "
                    f"{options.threads} threads, {options.rounds} interleaved rounds", times[key],
                    options.peers)
    return {"model": model, "image": options.image, "batch_size": batch_size,
            "threads": options.threads, "peers": versions, **times}


def read_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="interpreter of the peers")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/throughput"))
    parser.add_argument("--models", default="mnist_cnn")
    parser.add_argument("--batch-sizes", default="128")
    parser.add_argument("--image", default="28,28,1", help="height, width and channels")
    parser.add_argument("--policies", default="float32,mixed_float16")
    parser.add_argument("--peers", default="pytorch:float32,pytorch:bfloat16,keras:graph",
                        help="pytorch:float32|bfloat16|compile, keras:graph|jit, "
                             "onnxruntime:float32 (prediction)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="also write every round to this file")
    options = parser.parse_args()
    options.policies = options.policies.split(",")
    options.peers = options.peers.split(",")
    for peer in options.peers:
        if peer.partition(":")[0] not in PROGRAMS:
            fail(f"expected a peer that is one of {', '.join(PROGRAMS)}, and its mode. "
                 f"Received: '{peer}'.")
    if not pathlib.Path(options.program).is_file():
        fail(f"expected demi's benchmark program. Received: none at {options.program}; build it or "
             "name it with --program.")
    if all(peer.startswith("onnxruntime") for peer in options.peers):
        fail("expected a peer that trains too, not only onnxruntime.")
    return options


def main():
    options = read_options()
    comparisons = [compare(model, int(batch_size), options)
                   for model in options.models.split(",")
                   for batch_size in options.batch_sizes.split(",")]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(comparisons, indent=1) + "\n")


if __name__ == "__main__":
    main()
