"""Plug-ins that pages show a part of: what surrounds each, so that it can be served and asked."""

from typing import NamedTuple


class Snippet(NamedTuple):
    """A block of a page, between two texts, is a script; its class `Shown` is asked once."""

    name: str
    """Of its script."""
    page: str
    words: str
    """Which block it is."""
    after: str
    """What is needed for it to run, and a class that fills in what the page leaves out."""
    body: str
    """JSON."""
    answer: str
    """JSON."""
    before: str = "import numpy as np\nfrom millstream import Worker\n"


PASSES_ON = """
    def forward(self, batch):
        super().forward(batch)
        return batch
"""

SNIPPETS = [
    Snippet(
        "drifting",
        "docs/drift.md",
        "self.observe",
        """
class Shown(Infer):
    def setup(self):
        self.model = lambda batch: np.array([[0.25, 0.75]] * len(batch))

    def decode(self, body, content_type):
        return np.array(super().decode(body, content_type))
""",
        "[[1, 2], [3, 4]]",
        "[0.25, 0.75]",
    ),
    Snippet(
        "logging", "docs/logs.md", "self.log.info", f"class Shown(Infer):{PASSES_ON}", "1", "1"
    ),
    Snippet(
        "counting",
        "docs/metrics.md",
        "self.metrics.counter",
        f"class Shown(Infer):\n    cache = np.zeros(8)\n{PASSES_ON}",
        "1",
        "1",
    ),
    Snippet(
        "normalising",
        "docs/shared-memory.md",
        "class Normalise",
        """
class Shown(Normalise):
    def decode(self, body, content_type):
        return np.array(super().decode(body, content_type), np.float32)
""",
        "[0, 255]",
        "[0.0, 1.0]",
    ),
    Snippet(
        "tensors",
        "docs/protocols.md",
        "class Infer",
        """
class Shown(Infer):
    def answer(self, image):
        return {"digit": [len(image)], "scores": np.zeros((1, 10), np.float32)}

    def forward(self, batch):
        return [{"digit": each["digit"]} for each in super().forward(batch)]
""",
        '{"image": [[[0, 0, 0, 0, 0, 0, 0, 0]' + ", [0, 0, 0, 0, 0, 0, 0, 0]" * 7 + "]]}",
        '{"digit": [1]}',
    ),
    Snippet(
        "objects",
        "docs/protocols.md",
        "class Question",
        """
class Shown(Answer):
    def forward(self, batch):
        return [[question.text, question.top] for question in batch]
""",
        '{"text": "why"}',
        '["why", 5]',
        before="from typing import Annotated\nimport msgspec\nfrom millstream import Worker\n",
    ),
]
