"""Identify: what kind of file an upload is, by Magika's model, which its package ships."""

from typing import Any

from magika import Magika, PredictionMode

from millstream import Worker

BLOCK = 4096
"""How much Magika reads of a file, at either end."""


class Identify(Worker):
    max_batch_size = 16

    def setup(self) -> None:
        self.magika = Magika(prediction_mode=PredictionMode.HIGH_CONFIDENCE)
        self.example = b"#!/bin/sh\nset -e\necho 'ground to flour'\n"

    def decode(self, body: memoryview, content_type: str) -> bytes:
        # An upload of any size is looked at where it lies; what travels on is 8 KiB at the most.
        if len(body) <= 2 * BLOCK:
            return bytes(body)
        return bytes(body[:BLOCK]) + bytes(body[-BLOCK:])

    def forward(self, batch: list[bytes]) -> list[dict[str, Any]]:
        return [answer(self.magika, content) for content in batch]


def answer(magika: Magika, content: bytes) -> dict[str, Any]:
    found = magika.identify_bytes(content)
    return {
        "label": str(found.output.label),
        "mime_type": found.output.mime_type,
        "description": found.output.description,
        "score": round(found.score, 3),
    }
