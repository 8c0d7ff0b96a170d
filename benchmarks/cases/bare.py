"""The limit that no server can pass on one core: a workload's functions alone, in one process.

Knows nothing of what they do.
"""

import json
import subprocess
import sys

from benchmarks.load import SPARE_S, Measurement
from benchmarks.peers import environment

# A limit is what remains when memory that was freed is used again. By default the C library gives
# it back to the system, and then page faults are most of what is measured.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
}


class Bare:
    """Runs a module that takes, after `arguments`, a batch size and how many seconds.

    A batch is as large as the clients could fill it.
    """

    def __init__(self, module: str, *arguments: str, max_batch_size: int) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._max_batch_size = max_batch_size

    def load(self, *, clients: int, seconds: int) -> Measurement:
        """Items a second, and what whole batches took."""
        done = subprocess.run(
            [*self._command, str(min(clients, self._max_batch_size)), str(seconds)],
            env=environment.variables(**KEEP_MEMORY),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds + SPARE_S,
            check=True,
        )
        return Measurement(**json.loads(done.stdout))
