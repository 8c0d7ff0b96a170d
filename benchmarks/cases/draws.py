"""What chance draws for overload: how long a batch takes, and until when answers are wanted. Pure.

A batch of b takes t(b) = a + c·b, up to 16 at a time, so that 16/t(16) is the capacity.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.server import JSON, Exchange, Workload

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "overload"
MAX_BATCH_SIZE = 16
A_MS = (2.0, 20.0)
C_MS = (0.1, 1.0)
# In times of the largest batch.
DEADLINE = (5.0, 8.0)
PIPELINES = {"one": ("infer",), "three": ("preprocess", "infer", "postprocess")}
SERVERS = ("millstream", "mosec", "triton", "triton-tuned")
CLASSES = {"preprocess": "Quick", "infer": "Slow", "postprocess": "Quick"}
REQUEST = b'{"x": 1}'
TENSOR = b'{"inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT32", "data": [1]}]}'


@dataclass(frozen=True, slots=True)
class Draw:
    """The times of one workload."""

    a_ms: float
    c_ms: float
    deadline_ms: float

    @property
    def largest_ms(self) -> float:
        """What the largest batch takes."""
        return self.a_ms + self.c_ms * MAX_BATCH_SIZE

    @property
    def capacity_per_s(self) -> float:
        """More than so many items a second cannot be done, however they are batched."""
        return MAX_BATCH_SIZE / self.largest_ms * 1e3

    @property
    def queue_timeout_ms(self) -> float:
        """How long a request may queue in Triton so that it is still in time.

        Triton makes its next batch ready while one runs, so that two batches follow on the queue.
        """
        return self.deadline_ms - 2 * self.largest_ms


def draw(seed: int) -> Draw:
    """The same for the same seed; tenths of a millisecond are as fine as it gets."""
    chance = random.Random(seed)
    a_ms = round(chance.uniform(*A_MS), 1)
    c_ms = round(chance.uniform(*C_MS), 2)
    return Draw(a_ms, c_ms, round((a_ms + c_ms * MAX_BATCH_SIZE) * chance.uniform(*DEADLINE)))


def workload(times: Draw, pipeline: str) -> Workload:
    """The chain of this name with these times. Every stage adds one."""
    chain = PIPELINES[pipeline]
    answer = 1 + len(chain)
    model = pipeline if len(chain) > 1 else chain[0]
    triton = Exchange(f"/v2/models/{model}/infer", TENSOR, f'"data":[{answer}]')
    stages = f"{len(chain)} stage{'s' if len(chain) > 1 else ''}"
    deadline = {"X-Timeout-Ms": f"{times.deadline_ms:g}"}
    return Workload(
        title=f"{stages}, t(b) = {times.a_ms:g} + {times.c_ms:g}·b ms, "
        f"deadline {times.deadline_ms:g} ms",
        folder=FOLDER,
        pipeline=pipeline,
        chain=chain,
        classes=CLASSES,
        exchanges={
            "millstream": Exchange(
                f"/pipelines/{pipeline}", REQUEST, f'{{"x":{answer}}}', {**JSON, **deadline}
            ),
            "mosec": Exchange("/inference", REQUEST, f'{{"x":{answer}}}'),
            "triton": triton,
            "triton-tuned": triton,
        },
        variables={
            "BENCHMARK_A_MS": str(times.a_ms),
            "BENCHMARK_C_MS": str(times.c_ms),
            "BENCHMARK_QUEUE_TIMEOUT_US": f"{times.queue_timeout_ms * 1e3:.0f}",
        },
    )
