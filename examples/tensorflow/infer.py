"""Infer: the digits' middle stage, in TensorFlow in place of torch."""

import os

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from millstream import Worker


class Infer(Worker):
    max_batch_size = 32

    def setup(self) -> None:
        # It would take a thread for each core of the host, in each process.
        threads = int(os.environ["OMP_NUM_THREADS"])
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        for gpu in tf.config.list_physical_devices("GPU"):  # the one that this process sees
            tf.config.experimental.set_memory_growth(gpu, True)
        self.loaded = tf.saved_model.load(str(self.model_dir / "digits"))
        self.example = np.zeros((8, 8), np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = self.loaded.serve(np.stack(batch)).numpy()
        return probabilities
