"""Infer: 8x8 digits become the probabilities of 0 to 9, a batch at a time."""

from pathlib import Path

import numpy as np
import torch
from model import DigitNet
from numpy.typing import NDArray

from millstream import Worker


class Infer(Worker):
    max_batch_size = 32

    def setup(self) -> None:
        path = self.model_dir / "digits.pt"  # the folder `model` beside this file
        if not path.exists():
            raise FileNotFoundError(
                f"{path} is missing: run {Path(__file__).with_name('train.py')}"
            )
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.net = DigitNet().to(self.device).eval()
        self.net.load_state_dict(state)
        self.example = np.zeros((8, 8), np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        with torch.inference_mode():
            digits = torch.from_numpy(np.stack(batch)).to(self.device)
            probabilities: NDArray[np.float32] = self.net(digits).softmax(dim=1).cpu().numpy()
        return probabilities
