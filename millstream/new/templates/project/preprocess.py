"""Preprocess: a text becomes counts. Runs on the CPU, in as many processes as you like."""

from typing import Any

from features import features

from millstream import Reject, Worker

LONGEST = 10_000


class Preprocess(Worker):
    max_batch_size = 16

    def setup(self) -> None:
        self.example = "Where is the station?"

    def forward(self, batch: list[Any]) -> list[Any]:
        return [self.one(text) for text in batch]

    def one(self, text: Any) -> Any:
        """What fails a check is answered 422, and its neighbours in the batch are not touched."""
        if not isinstance(text, str) or not text.strip():
            return Reject("send a text, as a JSON string or as text/plain", status=422)
        return features(text[:LONGEST])
