"""The same model in one stage, for clients that send tensors: any number of pictures at a time."""

from typing import Any

import numpy as np
from infer import Infer
from numpy.typing import NDArray

from millstream import Classify, Tensor, Worker


class Tensors(Worker):
    max_batch_size = 32
    inputs = {"image": Tensor("FP32", [-1, 8, 8])}
    outputs = {"digit": Tensor("INT64", [-1]), "scores": Tensor("FP32", [-1, 10])}
    signatures = {"digit": Classify("scores", labels=[str(digit) for digit in range(10)])}

    def setup(self) -> None:
        self.infer = Infer()
        self.infer.device, self.infer.model_dir = self.device, self.model_dir
        self.infer.setup()
        self.example = {"image": np.zeros((1, 8, 8), np.float32)}

    def forward(self, batch: list[dict[str, NDArray[np.float32]]]) -> list[dict[str, Any]]:
        images = [item["image"] for item in batch]
        pictures = np.concatenate(images)  # of all requests together
        scores = np.zeros((0, 10), np.float32)
        if len(pictures):
            scores = self.infer.forward(list(pictures))
        ends = np.cumsum([len(each) for each in images])
        return [
            {"digit": each.argmax(axis=1), "scores": each} for each in np.split(scores, ends[:-1])
        ]
