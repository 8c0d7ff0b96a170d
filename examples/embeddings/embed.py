"""Embed: tokens become a vector of length 1; texts of like length go through the model together.

A batch as the broker forms it has texts of all lengths. Padded to the longest of them, most of the
work would be for padding. So it is sorted into buckets, each as long as its name says.
"""

import os
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from transformers import AutoModel

from millstream import Worker

LENGTHS = (16, 32, 64, 128, 256, 512)
"""Those that texts are padded to: few, so that a compiled model has few shapes."""
MOST_TOKENS = 8192
"""Of one call of the model, padding included: so many short texts, or so many fewer long ones."""

Tokens = NDArray[np.int64]


class Embed(Worker):
    max_batch_size = 64

    def setup(self) -> None:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.model = AutoModel.from_pretrained(self.model_dir).to(self.device).eval()
        self.calls = self.metrics.counter("calls", "Of the model.", labels=["length"])
        self.tokens = self.metrics.counter("tokens", "Read by the model.", labels=["kind"])
        self.example = np.full(20, 5, np.int64)

    def forward(self, batch: list[Tokens]) -> list[NDArray[np.float32]]:
        results: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(batch)
        for length, places in buckets([len(tokens) for tokens in batch]):
            vectors = self.embed([batch[place] for place in places], length)
            for place, vector in zip(places, vectors, strict=True):
                results[place] = vector
        return results

    def embed(self, texts: list[Tokens], length: int) -> NDArray[np.float32]:
        """All padded to `length`; what is padding is masked, and does not count in the mean."""
        padded = np.zeros((len(texts), length), np.int64)
        mask = np.zeros((len(texts), length), np.int64)
        for row, tokens in enumerate(texts):
            padded[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        self.calls.inc(length=str(length))
        self.tokens.inc(int(mask.sum()), kind="text")
        self.tokens.inc(int(mask.size - mask.sum()), kind="padding")
        with torch.inference_mode():
            read = torch.from_numpy(mask).to(self.device)
            states = self.model(
                input_ids=torch.from_numpy(padded).to(self.device), attention_mask=read
            ).last_hidden_state
            weights = read.unsqueeze(-1)
            means = (states * weights).sum(dim=1) / weights.sum(dim=1)
            vectors: NDArray[np.float32] = functional.normalize(means, dim=1).cpu().numpy()
        return vectors


def buckets(lengths: list[int]) -> list[tuple[int, list[int]]]:
    """Places of texts that go through the model together, and the length that they are padded to.

    Raises ValueError where one is longer than any bucket.
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for place, length in enumerate(lengths):
        by_length[min(most for most in LENGTHS if most >= length)].append(place)
    return [
        (length, places[start : start + MOST_TOKENS // length])
        for length, places in sorted(by_length.items())
        for start in range(0, len(places), MOST_TOKENS // length)
    ]
