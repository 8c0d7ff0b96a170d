"""What the model knows of a text: which three letters in a row are in it, and how often."""

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

SIZE = 4096
"""Threes of letters share so many places; a few share one, which does little harm."""


def features(text: str) -> NDArray[np.float32]:
    """Counts of a text, of shape (SIZE,)."""
    letters = f" {' '.join(text.lower().split())} "
    counts = np.zeros(SIZE, np.float32)
    for start in range(len(letters) - 2):
        counts[crc32(letters[start : start + 3].encode()) % SIZE] += 1
    return counts
