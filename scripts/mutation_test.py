#!/usr/bin/env python3
"""Shows that the tests on the emulated GPU notice what is easily forgotten in CUDA code.

In a copy of the sources, one at a time: a barrier is removed, a wait between streams or for the device is
removed, a workspace is asked for at half its size. The plugin of the emulated GPU is built anew and its
tests run until one fails. Prints the failing test of each mutation; ends with status 1 if a mutation
passes all tests. Takes about a minute for each mutation on two cores.

    scripts/mutation_test.py                     all mutations
    scripts/mutation_test.py --list              which there are
    scripts/mutation_test.py --only 'matmul|memory'
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "mutations" / "tree"
BUILD = COPY / "build" / "release"

# What removes the meaning of a match and keeps the program valid.
BARRIER = re.compile(r"__sync(?:threads|warp)\(\);")
BARRIER_WITH_VOTE = re.compile(r"__syncthreads_(?:and|or)\((\w+)\)")
WAIT = re.compile(
    r"DEMI_CUDA_CHECK\(cuda(?:StreamWaitEvent|StreamSynchronize|EventSynchronize)\([^;]*\)\);")
WORKSPACE = re.compile(r'(make_kernel\(\s*"?[^,"]*"?,\s*)([^;{}]*?)(,\s*(?:body|\[))')
PIECES = re.compile(r"(workspace_bytes\(\) const \{\s*return )([^;]+)(;)")

# Tests that are tried first for a file; then come all tests of ops, kernels and whole runs.
FIRST = [
    ("loss_scale", "*LossScale*:*Finite*"),
    ("movement", "*Movement*:*Transpose*:*Concat*:*Slice*"),
    ("optimizer_update", "*Update*:*Clip*:*Adam*:*Norm*"),
    ("batch_norm", "*BatchNorm*"),
    ("matmul", "*MatMul*:*Matmul*"),
    ("cublaslt", "*MatMul*:*Matmul*"),
    ("conv2d", "*Conv2D*"),
    ("cudnn", "*Conv2D*"),
    ("cross_entropy", "*CrossEntropy*"),
    ("pooling", "*Pool*"),
    ("reduction", "*Reduc*"),
    ("reduce.cuh", "*Reduc*:*Softmax*:*BatchNorm*"),
    ("softmax", "*Softmax*"),
]
ORDERS = [0, 1, 2]


class Mutation:
    def __init__(self, path, start, end, text, what):
        self.path, self.start, self.end, self.text, self.what = path, start, end, text, what

    def apply(self, source):
        return source[: self.start] + self.text + source[self.end :]


def line_of(source, position):
    return source.count("\n", 0, position) + 1


def mutations_of(path):
    source = (ROOT / path).read_text()
    found = []

    def add(match, text, what):
        line = line_of(source, match.start())
        name = f"{path}:{line}: {what}"
        found.append(Mutation(path, match.start(), match.end(), text, name))

    for match in BARRIER.finditer(source):
        add(match, ";", f"without {match.group(0)}")
    for match in BARRIER_WITH_VOTE.finditer(source):
        add(match, f"({match.group(1)})", f"without {match.group(0)}")
    for match in WAIT.finditer(source):
        add(match, ";", "without " + " ".join(match.group(0).split()))
    for pattern in (WORKSPACE, PIECES):
        for match in pattern.finditer(source):
            if match.group(2) == "0":
                continue
            halved = f"{match.group(1)}({match.group(2)}) / 2{match.group(3)}"
            add(match, halved, "half of the workspace " + " ".join(match.group(2).split()))
    return found


def all_mutations():
    files = subprocess.run(["git", "ls-files", "kernels/cuda"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    # device_compat.cuh declares the barriers; autotuning runs on real GPUs only.
    skipped = ("device_compat.cuh", "timing.h", "autotune.cpp")
    sources = [f for f in files
               if f.endswith((".cu", ".cuh", ".cpp", ".h")) and not f.endswith(skipped)]
    return [mutation for path in sources for mutation in mutations_of(path)]


def copy_sources():
    COPY.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split("\n")
    for name in filter(None, files):
        target = COPY / name
        source = ROOT / name
        if not source.exists():
            continue
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def build(*targets, configure=False):
    if configure:
        command = ["cmake", "--preset", "release", "-DDEMI_ENABLE_CUDA=EMULATED"]
        subprocess.run(command, cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    command = ["cmake", "--build", str(BUILD), "--target", *targets]
    return subprocess.run(command, capture_output=True, text=True)


def first_failure(program, test_filter, order):
    """The name of the test that fails, or None."""
    environment = dict(os.environ, DEMI_TEST_DEVICE="cuda-emu", DEMI_EMULATOR_SEED=str(order),
                       DEMI_EMULATOR_SHUFFLE=str(order), GTEST_FAIL_FAST="1")
    command = [str(BUILD / "bin" / program), f"--gtest_filter={test_filter}"]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return f"{program} does not end"
    if run.returncode == 0:
        return None
    failed = re.findall(r"\[  FAILED  \] ([\w./]+)", run.stdout)
    started = re.findall(r"\[ RUN      \] ([\w./]+)", run.stdout)
    name = failed[0] if failed else f"{started[-1] if started else program} (ended the program)"
    return name + (f", order {order}" if order else "")


def killer(path):
    """The first test that fails with what the copy holds now, or None."""
    filters = [tests for stem, tests in FIRST if stem in path]
    attempts = [("test_ops", tests, order) for tests in filters for order in ORDERS]
    attempts += [("test_kernels", tests, order) for tests in filters for order in ORDERS[:2]]
    attempts += [("test_agreement", "EmulatedGpu*", order) for order in ORDERS]
    attempts += [("test_optimizers", "*", 1), ("test_ops", "*", 1), ("test_kernels", "*Cuda*", 1)]
    for program, tests, order in attempts:
        failure = first_failure(program, tests, order)
        if failure is not None:
            return failure
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutations and stop")
    parser.add_argument("--only", metavar="REGEX", default="", help="of these places only")
    options = parser.parse_args()
    mutations = [m for m in all_mutations() if re.search(options.only, m.what)]
    if options.list:
        print("\n".join(m.what for m in mutations))
        return 0
    if not mutations:
        print(f"mutation_test: no mutation matches '{options.only}'", file=sys.stderr)
        return 2

    copy_sources()
    programs = ["test_ops", "test_kernels", "test_agreement", "test_optimizers"]
    if build("demi_cuda_emu", *programs, configure=True).returncode != 0:
        print("mutation_test: the unchanged sources do not build", file=sys.stderr)
        return 2
    survivors = 0
    for mutation in mutations:
        source = (COPY / mutation.path).read_text()
        try:
            (COPY / mutation.path).write_text(mutation.apply(source))
            if build("demi_cuda_emu").returncode != 0:
                verdict = "does not compile"
            else:
                verdict = killer(mutation.path)
        finally:
            (COPY / mutation.path).write_text(source)
        survivors += verdict is None
        print(f"{mutation.what}\n    {verdict or 'NOT NOTICED'}", flush=True)
    print(f"{len(mutations)} mutations, {survivors} not noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
