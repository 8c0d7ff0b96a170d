"""Postprocess: probabilities become the answer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from millstream import Worker


class Postprocess(Worker):
    max_batch_size = 64

    def setup(self) -> None:
        self.languages = [str(name) for name in np.load(self.model_dir / "languages.npz")["names"]]
        self.example = np.full(len(self.languages), 1 / len(self.languages), np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> list[dict[str, Any]]:
        return [self.one(probabilities) for probabilities in batch]

    def one(self, probabilities: NDArray[np.float32]) -> dict[str, Any]:
        best = int(probabilities.argmax())
        return {
            "language": self.languages[best],
            "probability": round(float(probabilities[best]), 3),
        }
