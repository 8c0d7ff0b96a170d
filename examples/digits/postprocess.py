"""Postprocess: ten probabilities become the digit, how sure it is, and the three runners-up."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from millstream import Worker


class Postprocess(Worker):
    max_batch_size = 32

    def forward(self, batch: list[NDArray[np.float32]]) -> list[dict[str, Any]]:
        return [answer(probabilities) for probabilities in batch]


def answer(probabilities: NDArray[np.float32]) -> dict[str, Any]:
    likeliest, *runners_up = np.argsort(-probabilities, kind="stable")[:4]
    return {
        **guess(probabilities, likeliest),
        "runners_up": [guess(probabilities, digit) for digit in runners_up],
    }


def guess(probabilities: NDArray[np.float32], digit: np.intp) -> dict[str, Any]:
    return {"digit": int(digit), "probability": round(float(probabilities[digit]), 3)}
