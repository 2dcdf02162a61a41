"""Writes keras_optimizers.json: trajectories of Keras 3's optimizers and values of its schedules.

    python3 -m venv /tmp/keras && /tmp/keras/bin/pip install keras 'jax[cpu]'
    KERAS_BACKEND=jax /tmp/keras/bin/python tests/golden/keras_optimizers.py

Written with Keras 3.15 on the JAX backend, float32.
"""

import json
import pathlib
import re

import keras
import numpy as np

STEPS = 6
SHAPES = {"dense/kernel": (3, 4), "dense/bias": (4,)}

OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"learning_rate": 0.05, "momentum": 0.9}),
    ("SGD", {"learning_rate": 0.05, "momentum": 0.8, "nesterov": True}),
    ("SGD", {"learning_rate": 0.1, "weight_decay": 0.02}),
    ("SGD", {"learning_rate": 0.1, "clipnorm": 0.5}),
    ("SGD", {"learning_rate": 0.1, "clipvalue": 0.3}),
    ("SGD", {"learning_rate": 0.1, "global_clipnorm": 0.7, "momentum": 0.5}),
    ("SGD", {"learning_rate": 0.1, "use_ema": True, "ema_momentum": 0.8}),
    ("SGD", {"learning_rate": 0.1, "use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3}),
    ("SGD", {"learning_rate": 0.1, "gradient_accumulation_steps": 2}),
    ("Adam", {}),
    ("Adam", {"learning_rate": 0.02, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3}),
    ("Adam", {"learning_rate": 0.01, "amsgrad": True}),
    ("Adam", {"learning_rate": 0.01, "weight_decay": 0.1, "global_clipnorm": 1.0}),
    ("Adam", {"learning_rate": 0.01, "gradient_accumulation_steps": 3}),
    ("AdamW", {}),
    ("AdamW", {"learning_rate": 0.01, "weight_decay": 0.05, "use_ema": True, "ema_momentum": 0.9}),
]

SCHEDULES = [
    ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.9}),
    ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5, "staircase": True}),
    ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 5, "decay_rate": 0.5}),
    ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 5, "decay_rate": 0.5, "staircase": True}),
    ("PiecewiseConstantDecay", {"boundaries": [5, 20], "values": [1.0, 0.5, 0.1]}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 12}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 12, "end_learning_rate": 0.01, "power": 2.0, "cycle": True}),
    ("CosineDecay", {"initial_learning_rate": 0.1, "decay_steps": 20}),
    ("CosineDecay", {"initial_learning_rate": 0.0, "decay_steps": 20, "alpha": 0.1, "warmup_target": 0.2, "warmup_steps": 8}),
]


def numbers(array):
    return [float(value) for value in np.asarray(array, np.float32).reshape(-1)]


def make_gradients(seed):
    rng = np.random.default_rng(seed)
    return [{name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
            for _ in range(STEPS)]


def make_variables(seed):
    rng = np.random.default_rng(seed)
    return [keras.Variable(rng.normal(size=shape).astype(np.float32), name=name.split("/")[-1])
            for name, shape in SHAPES.items()]


def trajectory(optimizer, gradients, scaled):
    """The variables after each step."""
    variables = make_variables(1)
    optimizer.build(variables)
    initial = {name: numbers(v) for name, v in zip(SHAPES, variables)}
    steps = []
    for gradient in gradients:
        scale = float(np.asarray(optimizer.dynamic_scale)) if scaled else 1.0
        # JAX wants conditional updates without side effects.
        values, state = optimizer.stateless_apply(
            [v.value for v in optimizer.variables],
            [gradient[name] * np.float32(scale) for name in SHAPES],
            [v.value for v in variables])
        for variable, value in zip(variables + optimizer.variables, values + state):
            variable.assign(value)
        step = {"variables": {name: numbers(v) for name, v in zip(SHAPES, variables)},
                "iterations": int(optimizer.iterations)}
        if scaled:
            step["scale"] = float(np.asarray(optimizer.dynamic_scale))
        steps.append(step)
    if not scaled:
        optimizer.finalize_variable_values(variables)
    return {"initial": initial, "steps": steps,
            "final": {name: numbers(v) for name, v in zip(SHAPES, variables)}}


def main():
    gradients = make_gradients(0)
    cases = []
    for name, options in OPTIMIZERS:
        optimizer = getattr(keras.optimizers, name)(**options)
        cases.append({"class_name": name, "config": options, **trajectory(optimizer, gradients, False)})

    overflowing = make_gradients(2)
    for step in (0, 3, 4):
        overflowing[step]["dense/kernel"][1, 2] = np.inf if step != 3 else np.nan
    loss_scale = []
    for name, options in (("Adam", {"learning_rate": 0.01}), ("SGD", {"momentum": 0.9, "global_clipnorm": 1.0})):
        optimizer = keras.optimizers.LossScaleOptimizer(
            getattr(keras.optimizers, name)(**options), initial_scale=1024.0, dynamic_growth_steps=2)
        loss_scale.append({"class_name": name, "config": options, **trajectory(optimizer, overflowing, True)})

    schedules = []
    for name, options in SCHEDULES:
        schedule = getattr(keras.optimizers.schedules, name)(**options)
        schedules.append({"class_name": name, "config": options,
                          "values": [float(schedule(step)) for step in range(40)]})

    def plain(steps):  # JSON has no NaN and infinity
        return [{name: [None if not np.isfinite(v) else v for v in numbers(g)]
                 for name, g in step.items()} for step in steps]

    text = json.dumps({"shapes": SHAPES, "gradients": plain(gradients), "optimizers": cases,
                       "overflowing_gradients": plain(overflowing), "loss_scale": loss_scale,
                       "schedules": schedules}, indent=1)
    path = pathlib.Path(__file__).with_suffix(".json")
    # Lists of numbers on one line keep the file readable.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    path.write_text(text + "\n")


if __name__ == "__main__":
    main()
