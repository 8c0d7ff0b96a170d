"""Tokenize: a text becomes the numbers of its tokens, on the CPU."""

import json

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer

from millstream import Reject, Worker


class Tokenize(Worker):
    max_batch_size = 64

    def setup(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(self.model_dir)
        self.example = "ground to flour"

    def decode(self, body: bytes, content_type: str) -> str:
        """Plain text, or a string of JSON."""
        try:
            text = body.decode() if content_type.startswith("text/") else json.loads(body)
        except ValueError as error:
            raise Reject("send text as text/plain, or a string of JSON") from error
        if not isinstance(text, str) or not text.strip():
            raise Reject("there is no text", status=422)
        return text

    def forward(self, batch: list[str]) -> list[NDArray[np.int64]]:
        found = self.tokenizer(batch, truncation=True)["input_ids"]
        return [np.array(tokens, np.int64) for tokens in found]
