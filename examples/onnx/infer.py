"""Infer: the digits' middle stage, on ONNX Runtime in place of torch."""

import os

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from millstream import Worker


class Infer(Worker):
    max_batch_size = 32

    def setup(self) -> None:
        options = onnxruntime.SessionOptions()
        # It would take a thread for each core of the host, in each process.
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        on = ["CPUExecutionProvider"]
        if self.device != "cpu":
            on.insert(0, "CUDAExecutionProvider")
        self.session = onnxruntime.InferenceSession(
            self.model_dir / "digits.onnx", options, providers=on
        )
        self.example = np.zeros((8, 8), np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32]
        (probabilities,) = self.session.run(None, {"digits": np.stack(batch)})
        return probabilities
