"""What the three stages do, the same under every server, one item after the other.

Knows no server. Cheap on purpose, so that what carries the arrays is measured: each function passes
once over its array. Nothing is stacked, since one batch would be one more copy of everything.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

CHANNELS = 3


def make(seed: int, side: int) -> Array:
    """An array [3, side, side] full of `seed`."""
    return np.full((CHANNELS, side, side), seed, np.float32)


def transform(array: Array) -> Array:
    """A new array, twice this one."""
    return array * np.float32(2)


def total(array: Array) -> float:
    """The sum of all elements. Exact while it is below 2**24."""
    return float(array.sum())


def run(items: list[tuple[int, int]]) -> list[float]:
    """All three over a batch of (seed, side), stage by stage, in this process."""
    arrays = [make(seed, side) for seed, side in items]
    return [total(array) for array in [transform(array) for array in arrays]]
