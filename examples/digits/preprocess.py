"""Preprocess: a PNG or JPEG becomes one 8x8 float32 digit in 0..1, bright strokes on dark."""

import io
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scan import to_digit

from millstream import Reject, Worker

Image.MAX_IMAGE_PIXELS = 25_000_000


class Preprocess(Worker):
    max_batch_size = 16

    def decode(self, body: bytes, content_type: str) -> NDArray[np.float32]:
        try:
            with warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning):
                return to_digit(Image.open(io.BytesIO(body), formats=("PNG", "JPEG")))
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise Reject("the image has more than 25 million pixels", status=413) from error
        except Exception as error:  # whatever Pillow stumbles over is in what the client sent
            kind = (content_type or "application/octet-stream").lower()
            expected = not body or kind.startswith(("image/", "application/octet-stream"))
            message = "the body is no PNG or JPEG image that can be read"
            raise Reject(message, status=400 if expected else 415) from error

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        digits = np.stack(batch)
        digits /= np.maximum(digits.max(axis=(1, 2), keepdims=True), 0.1)
        return digits
