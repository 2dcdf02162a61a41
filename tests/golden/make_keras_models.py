#!/usr/bin/env python3
"""Writes keras_functional.json and keras_sequential.json: small models as real Keras describes them.

Each file holds "model", the text of Model.to_json() as an object, and what Keras says of it: "layers"
with name, output shape and number of parameters, "params" and "non_trainable_params". Beside the
functional model, keras_functional_weights.safetensors holds its variables by path and
keras_functional_values.safetensors inputs ("input0", …) and what the model makes of them ("output0",
…).

Made with Keras 3.15.1: python3 -m venv v && v/bin/pip install keras jax safetensors &&
KERAS_BACKEND=jax v/bin/python tests/golden/make_keras_models.py
"""

import json
import pathlib

import keras
import numpy as np
import safetensors.numpy
from keras import layers


def functional():
    image = keras.Input((16, 12, 3), name="image")
    extra = keras.Input((5,), name="extra")
    x = layers.Conv2D(8, 3, padding="same", use_bias=False, kernel_initializer="he_normal")(image)
    x = layers.BatchNormalization(momentum=0.9)(x)
    x = layers.ReLU(max_value=6.0)(x)
    shortcut = x
    x = layers.Conv2D(8, (3, 5), padding="same", dilation_rate=(2, 1), groups=2, activation="gelu",
                      kernel_regularizer=keras.regularizers.L2(1e-4))(x)
    x = layers.Add()([x, shortcut])
    x = layers.MaxPooling2D(pool_size=(2, 3), strides=2, padding="same")(x)
    x = layers.AveragePooling2D(pool_size=2)(x)
    pooled = layers.GlobalAveragePooling2D()(x)
    flat = layers.Dropout(0.25, seed=3)(layers.Flatten()(x))
    shared = layers.Dense(5, activation="tanh", name="shared",
                          kernel_initializer=keras.initializers.RandomNormal(stddev=0.02, seed=7))
    joined = layers.Concatenate()([shared(extra), shared(shared(extra)), pooled, flat])
    classes = layers.Dense(4)(joined)
    classes = layers.Softmax(dtype="float32", name="classes")(classes)
    grid = layers.Activation("sigmoid")(layers.Reshape((4, -1))(layers.Dense(8)(joined)))
    return keras.Model([image, extra], [classes, grid], name="two_heads")


def sequential():
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, (3, 3), activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, (3, 3), strides=2, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(128, activation="relu", bias_regularizer="l1"),
            layers.Dense(10, activation="softmax"),
        ],
        name="cnn",
    )


def describe(model):
    return {
        "keras": keras.__version__,
        "layers": [
            {"name": layer.name, "output_shape": layer.output.shape, "params": layer.count_params()}
            for layer in model.layers
            if not isinstance(layer, layers.InputLayer)
        ],
        "params": model.count_params(),
        "non_trainable_params": sum(w.value.size for w in model.non_trainable_variables
                                    if "seed" not in w.path),
        "model": json.loads(model.to_json()),
    }


def write_values(model, folder):
    random = np.random.default_rng(1)
    weights = {}
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        value = random.normal(0, 0.3, variable.shape)
        if variable.path.endswith(("gamma", "moving_variance")):
            value = random.uniform(0.5, 1.5, variable.shape)
        variable.assign(value)
        weights[variable.path] = np.asarray(variable.value, np.float32)
    safetensors.numpy.save_file(weights, folder / "keras_functional_weights.safetensors")
    inputs = [random.normal(0, 1, (3, *x.shape[1:])).astype(np.float32) for x in model.inputs]
    values = {f"input{i}": x for i, x in enumerate(inputs)}
    for i, y in enumerate(model.predict(inputs, verbose=0)):
        values[f"output{i}"] = np.asarray(y, np.float32)
    safetensors.numpy.save_file(values, folder / "keras_functional_values.safetensors")


def main():
    folder = pathlib.Path(__file__).parent
    for name, make in (("functional", functional), ("sequential", sequential)):
        keras.utils.clear_session()
        path = folder / f"keras_{name}.json"
        model = make()
        path.write_text(json.dumps(describe(model)) + "\n")
        if name == "functional":
            write_values(model, folder)


if __name__ == "__main__":
    main()
