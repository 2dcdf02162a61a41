"""What the peers' programs share: their options, and the median time of a step."""
import argparse
import json
import statistics
import time


def parse_options(description, models, modes):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=models, default="mnist_cnn")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--image", default="28,28,1", help="height, width and channels")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    options.image = [int(extent) for extent in options.image.split(",")]
    return options


def median_ms(run, repetitions):
    for _ in range(max(5, repetitions // 5)):
        run()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def print_result(peer, train_ms=None, predict_ms=None):
    """One line of JSON; a time that a peer does not have is left out."""
    result = {"peer": peer, "step_ms_median": train_ms, "predict_ms_median": predict_ms}
    print(json.dumps({key: value for key, value in result.items() if value is not None}))
