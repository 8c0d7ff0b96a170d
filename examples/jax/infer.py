"""Infer: the digits' middle stage, in JAX in place of torch.

XLA compiles a program for each shape. So batches are padded to a few sizes, and all of these are
compiled before this worker is ready: no request ever waits for the compiler.
"""

from collections.abc import Mapping
from typing import TypeAlias

import jax
import numpy as np
from jax import Array, lax, nn
from numpy.typing import NDArray

from millstream import Worker

SIZES = (1, 4, 16, 32)

Weights: TypeAlias = Mapping[str, Array]


class Infer(Worker):
    max_batch_size = SIZES[-1]

    def setup(self) -> None:
        jax.config.update("jax_platforms", "cpu" if self.device == "cpu" else "cuda")
        with np.load(self.model_dir / "digits.npz") as arrays:
            self.weights = {name: jax.device_put(arrays[name]) for name in arrays.files}
        self.programs = {
            size: jax.jit(probabilities)
            .lower(self.weights, jax.ShapeDtypeStruct((size, 8, 8), np.float32))
            .compile()
            for size in SIZES
        }
        self.example = np.zeros((8, 8), np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        size = next(size for size in SIZES if size >= len(batch))
        digits = np.zeros((size, 8, 8), np.float32)
        np.stack(batch, out=digits[: len(batch)])
        return np.asarray(self.programs[size](self.weights, digits))[: len(batch)]


def probabilities(weights: Weights, digits: Array) -> Array:
    """(n, 8, 8) to (n, 10): the layers of `DigitNet` in examples/digits/model.py."""
    x = digits[:, None]
    x = nn.relu(conv(weights, "layers.0", x))
    x = nn.relu(conv(weights, "layers.2", x))
    x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = nn.relu(conv(weights, "layers.5", x)).reshape(len(x), -1)
    x = nn.relu(linear(weights, "layers.9", x))
    return nn.softmax(linear(weights, "layers.11", x))


def conv(weights: Weights, layer: str, x: Array) -> Array:
    kernel, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME") + bias[:, None, None]


def linear(weights: Weights, layer: str, x: Array) -> Array:
    return x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
