#!/usr/bin/env python3
"""Shows that the tests on the emulated GPU notice what is easily forgotten in CUDA code.

In a copy of the sources, one at a time: a barrier is removed, a wait between streams or for the device is
removed, a workspace is asked for at half its size. Only the plugin of the emulated GPU is built anew, then
tests run until one fails, those of the mutated file first. Prints the failing test of each mutation; ends
with status 1 if a mutation passes all tests. Takes about half a minute for each mutation on two cores.

    scripts/mutation_test.py                     all mutations
    scripts/mutation_test.py --list              which there are
    scripts/mutation_test.py --only 'matmul|memory'
    scripts/mutation_test.py --folder ../copy    where the copy is kept (default: build/mutations)
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["test_ops", "test_kernels", "test_agreement", "test_optimizers", "test_runtime"]

# What removes the meaning of a match and keeps the program valid.
BARRIER = re.compile(r"__sync(?:threads|warp)\(\);")
BARRIER_WITH_VOTE = re.compile(r"__syncthreads_(?:and|or)\((\w+)\)")
WAIT = re.compile(
    r"DEMI_CUDA_CHECK\(cuda(?:StreamWaitEvent|StreamSynchronize|EventSynchronize)\([^;]*\)\);")
WORKSPACE = re.compile(r'(make_(?:kernel|call)\(\s*"?[^,"]*"?,\s*)([^;{}]*?)(,\s*(?:body|own|\[))')
PIECES = re.compile(r"(workspace_bytes\(\) const \{\s*return )([^;]+)(;)")

# Program and tests that are tried first for a file whose path has a part in it; then come all tests of ops,
# kernels and whole runs.
FIRST = [
    ("loss_scale", "test_ops", "*LossScale*:*Finite*"),
    ("movement", "test_ops", "*Movement*:*Transpose*:*Concat*:*Slice*"),
    ("optimizer_update", "test_ops", "*Update*:*Clip*:*Adam*:*Norm*"),
    ("optimizer_update", "test_kernels", "CudaTrainingState*"),
    ("batch_norm", "test_ops", "*BatchNorm*"),
    ("batch_norm", "test_kernels", "CudnnCalls*"),
    ("matmul", "test_ops", "*MatMul*:*Matmul*"),
    ("matmul", "test_kernels", "CudaMatmul*:CudaFusedGradients*"),
    ("cublaslt", "test_ops", "*MatMul*:*Matmul*"),
    ("conv2d", "test_ops", "*Conv2D*"),
    ("cudnn", "test_ops", "*Conv2D*"),
    ("cross_entropy", "test_ops", "*CrossEntropy*"),
    ("pooling", "test_ops", "*Pool*"),
    ("pooling", "test_kernels", "CudaFusedGradients*:CudnnCalls*"),
    ("reduction", "test_ops", "*Reduc*"),
    ("reduction", "test_kernels", "CudaReduction*:CudaRows*"),
    ("reduce.cuh", "test_ops", "*Reduc*:*Softmax*:*BatchNorm*"),
    ("softmax", "test_ops", "*Softmax*"),
    ("backend.cpp", "test_runtime", "*"),
    ("memory.cpp", "test_kernels", "CudaMemory*"),
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
        add(match, "(void)0;", "without " + " ".join(match.group(0).split()))
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


class Tree:
    """A copy of the sources, and what is built of it."""

    def __init__(self, folder):
        self.sources = folder / "tree"
        self.build_folder = self.sources / "build" / "release"

    def copy_sources(self):
        self.sources.mkdir(parents=True, exist_ok=True)
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout.split("\n")
        for name in filter(None, files):
            target = self.sources / name
            source = ROOT / name
            if not source.exists():
                continue
            if target.exists() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)

    def configure(self):
        command = ["cmake", "--preset", "release", "-DDEMI_ENABLE_CUDA=EMULATED"]
        subprocess.run(command, cwd=self.sources, check=True, stdout=subprocess.DEVNULL)

    def build(self, *targets):
        """None, or what the compiler says."""
        command = ["cmake", "--build", str(self.build_folder), "--target", *targets]
        built = subprocess.run(command, capture_output=True, text=True)
        return None if built.returncode == 0 else built.stdout + built.stderr

    def first_failure(self, program, test_filter, order):
        """The name of the test that fails, or None."""
        environment = dict(os.environ, DEMI_TEST_DEVICE="cuda-emu", GTEST_FAIL_FAST="1",
                           DEMI_EMULATOR_SEED=str(order), DEMI_EMULATOR_SHUFFLE=str(order))
        command = [str(self.build_folder / "bin" / program), f"--gtest_filter={test_filter}"]
        try:
            run = subprocess.run(command, env=environment, capture_output=True, text=True,
                                 errors="replace", timeout=300)
        except subprocess.TimeoutExpired:
            return f"{program} does not end"
        if run.returncode == 0:
            return None
        failed = re.findall(r"\[  FAILED  \] ([\w./]+)", run.stdout)
        started = re.findall(r"\[ RUN      \] ([\w./]+)", run.stdout)
        ended = f"{started[-1] if started else program} (ended the program)"
        name = failed[0] if failed else ended
        return name + (f", order {order}" if order else "")

    def killer(self, path):
        """The first test that fails with what the copy holds now, or None."""
        for program, tests, order in attempts(path):
            failure = self.first_failure(program, tests, order)
            if failure is not None:
                return failure
        return None

    def verdict(self, mutation):
        """Applies a mutation; how it was noticed, or None."""
        path = self.sources / mutation.path
        source = path.read_text()
        try:
            path.write_text(mutation.apply(source))
            problem = self.build("demi_cuda_emu")
            if problem is not None:
                print(problem, file=sys.stderr)
                return None  # which shows nothing
            return self.killer(mutation.path)
        finally:
            path.write_text(source)


def attempts(path):
    """Program, tests and order of what is run for a file, the likely ones first."""
    tries = [(program, tests, order) for stem, program, tests in FIRST if stem in path
             for order in ORDERS]
    tries += [("test_kernels", "Cuda*:TunedEngines*", order) for order in ORDERS]
    tries += [("test_agreement", "EmulatedGpu*:GpuTraining*:DeviceData*", order) for order in ORDERS]
    tries += [("test_optimizers", "*", 1), ("test_runtime", "*", 1), ("test_ops", "*", 1)]
    return tries


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutations and stop")
    parser.add_argument("--only", metavar="REGEX", default="", help="of these places only")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "mutations",
                        help="where the copy and its build are kept")
    options = parser.parse_args()
    mutations = [m for m in all_mutations() if re.search(options.only, m.what)]
    if options.list:
        print("\n".join(m.what for m in mutations))
        return 0
    if not mutations:
        print(f"mutation_test: no mutation matches '{options.only}'", file=sys.stderr)
        return 2

    tree = Tree(options.folder.resolve())
    tree.copy_sources()
    tree.configure()
    problem = tree.build("demi_cuda_emu", *PROGRAMS)
    if problem is not None:
        print(f"mutation_test: the unchanged sources do not build\n{problem}", file=sys.stderr)
        return 2
    for _, program, tests in FIRST:
        failure = tree.first_failure(program, tests, ORDERS[0])
        if failure is not None:
            print(f"mutation_test: {failure} fails with the unchanged sources", file=sys.stderr)
            return 2
    survivors = 0
    for mutation in mutations:
        start = time.monotonic()
        verdict = tree.verdict(mutation)
        survivors += verdict is None
        seconds = time.monotonic() - start
        print(f"{mutation.what}\n    {verdict or 'NOT NOTICED'} ({seconds:.0f} s)", flush=True)
    print(f"{len(mutations)} mutations, {survivors} not noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
