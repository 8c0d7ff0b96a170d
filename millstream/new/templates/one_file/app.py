"""Answers questions: finds the known one that is nearest to what is asked.

    python app.py

starts broker, gateway and a process for each stage; Ctrl-C ends them.
"""

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from millstream import Reject, Worker, serve

SIZE = 2048
KNOWN = {
    "When are you open?": "From nine to five, Monday to Friday.",
    "Where can I park my car?": "Behind the mill, for two hours.",
    "How much does flour cost?": "Two a bag, and five for three of them.",
    "Can I see the mill wheel?": "Every Saturday at eleven, when the water is high enough.",
    "Do you bake bread yourselves?": "Each morning, and it is gone by noon.",
}


def vector(text: str) -> NDArray[np.float32]:
    """Which three letters in a row are in a text, as a vector of length 1."""
    letters = f" {text.lower()} "
    counts = np.zeros(SIZE, np.float32)
    for start in range(len(letters) - 2):
        counts[crc32(letters[start : start + 3].encode()) % SIZE] += 1
    return counts / np.linalg.norm(counts)


class Preprocess(Worker):
    max_batch_size = 16
    example = "When do you open?"

    def forward(self, batch: list[Any]) -> list[Any]:
        return [
            vector(text)
            if isinstance(text, str) and text
            else Reject("send a question, as a JSON string", status=422)
            for text in batch
        ]


class Infer(Worker):
    max_batch_size = 64

    def setup(self) -> None:
        self.known = np.stack([vector(question) for question in KNOWN])
        self.example = np.zeros(SIZE, np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        likeness: NDArray[np.float32] = np.stack(batch) @ self.known.T
        return likeness


class Postprocess(Worker):
    max_batch_size = 64
    example = np.zeros(len(KNOWN), np.float32)

    def forward(self, batch: list[NDArray[np.float32]]) -> list[dict[str, Any]]:
        questions = list(KNOWN)
        return [
            {
                "question": questions[int(likeness.argmax())],
                "answer": KNOWN[questions[int(likeness.argmax())]],
                "likeness": round(float(likeness.max()), 3),
            }
            for likeness in batch
        ]


if __name__ == "__main__":
    serve({"{{name}}": [Preprocess, Infer, Postprocess]}, port=8000)
