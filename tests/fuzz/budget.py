"""What small inputs may take: each so much of the processor, and all of them so much memory."""

import resource
import time
from collections.abc import Callable

from tests.fuzz.target import Finding

SLOWEST_S = 2.0
"""Of the processor, for one input. So much is a finding, on a machine that is busy, too."""
GROWTH_BYTES = 256 << 20
SETTLED = 100
"""After so many steps all is there that is imported and kept at first."""


class Budget:
    """Of one target, whose inputs are taken by this process itself."""

    def __init__(self) -> None:
        self.taken = 0
        """Inputs that were not refused."""
        self._slowest_s = 0.0
        self._peak_bytes = 0
        self._steps = 0

    def step(self, take: Callable[[], None]) -> int:
        """Take one input. Raises Finding where that takes too long."""
        began = time.process_time()
        take()
        took_s = time.process_time() - began
        self._slowest_s = max(self._slowest_s, took_s)
        if took_s > SLOWEST_S:
            raise Finding(f"one input took {took_s:.1f} s of the processor")
        if self._steps == SETTLED:
            self._peak_bytes = _peak_bytes()
        self._steps += 1
        return 1

    def finish(self) -> dict[str, str]:
        """How much memory it took at its peak, and how long the slowest input. Raises Finding."""
        grown_bytes = _peak_bytes() - self._peak_bytes
        if grown_bytes > GROWTH_BYTES:
            raise Finding(f"it took {grown_bytes:,} bytes more at its peak")
        return {
            "peak": f"{grown_bytes >> 20} MiB more",
            "slowest": f"{self._slowest_s * 1e3:.0f} ms",
            "taken": f"{self.taken / max(self._steps, 1):.0%}",
        }


def _peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
