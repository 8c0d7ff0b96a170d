"""Recognize: what the lines say, those of all pictures of the batch together."""

import os
from typing import Any

import numpy as np
from rapidocr import RapidOCR

from millstream import Worker

LEAST_SCORE = 0.5


class Recognize(Worker):
    max_batch_size = 8

    def setup(self) -> None:
        self.ocr = RapidOCR(
            params={
                "Global.use_det": False,
                "Global.use_cls": False,
                "Global.log_level": "error",
                "Rec.rec_batch_num": 16,  # lines in one call of the model, sorted by their width
                "EngineConfig.onnxruntime.intra_op_num_threads": int(os.environ["OMP_NUM_THREADS"]),
            }
        )
        line = np.full((32, 160, 3), 255, np.uint8)
        self.example = {"boxes": [[[0, 0], [160, 0], [160, 32], [0, 32]]], "lines": [line]}

    def forward(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines = [line for item in batch for line in item["lines"]]
        read = self.ocr.recognize_txt(lines) if lines else None
        texts = iter(zip(read.txts, read.scores, strict=True) if read else [])
        return [
            {
                "lines": [
                    {"text": text, "score": round(float(score), 3), "box": box}
                    for box, (text, score) in zip(item["boxes"], texts, strict=False)
                    if text.strip() and score >= LEAST_SCORE
                ]
            }
            for item in batch
        ]
