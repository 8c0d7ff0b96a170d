"""Take the weights of the digits model out of torch's file, for JAX.

    python convert.py

Writes `model/digits.npz` beside this file: arrays by torch's names.
"""

from pathlib import Path

import numpy as np
import torch

TORCH = Path(__file__).parents[1] / "digits" / "model" / "digits.pt"
MODEL = Path(__file__).parent / "model" / "digits.npz"

if __name__ == "__main__":
    state = torch.load(TORCH, map_location="cpu", weights_only=True)
    MODEL.parent.mkdir(exist_ok=True)
    np.savez(MODEL, **{name: tensor.numpy() for name, tensor in state.items()})
