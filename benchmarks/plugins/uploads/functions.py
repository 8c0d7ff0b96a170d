"""What the one stage does with a body, the same under every server. Knows no server."""

import numpy as np
import numpy.typing as npt

LOOK_BYTES = 4096


def look(body: bytes | npt.NDArray[np.uint8]) -> tuple[int, int]:
    """The length of the body, and the sum of its last bytes, so that all of it must be there."""
    pixels = np.frombuffer(body, np.uint8)
    return len(pixels), int(pixels[-LOOK_BYTES:].sum())
