"""How many threads a worker has for its numbers, and that they keep no core busy for nothing."""

BLAS_SPIN = "16"
"""OPENBLAS_THREAD_TIMEOUT: for 2**16 cycles, 25 µs, numpy's threads spin after each call, and then
sleep. By itself OpenBLAS has them spin for 2**26, 25 ms, when numpy is imported, too: on cores that
other workers could use. (Two threads, a product of 128 x 128 matrices every millisecond: 1,160 µs
of the processor each as it is by itself, 170 so, and 15 µs more until the result; as many in a row
take the same time, 31 µs each.)"""


def threads_per_process(cores: int, processes: int) -> int:
    """What OMP_NUM_THREADS should be for each of so many processes."""
    return max(1, cores // processes)
