"""Infer: counts become probabilities, for a whole batch in one multiplication."""

import numpy as np
from features import SIZE
from numpy.typing import NDArray

from millstream import Worker


class Infer(Worker):
    max_batch_size = 64

    def setup(self) -> None:
        self.weights = np.load(self.model_dir / "languages.npz")["weights"]
        self.example = np.zeros(SIZE, np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        scores = np.stack(batch) @ self.weights
        odds: NDArray[np.float32] = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        return odds
