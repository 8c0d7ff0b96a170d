"""What a batch costs in the slow stage: the same for all servers, and no processor time.

A model on a GPU leaves the processor free as well.
"""

import os
import time

A_S = float(os.environ["BENCHMARK_A_MS"]) / 1e3
C_S = float(os.environ["BENCHMARK_C_MS"]) / 1e3


def infer(batch_size: int) -> None:
    """Take t(b) = a + c·b, as the environment has it."""
    time.sleep(A_S + C_S * batch_size)
