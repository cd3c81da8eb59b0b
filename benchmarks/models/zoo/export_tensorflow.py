"""Make the zoo's graphs from TensorFlow again: `python -m benchmarks.models.zoo.export_tensorflow [NAME ...]`.

It needs tensorflow and tf2onnx. Functions whose shapes are computed as TensorFlow programs do, by `tf.shape`, slices, products and
reshapes with unknown sizes, and models of Keras: a recurrent one, a search whose loop ends by data, and a convolutional one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import tf2onnx

from benchmarks.models import structure

RNG = np.random.default_rng(0)


def weights(*shape: int) -> tf.Variable:
    return tf.Variable(RNG.standard_normal(shape).astype(np.float32) * 0.3)


class Attention(tf.Module):
    """Heads split and joined by computed shapes, a causal mask from a range, positions sliced to the length."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = [weights(32, 32) for _ in range(4)]
        self.table, self.positions = weights(100, 32), weights(64, 32)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")])
    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        batch, length = tf.shape(ids)[0], tf.shape(ids)[1]
        x = tf.gather(self.table, ids) + self.positions[:length]
        flat = tf.reshape(x, [-1, 32])

        def heads(w: tf.Variable) -> tf.Tensor:
            return tf.transpose(tf.reshape(flat @ w, tf.stack([batch, length, 4, 8])), [0, 2, 1, 3])

        q, k, v = map(heads, self.maps[:3])
        places = tf.range(length)
        ahead = tf.cast(places[None, :] > places[:, None], tf.float32) * -1e9
        p = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * tf.math.rsqrt(8.0) + ahead)
        joined = tf.reshape(tf.transpose(p @ v, [0, 2, 1, 3]), tf.stack([batch * length, 32]))
        return tf.reshape(joined @ self.maps[3], tf.shape(x)) + x


class Pyramid(tf.Module):
    """An image is padded to a multiple of 4, halved twice, resized back to where it came from, and cut to its size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = weights(3, 3, 3, 8), weights(3, 3, 8, 16), weights(1, 1, 24, 4)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="x")])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        height, width = tf.shape(x)[1], tf.shape(x)[2]
        padded = tf.pad(x, [[0, 0], [0, -height % 4], [0, -width % 4], [0, 0]])
        a = tf.nn.relu(tf.nn.conv2d(padded, self.first, 2, "SAME"))
        b = tf.nn.relu(tf.nn.conv2d(a, self.second, 2, "SAME"))
        up = tf.image.resize(b, tf.shape(a)[1:3], method="bilinear")
        y = tf.nn.conv2d(tf.concat([a, up], -1), self.last, 1, "SAME")
        full = tf.image.resize(y, tf.shape(padded)[1:3], method="nearest")
        return full[:, :height, :width] - tf.reduce_mean(full, [1, 2], keepdims=True)


class Recurrent(tf.Module):
    """Both directions of a GRU and an LSTM of Keras over words, with the mean and the maximum over time."""

    def __init__(self) -> None:
        super().__init__()
        words = keras.Input((None,), dtype="int32")
        x = keras.layers.Embedding(100, 16)(words)
        x = keras.layers.Bidirectional(keras.layers.GRU(12, return_sequences=True))(x)
        x = keras.layers.LSTM(10, return_sequences=True)(x)
        pools = [keras.layers.GlobalAveragePooling1D()(x), keras.layers.GlobalMaxPooling1D()(x)]
        self.model = keras.Model(words, keras.layers.Dense(4, activation="softmax")(keras.layers.Concatenate()(pools)))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")])
    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        return self.model(ids)


class Search(tf.Module):
    """A fixed point by a `tf.while_loop` that ends when a step changes little, and the rows that moved most."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = RNG.standard_normal((8, 8)).astype(np.float32) * 0.12

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def __call__(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def moves(_: tf.Tensor, change: tf.Tensor) -> tf.Tensor:
            return tf.reduce_max(change) > 1e-2

        def step(y: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            new = tf.tanh(y @ self.mix + x)
            return new, tf.reduce_sum(tf.abs(new - y), -1)

        shapes = (tf.TensorShape([None, 8]), tf.TensorShape([None]))
        y, _ = tf.while_loop(moves, step, (tf.zeros_like(x), tf.reduce_sum(x * 0 + 1, -1)), shape_invariants=shapes)
        moved = tf.reduce_sum(tf.abs(y - x), -1)
        return y, tf.boolean_mask(y, moved > tf.reduce_mean(moved))


class Separable(tf.Module):
    """Separable convolutions of Keras with squeeze and excitation, over images of any size, and a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        image = keras.Input((None, None, 3))
        x = keras.layers.Conv2D(8, 3, 2, "same", activation="swish")(image)
        x = keras.layers.LayerNormalization()(keras.layers.SeparableConv2D(16, 5, 1, "same")(x))
        gates = keras.layers.Dense(16, "sigmoid")(keras.layers.GlobalAveragePooling2D(keepdims=True)(x))
        x = keras.layers.MaxPooling2D(3, 2, "same")(keras.layers.Multiply()([x, gates]))
        self.model = keras.Model(image, keras.layers.Conv2DTranspose(8, 3, 2, "same", activation="relu")(x))

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="x")])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self.model(x)


MODELS: dict[str, Callable[[], tf.Module]] = {
    "tf_attention": Attention, "tf_pyramid": Pyramid, "tf_recurrent": Recurrent, "tf_search": Search, "tf_separable": Separable,
}  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or MODELS:
        keras.utils.set_random_seed(0)
        module = MODELS[name]()  # a function refers to it weakly
        function = module.__call__
        model, _ = tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=17)
        model.graph.input[0].name, old = function.input_signature[0].name, model.graph.input[0].name
        for node in model.graph.node:
            node.input[:] = [model.graph.input[0].name if name == old else name for name in node.input]
        structure.keep(structure.strip(structure.renamed(model)), name)


if __name__ == "__main__":
    main(sys.argv[1:])
