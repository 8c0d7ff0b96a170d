"""Make the digits model of torch one of TensorFlow, and see that both say the same.

    python convert.py

Writes the SavedModel `model/digits` beside this file: (n, 8, 8) float32 to (n, 10) probabilities.
"""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import torch

DIGITS = Path(__file__).parents[1] / "digits"
MODEL = Path(__file__).parent / "model" / "digits"

sys.path.append(str(DIGITS))
from model import DigitNet  # noqa: E402  from the folder that was just named


def keras_net() -> tf.keras.Sequential:
    """The layers of `DigitNet`, which there have their channels first."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((8, 8)),
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Permute((3, 1, 2)),  # what follows was trained on them in torch's order
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def main() -> None:
    """Raises AssertionError where the two do not agree."""
    theirs = DigitNet().eval()
    theirs.load_state_dict(torch.load(DIGITS / "model" / "digits.pt", weights_only=True))
    ours = keras_net()
    ours.set_weights([in_keras(array.numpy()) for array in theirs.state_dict().values()])
    digits = torch.rand(2, 8, 8)
    expected = theirs(digits).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(ours(digits.numpy()).numpy(), expected, atol=1e-5)
    ours.export(str(MODEL), verbose=False)


def in_keras(array: np.ndarray) -> np.ndarray:
    """A kernel (out, in, height, width), weights (out, in) or a bias, with its axes as Keras has
    them."""
    return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T


if __name__ == "__main__":
    main()
