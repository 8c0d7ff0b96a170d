"""What is counted of a stage, for metrics alone: how long things took, how large batches were, and
where items and workers went.

Nothing is decided by these figures. A broker that is to do without has none (`Stage.measures`).
"""

from collections import Counter
from typing import Literal, TypeAlias

from broker.wire.measures import Histogram

SIZES = tuple(2.0**power for power in range(11))
RATIOS = (0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)

Departure: TypeAlias = Literal["expired", "cancelled", "begun_anew", "refused"]
"""How an item leaves that got neither a result nor an error of its stage."""

Return: TypeAlias = Literal["lost", "returned", "memory"]
"""Why an item comes back from a worker: lost with it, not begun, or for want of memory."""


class Measures:
    """Of one stage. All times are in seconds."""

    __slots__ = (
        "decode", "encode", "fill", "forward", "ratio", "sizes", "transfer", "wait",
    )  # fmt: skip

    def __init__(self) -> None:
        self.wait = Histogram()  # of items: until a worker came to them
        self.sizes = Histogram(SIZES)
        self.fill = Histogram()  # of batches that were held back to be filled
        self.transfer = Histogram()  # to the worker and back
        self.decode = Histogram()
        self.forward = Histogram()
        self.encode = Histogram()
        self.ratio = Histogram(RATIOS)  # how long a batch took, over what was predicted

    def ran(self, *, whole_s: float, run_s: float, decode_s: float, forward_s: float) -> None:
        """A batch is done: from when its worker came to it, and what that says of its parts."""
        self.transfer.add(max(whole_s - run_s, 0.0))
        self.decode.add(decode_s)
        self.forward.add(forward_s)
        self.encode.add(max(run_s - decode_s - forward_s, 0.0))

    def phases(self) -> dict[str, Histogram]:
        """Those of batches, by the names that they have in metrics."""
        return {
            "fill": self.fill,
            "transfer": self.transfer,
            "decode": self.decode,
            "forward": self.forward,
            "encode": self.encode,
        }


class Flow:
    """Where the items of a stage, and its workers, went."""

    __slots__ = ("cpu_s", "dispatched", "joined", "left", "losses", "overflows", "quit", "returned")

    def __init__(self) -> None:
        self.dispatched = 0  # items, each time
        self.returned: Counter[Return] = Counter()
        self.left: Counter[Departure] = Counter()
        self.joined = 0  # workers
        self.quit = 0  # of these, in order
        self.losses: Counter[str] = Counter()
        self.cpu_s = 0.0  # of its workers, those that are gone included
        self.overflows = 0  # results that found no room in shared memory
