#!/usr/bin/env python3
"""The built-in networks in onnxruntime: milliseconds of a predicted batch as JSON.

The networks are those of training_pytorch.py, exported once per run. Settings: every graph
optimisation, as many threads within an op as --threads says and one op at a time.
"""
import os
import tempfile
import warnings

import onnxruntime
import torch

from measurement import median_ms, parse_options, print_result
from training_pytorch import MODELS


def export(model, images, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (images,), path, dynamo=True, external_data=False, verbose=False)


def main():
    options = parse_options(__doc__, MODELS, ["float32"])
    torch.manual_seed(0)
    height, width, channels = options.image
    model = MODELS[options.model](options.image).eval()
    images = torch.rand(options.batch_size, channels, height, width)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        export(model, images, path)
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: images.numpy()}
    print_result(f"onnxruntime {onnxruntime.__version__}",
                 predict_ms=median_ms(lambda: session.run(None, feed), options.steps))


if __name__ == "__main__":
    main()
