#!/usr/bin/env python3
"""The built-in networks in Keras 3 on TensorFlow: milliseconds of a step as JSON.

Networks, batch, optimizer and loss are those of models/; the data is random and converted once.
Settings: a training step is one compiled function, with XLA where --mode says jit; as many threads
within an op as --threads says and one op at a time.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

from measurement import median_ms, parse_options, print_result  # noqa: E402


def mnist_cnn(x):
    for filters in (32, 64):
        x = layers.MaxPooling2D()(layers.Conv2D(filters, 3, activation="relu")(x))
    x = layers.Dense(128, activation="relu")(layers.Flatten()(x))
    return layers.Dense(10, activation="softmax")(x)


def mlp(x):
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(256, activation="relu")(x)
    return layers.Dense(10, activation="softmax")(x)


def conv_norm(x, filters, size, stride):
    x = layers.Conv2D(filters, size, stride, "same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def resnet20(x):
    x = layers.ReLU()(conv_norm(x, 16, 3, 1))
    for filters in (16, 32, 64):
        for i in range(3):
            stride = 2 if i == 0 and filters > 16 else 1
            y = layers.ReLU()(conv_norm(x, filters, 3, stride))
            y = conv_norm(y, filters, 3, 1)
            if stride != 1 or x.shape[-1] != filters:
                x = conv_norm(x, filters, 1, stride)
            x = layers.ReLU()(layers.Add()([y, x]))
    return layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling2D()(x))


def vgg8(x):
    for filters in (64, 128, 256):
        for _ in range(2):
            x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(256, activation="relu")(layers.Flatten()(x))
    return layers.Dense(10, activation="softmax")(x)


MODELS = {"mnist_cnn": mnist_cnn, "mlp": mlp, "resnet20": resnet20, "vgg8": vgg8}


def main():
    options = parse_options(__doc__, MODELS, ["graph", "jit"])
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    inputs = keras.Input(options.image)
    model = keras.Model(inputs, MODELS[options.model](inputs))
    loss_of = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    images = tf.random.uniform([options.batch_size, *options.image])
    labels = tf.random.uniform([options.batch_size], 0, 10, tf.int32)
    jit = options.mode == "jit"

    # The loop of fit() costs more per step than small networks take, so its compiled step is
    # called directly.
    @tf.function(jit_compile=jit)
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function(jit_compile=jit)
    def predict():
        return model(images, training=False)

    print_result(f"keras {keras.__version__}, tensorflow {tf.__version__} {options.mode}",
                 median_ms(lambda: step().numpy(), options.steps),
                 median_ms(lambda: predict().numpy(), options.steps))


if __name__ == "__main__":
    main()
