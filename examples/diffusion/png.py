"""PNG: pictures are packed, on the CPU, while the device draws the next."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from millstream import Worker


class Png(Worker):
    content_type = "image/png"

    def setup(self) -> None:
        self.example = np.zeros((64, 64, 3), np.uint8)

    def forward(self, batch: list[NDArray[np.uint8]]) -> list[bytes]:
        return [packed(picture) for picture in batch]


def packed(picture: NDArray[np.uint8]) -> bytes:
    body = io.BytesIO()
    Image.fromarray(picture).save(body, "PNG")
    return body.getvalue()
