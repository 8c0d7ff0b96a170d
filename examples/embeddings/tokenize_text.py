"""Tokenize: a text becomes the numbers of its tokens, on the CPU.

By `tokenizers` alone, which is loaded at once: transformers would take seconds, and torch with it.
"""

import json

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from millstream import Reject, Worker

MOST_TOKENS = 512
"""Of one text; the rest is cut off."""


class Tokenize(Worker):
    max_batch_size = 64

    def setup(self) -> None:
        self.tokenizer = Tokenizer.from_file(str(self.model_dir / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MOST_TOKENS)
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
        return [np.array(found.ids, np.int64) for found in self.tokenizer.encode_batch(batch)]
