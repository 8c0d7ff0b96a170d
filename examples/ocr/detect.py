"""Detect: where there is text in a picture; each line is cut out and set upright."""

import io
import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from rapidocr import RapidOCR

from millstream import Reject, Worker

Image.MAX_IMAGE_PIXELS = 25_000_000


class Detect(Worker):
    # Pictures differ in size, and are gone through one by one: a batch would save nothing.
    max_batch_size = 1

    def setup(self) -> None:
        self.ocr = RapidOCR(
            params={
                "Global.use_cls": False,
                "Global.use_rec": False,
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": int(os.environ["OMP_NUM_THREADS"]),
            }
        )
        self.example = np.zeros((64, 64, 3), np.uint8)

    def decode(self, body: bytes, content_type: str) -> NDArray[np.uint8]:
        """A picture as rows of blue, green and red, which is what OpenCV has."""
        try:
            with warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning):
                image = Image.open(io.BytesIO(body), formats=("PNG", "JPEG", "WEBP"))
                upright = ImageOps.exif_transpose(image).convert("RGB")
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise Reject("the image has more than 25 million pixels", status=413) from error
        except Exception as error:  # whatever Pillow stumbles over is in what the client sent
            raise Reject("the body is no PNG, JPEG or WebP image that can be read") from error
        return np.ascontiguousarray(np.asarray(upright)[:, :, ::-1])

    def forward(self, batch: list[NDArray[np.uint8]]) -> list[dict[str, Any]]:
        return [self.lines_of(picture) for picture in batch]

    def lines_of(self, picture: NDArray[np.uint8]) -> dict[str, Any]:
        boxes = self.ocr(picture).boxes
        if boxes is None:
            return {"boxes": [], "lines": []}
        lines = self.ocr.crop_text_regions(picture, boxes)
        return {"boxes": boxes.round().astype(int).tolist(), "lines": lines}
