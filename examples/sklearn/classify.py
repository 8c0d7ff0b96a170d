"""Classify: four measures of an iris become its species, a batch at a time."""

from typing import Any

import joblib
import msgspec
import numpy as np

from millstream import Worker


class Flower(msgspec.Struct):
    """In cm, in the order of the model's columns."""

    sepal_length: float
    sepal_width: float
    petal_length: float
    petal_width: float


class Classify(Worker):
    max_batch_size = 256
    inputs = Flower  # a body that is no such object is refused before any work

    def setup(self) -> None:
        self.model = joblib.load(self.model_dir / "iris.joblib")  # runs what is in it: your own
        self.example = Flower(5.1, 3.5, 1.4, 0.2)

    def forward(self, batch: list[Flower]) -> list[dict[str, Any]]:
        rows = np.array([msgspec.structs.astuple(flower) for flower in batch])
        shares = self.model.predict_proba(rows)
        names = [str(name) for name in self.model.classes_]
        return [
            {
                "species": names[row.argmax()],
                "probabilities": dict(zip(names, row.round(3).tolist(), strict=True)),
            }
            for row in shares
        ]
