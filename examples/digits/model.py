"""The network: a small convolutional classifier of 8x8 digits, shared by training and inference."""

import torch
from torch import nn


class DigitNet(nn.Module):
    """(n, 8, 8) float32 in 0..1, bright strokes on dark, to (n, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(digits.unsqueeze(1))
        return logits
